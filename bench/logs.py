"""Large logs: how long any part of one takes to read, and how long a search of one takes, beside `grep`.

`python -m bench.logs --gb 10 --search-gb 1` writes a log of 10 GB and one of 1 GB. The bars: any part of the first in
less than 300 ms (ranges of bytes, the last lines, and what was written since a time), and a search of the second in
less than 2 s. Searches find nothing but in the last line, so that all is searched. The figures are elapsed times over
HTTP.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from bench.server import Server, answer, job, percentile, platform

LINE: Final = b"2026-11-23T01:02:03.456Z INFO trainer: step %09d loss=%.5f lr=3.0e-4 tokens/s=182733 grad_norm=1.0\n"
LAST: Final = b"RuntimeError: CUDA out of memory. loss=nan\n"
SEARCHES: Final = {
    "text": {"text": "CUDA out of memory"},
    "case": {"text": "cuda OUT of memory", "ignore-case": "true"},
    "words": {"text": "RuntimeError|Traceback|nan", "regex": "true"},
    "slow": {"text": r"^Run.*CUDA.*\bnan\b", "regex": "true"},
}
DAY_MS: Final = 86_400_000
MOMENTS: Final = 50_000


async def ended(server: Server, name: str) -> str:
    """Run a job to its end, and return the path of its task's attempt."""
    connection = await server.connect()
    await connection.ask("POST", "/api/v2/jobs", job(name, "true"))
    connection.close()
    while True:
        detail = await server.get(f"/api/v2/jobs/{name}")
        if detail["jobStatus"]["state"] == "SUCCEEDED":
            found: str = detail["taskRoles"]["worker"]["taskStatuses"][0]["containerId"]
            return found
        await asyncio.sleep(0.1)


def write(directory: Path, size: int) -> int:
    """Write a log of about `size` bytes, with its lengths over the last day; return its size."""
    block = b"".join(LINE % (number, number / 1e7) for number in range(40_000))
    now_ms = int(time.time() * 1000)
    with (directory / "stdout.log").open("wb") as file, (directory / "moments").open("w") as moments:
        written = 0
        for _ in range(max(1, size // len(block))):
            written += file.write(block)
        written += file.write(LAST)
        for number in range(1, MOMENTS + 1):
            at_ms = now_ms - DAY_MS + DAY_MS * number // MOMENTS
            moments.write(f"{at_ms} {written * number // MOMENTS} 0 0\n")
    return written


async def timed(times: int, ask: Callable[[], Awaitable[object]]) -> list[float]:
    """Return how long each of so many requests took, in milliseconds."""
    took_ms = []
    for _ in range(times):
        began_s = time.perf_counter()
        await ask()
        took_ms.append((time.perf_counter() - began_s) * 1000)
    return took_ms


async def measure(gb: float, search_gb: float, times: int) -> None:
    """Measure, and print the figures."""
    chance = random.Random(1)
    async with platform("--log-max-mb", "0") as server:
        large, searched = await ended(server, "large"), await ended(server, "searched")
        size = write(server.data_dir / "logs" / large, int(gb * 1e9))
        write(server.data_dir / "logs" / searched, int(search_gb * 1e9))

        async def get(name: str, path: str = "", **params: object) -> bytes:
            # Another program may have taken a port of the first attempt.
            attempt = (large if name == "large" else searched).split(".")[1]
            place = f"/api/v2/jobs/{name}/attempts/{attempt}/taskRoles/worker/taskIndex/0/attempts/0/logs/stdout{path}"
            connection = await server.connect()
            status, body = await connection.ask("GET", f"{place}?{urlencode(params)}")
            connection.close()
            if status != 200:
                raise RuntimeError(body.decode())
            return body

        now_ms = int(time.time() * 1000)
        ways: dict[str, Callable[[], Awaitable[object]]] = {
            "range": lambda: get("large", offset=chance.randrange(size), limit=1 << 20),
            "tail_lines": lambda: get("large", **{"tail-lines": chance.randrange(1, 10_000)}),
            "tail_with_times": lambda: get("large", timestamps="true", **{"tail-lines": 1000}),
            "since": lambda: get("large", since=now_ms - chance.randrange(20_000)),
            "search_some": lambda: get("large", "/search", text="step 0000", limit=100),
        }
        figures: dict[str, float] = {}
        for name, ask in ways.items():
            took_ms = await timed(times, ask)
            figures[f"{name}_p95_ms"] = round(percentile(took_ms, 0.95), 1)
        figures["worst_p95_ms"] = max(figures.values())
        log = server.data_dir / "logs" / searched / "stdout.log"
        for name, params in SEARCHES.items():
            figures |= await search(server, name, params, log, times)
        figures["search_worst_s"] = max(figures[f"search_{name}_s"] for name in SEARCHES)
        answer(gb=gb, search_gb=search_gb, **figures)


async def search(server: Server, name: str, params: dict[str, str], log: Path, times: int) -> dict[str, float]:
    """Return how long a search took at best, what it cost the server, and what it costs `grep`."""
    attempt = log.parent.name.split(".")[1]
    place = f"/api/v2/jobs/searched/attempts/{attempt}/taskRoles/worker/taskIndex/0/attempts/0/logs/stdout/search"
    took_s = []
    cpu_before_s = server.cpu_s()
    for _ in range(max(2, times // 10)):
        began_s = time.perf_counter()
        connection = await server.connect()
        status, body = await connection.ask("GET", f"{place}?{urlencode(params)}")
        connection.close()
        took_s.append(time.perf_counter() - began_s)
        if status != 200 or body.count(b'"offset"') != 1:
            raise RuntimeError(body.decode()[:500])
    cpu_s = (server.cpu_s() - cpu_before_s) / len(took_s)
    kind = "-E" if "regex" in params else "-F"
    flags = [kind, *(["-i"] if "ignore-case" in params else [])]
    began_s = time.perf_counter()
    await asyncio.to_thread(
        subprocess.run, ["grep", *flags, "-c", "--", params["text"], str(log)], check=True, capture_output=True
    )
    return {
        f"search_{name}_s": round(min(took_s), 3),
        f"search_{name}_cpu_s": round(cpu_s, 3),
        f"grep_{name}_s": round(time.perf_counter() - began_s, 3),
    }


def main() -> None:
    """Measure with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gb", type=float, default=10)
    parser.add_argument("--search-gb", type=float, default=1)
    parser.add_argument("--times", type=int, default=30)
    options = parser.parse_args()
    asyncio.run(measure(options.gb, options.search_gb, options.times))


if __name__ == "__main__":
    main()
