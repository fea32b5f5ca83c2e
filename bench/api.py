"""The list of jobs with a million of them in the store, and mixed requests while jobs run through.

`python -m bench.api --jobs 1000000 --database sqlite` fills a store, starts a server over it and asks: pages of the
list with every kind of filter, search and order, then a mix of requests at a fixed rate, of which a quarter are
submissions that run on simulated nodes. `--database postgres` starts a PostgreSQL of its own, and `--servers 3`
adds two servers that do not lead, over which the mix is spread. The bars: first page p95 100 ms, any page p95 300 ms,
a page without a limit below 200 KB, and 200 mixed requests/s with p99 below 200 ms.

Requests of the mix begin when they are due, whether or not the earlier ones are answered, and are measured from
then, so a server that falls behind is not spared by it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.filling import BEGAN_MS, CLUSTERS, WAITING, WITH_HISTORY, WORDS, fill, name_of, owner_of
from bench.server import Connection, Server, answer, job, percentile, platform

Params = dict[str, str]
LIST = "/api/v2/jobs"
FIRST_PAGES = ("first page", "first page of 20 with total")


def questions(chance: random.Random, count: int) -> dict[str, Callable[[], Params]]:
    """Return kinds of questions to the list; each asks for something else every time, so that nothing is remembered."""

    def number() -> int:
        return chance.randrange(count)

    def rare() -> str:
        return f"{number():07d}"

    total = {"withTotalCount": "true", "limit": "20"}
    orders = {
        f"order {field}": (lambda field=field: {"order": f"{field},{chance.choice(('ASC', 'DESC'))}", "limit": "20"})
        for field in (
            "jobName", "username", "vc", "retries", "totalTaskNumber", "totalGpuNumber", "state", "completionTime",
            "jobPriority",
        )
    }  # fmt: skip
    return {
        "first page": dict,
        "first page of 20 with total": lambda: total,
        "own jobs": lambda: {"username": owner_of(number()), **total},
        "jobs of three people": lambda: {"username": ",".join(owner_of(number()) for _ in range(3)), **total},
        "virtual clusters": lambda: {"vc": ",".join(chance.sample(CLUSTERS, 2)), **total},
        "waiting": lambda: {"state": "WAITING", **total},
        "failed": lambda: {"state": "FAILED", "offset": str(chance.randrange(1000)), **total},
        "search, one match": lambda: {"keyword": rare(), **total},
        "search, no match": lambda: {"keyword": f"zz{rare()}", **total},
        "search, many matches": lambda: {"keyword": f"{chance.choice(WORDS)}-{chance.choice(WORDS)}", **total},
        "search of two letters": lambda: {"keyword": chance.choice(("in", "ex", "tu", "bu")), **total},
        "tag": lambda: {"tagsContain": f"sweep-{chance.randrange(500)}", **total},
        "common tag": lambda: {"tagsContain": chance.choice(("paper", "baseline", "keep")), **total},
        "without tag": lambda: {"tagsNotContain": f"sweep-{chance.randrange(500)}", **total},
        "priorities": lambda: {"jobPriority": chance.choice(("default", "prod,test", "oppo,default")), **total},
        "between two times": lambda: {"submittedFrom": str(BEGAN_MS + number() * 900), **total},
        "archived": lambda: {"archived": "true", **total},
        "far down": lambda: {"offset": str(chance.randrange(count)), "limit": "20"},
        "search, sorted": lambda: {"keyword": chance.choice(WORDS), "order": "jobName,ASC", **total},
        "all filters, sorted": lambda: {
            "keyword": chance.choice(WORDS), "vc": "nlp,rl", "state": "FAILED,SUCCEEDED", "jobPriority": "prod,default",
            "tagsNotContain": "paper", "order": "totalGpuNumber,DESC", **total,
        },
        "tag, sorted": lambda: {"tagsContain": "keep", "order": "completionTime,DESC", **total},
        **orders,
    }  # fmt: skip


async def ask(connection: Connection, params: Params) -> tuple[float, bytes]:
    """Return how long a page took, in milliseconds, and the page."""
    query = "&".join(f"{name}={value}" for name, value in params.items())
    began = time.perf_counter()
    status, body = await connection.ask("GET", f"{LIST}?{query}")
    if status != 200:
        raise RuntimeError(f"{params}: {status} {body[:300]!r}")
    return (time.perf_counter() - began) * 1000, body


async def measure_lists(server: Server, count: int, times: int) -> dict[str, Any]:
    """Ask every kind of question this many times."""
    connection = await server.connect()
    chance = random.Random(7)
    kinds = {}
    page_bytes = 0
    for kind, make in questions(chance, count).items():
        took = []
        for _ in range(times):
            ms, body = await ask(connection, make())
            took.append(ms)
            page_bytes = max(page_bytes, len(body)) if kind == FIRST_PAGES[0] else page_bytes
        kinds[kind] = {"p50_ms": round(percentile(took, 0.5), 1), "p95_ms": round(percentile(took, 0.95), 1)}
        if kind == FIRST_PAGES[1]:
            kinds[kind]["first_ms"] = round(took[0], 1)
    connection.close()
    worst = max(kinds, key=lambda kind: kinds[kind]["p95_ms"])
    return {
        "first_page_p95_ms": max(kinds[kind]["p95_ms"] for kind in FIRST_PAGES),
        "worst_p95_ms": kinds[worst]["p95_ms"],
        "worst": worst,
        "page_kb": round(page_bytes / 1000, 1),
        "kinds": kinds,
    }


async def measure_long(server: Server, rows: int) -> dict[str, Any]:
    """Ask for one very long page, and see how long others wait meanwhile."""
    long, other = await server.connect(), await server.connect()
    task = asyncio.create_task(ask(long, {"limit": str(rows)}))
    waits = []
    while not task.done():
        began = time.perf_counter()
        await other.ask("GET", "/api/v2/info")
        waits.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(0.005)
    ms, body = await task
    long.close()
    other.close()
    found = len(json.loads(body))
    return {"rows": found, "took_ms": round(ms), "others_wait_max_ms": round(max(waits, default=0.0), 1)}


class Mix:
    """Requests as they come in on a busy day."""

    def __init__(self, count: int, seed: int) -> None:
        self._chance = random.Random(seed)
        self._count = count
        self._submitted = 0
        self._seed = seed
        self._weights = {
            "submit": 25, "detail": 22, "list": 20, "log": 10, "events": 8, "config": 6, "why": 5, "nodes": 4,
        }  # fmt: skip

    def next(self) -> tuple[str, str, str, bytes]:
        """Return kind, method, path and body of the next request."""
        [kind] = self._chance.choices(list(self._weights), list(self._weights.values()))
        return kind, *getattr(self, f"_{kind}")()

    def _recent(self) -> str:
        newest = self._count - WAITING
        return name_of(self._chance.randrange(max(newest - WITH_HISTORY, 0), newest))

    def _submit(self) -> tuple[str, str, bytes]:
        self._submitted += 1
        return "POST", LIST, job(f"mix-{self._seed}-{self._submitted:06d}")

    def _detail(self) -> tuple[str, str, bytes]:
        return "GET", f"{LIST}/{self._recent()}", b""

    def _list(self) -> tuple[str, str, bytes]:
        asked = self._chance.choice(("", "&withTotalCount=true", f"&username={owner_of(self._chance.randrange(1000))}"))
        return "GET", f"{LIST}?limit=20{asked}", b""

    def _log(self) -> tuple[str, str, bytes]:
        number = self._chance.randrange(max(self._submitted - 100, 1), self._submitted + 1) if self._submitted else 1
        place = "attempts/0/taskRoles/worker/taskIndex/0/attempts/0/logs/stdout?tail-mode=true"
        return "GET", f"{LIST}/mix-{self._seed}-{number:06d}/{place}", b""

    def _events(self) -> tuple[str, str, bytes]:
        return "GET", f"{LIST}/{self._recent()}/events", b""

    def _config(self) -> tuple[str, str, bytes]:
        return "GET", f"{LIST}/{self._recent()}/config", b""

    def _why(self) -> tuple[str, str, bytes]:
        return "GET", f"{LIST}/{name_of(self._count - 1 - self._chance.randrange(WAITING))}/why", b""

    def _nodes(self) -> tuple[str, str, bytes]:
        return "GET", "/api/v2/nodes", b""


class Load:
    """Sends the mix at a fixed rate over a growing set of connections."""

    def __init__(self, servers: list[Server], mix: Mix) -> None:
        self._servers = servers
        self._mix = mix
        self._idle: dict[str, list[tuple[float, Connection]]] = {server.url: [] for server in servers}
        self.took: dict[str, list[float]] = {}
        self.failed: dict[str, int] = {}

    async def run(self, per_s: float, seconds: float) -> float:
        """Send for so long; return how long it took until all was answered, in seconds."""
        began = time.perf_counter()
        asked = []
        for number in range(int(per_s * seconds)):
            due = began + number / per_s
            await asyncio.sleep(max(due - time.perf_counter(), 0))
            asked.append(asyncio.create_task(self._one(self._servers[number % len(self._servers)], due)))
        await asyncio.gather(*asked)
        return time.perf_counter() - began

    async def _one(self, server: Server, due: float) -> None:
        kind, method, path, body = self._mix.next()
        connection = self._rested(server) or await server.connect()
        status, text = await connection.ask(method, path, body)
        self.took.setdefault(kind, []).append((time.perf_counter() - due) * 1000)
        self._idle[server.url].append((time.perf_counter(), connection))
        # A job that was submitted a moment ago may have no log yet.
        if status >= 400 and not (kind == "log" and status == 404):
            message = f"{kind}: {status} {text[:120].decode()}"
            self.failed[message] = self.failed.get(message, 0) + 1

    def _rested(self, server: Server) -> Connection | None:
        # Servers hang up on connections that were idle for five seconds.
        while self._idle[server.url]:
            since, connection = self._idle[server.url].pop()
            if time.perf_counter() - since < 3:
                return connection
            connection.close()
        return None

    def figures(self) -> dict[str, Any]:
        """Return how long requests took, together and by kind."""
        every = [ms for took in self.took.values() for ms in took]
        kinds = {kind: _summed(took) for kind, took in sorted(self.took.items())}
        return {**_summed(every), "failed": self.failed, "kinds": kinds}


def _summed(took: list[float]) -> dict[str, float]:
    shares = {"p50_ms": percentile(took, 0.5), "p99_ms": percentile(took, 0.99), "max_ms": max(took)}
    return {"requests": len(took), **{name: round(ms, 1) for name, ms in shares.items()}}


async def measure_mix(servers: list[Server], options: argparse.Namespace) -> dict[str, Any]:
    """Send the mix, after a few seconds of it that are not counted, and count the jobs that ran through."""
    await Load(servers, Mix(options.jobs, 1)).run(options.rate, min(options.seconds, 5))
    done_before, cpu_before = await _done(servers[0]), sum(server.cpu_s() for server in servers)
    load = Load(servers, Mix(options.jobs, 2))
    took_s = await load.run(options.rate, options.seconds)
    cpu_s = sum(server.cpu_s() for server in servers) - cpu_before
    done = await _done(servers[0]) - done_before
    figures = load.figures()
    return {
        "servers": len(servers),
        "requests_per_s": round(figures["requests"] / took_s, 1),
        "jobs_through_per_s": round(done / took_s, 1),
        "server_cores": round(cpu_s / took_s, 2),
        "server_memory_mb": [server.memory_mb() for server in servers],
        **figures,
    }


async def _done(server: Server) -> int:
    found = await server.get(f"{LIST}?username=admin&state=SUCCEEDED&withTotalCount=true&limit=1")
    return int(found["totalCount"])


@contextmanager
def database(kind: str, root: Path) -> Iterator[str]:
    """Yield the URL of an empty database."""
    if kind == "sqlite":
        yield f"sqlite:///{root / 'jobs.db'}"
        return
    from tests.postgres import fresh_database, postgres

    # The default of 128 MB is meant to be raised; docs/admin.md says so for clusters that remember many jobs.
    with postgres(shared_buffers="1GB") as server, fresh_database(server, "bench") as url:
        yield url


@asynccontextmanager
async def servers(options: argparse.Namespace, url: str, root: Path) -> AsyncIterator[list[Server]]:
    """Run a server that leads and, if asked for, others over the same store and logs that do not."""
    extra = ("--database-url", url, "--backend", "simulated", "--nodes", "64")
    async with AsyncExitStack() as stack:
        places = [root / f"server-{number}" for number in range(options.servers)]
        for place in places:
            place.mkdir()
        first = await stack.enter_async_context(platform(*extra, keep=places[0]))
        found = [first]
        for place in places[1:]:
            more = ("--api-only", "--data-dir", str(first.data_dir))
            found.append(await stack.enter_async_context(platform(*extra, *more, keep=place)))
        yield found


async def measure(options: argparse.Namespace) -> None:
    with TemporaryDirectory(prefix="pai-bench-", dir=options.dir) as directory:
        root = Path(directory)
        with nullcontext(options.url) if options.url else database(options.database, root) as url:
            began = time.perf_counter()
            if not options.url:
                fill(url, options.jobs)
            filled_s = time.perf_counter() - began
            async with servers(options, url, root) as found:
                figures: dict[str, Any] = {"database": options.database, "jobs": options.jobs}
                figures["filled_s"] = round(filled_s, 1)
                if not options.skip_lists:
                    figures |= await measure_lists(found[0], options.jobs, options.times)
                    figures["long_page"] = await measure_long(found[0], 50_000)
                mix = await measure_mix(found, options)
                answer(**figures, mix_p99_ms=mix["p99_ms"], mix_per_s=mix["requests_per_s"], mix=mix)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--url", help="a store that `fill` filled with --jobs jobs, instead of a new one")
    parser.add_argument("--times", type=int, default=20, help="how often each kind of question is asked")
    parser.add_argument("--rate", type=float, default=200, help="mixed requests per second")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--servers", type=int, default=1, help="servers over one store; the first one leads")
    parser.add_argument("--skip-lists", action="store_true")
    parser.add_argument("--dir", help="directory for the store, which takes some 3 GB per million jobs")
    asyncio.run(measure(parser.parse_args()))
