"""Random changes while a proxy resets, freezes and expires watches, for `python -m bench.kubernetes --what soak`.

The cache has a process of its own, whose memory is measured: run as a program, this file is that process. It prints a
line once the cache is filled; for each line it reads, a JSON object of names and resource versions, it prints
whether the cache came to equal it, how often it listed, and its memory.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import random
import resource
import sys
import time
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any, Final

import structlog

from openpai.kube.client import KubeClient
from openpai.kube.config import ClusterAccess
from openpai.kube.objects import CONFIG_MAPS
from openpai.kube.reflector import Reflector
from openpai.system.allocator import give_memory_back

SPACE: Final = "bench"
PATIENCE_S: Final = 30
LINE_MAX: Final = 1024 * 1024


async def soak(client: KubeClient, options: argparse.Namespace) -> dict[str, Any]:
    """Change objects and disturb the watch until the time is over; compare the cache with a list at each check."""
    from tests.kube.proxy import BadProxy
    from tests.kube.test_watch import Writer, misbehave

    chance = random.Random(options.seed)
    writer = Writer(client, SPACE, chance)
    ends = time.monotonic() + options.soak_minutes * 60
    seen: list[dict[str, Any]] = []
    async with BadProxy(client.access) as proxy:
        cache = await _started(proxy.access)
        while time.monotonic() < ends:
            check_at = min(ends, time.monotonic() + options.check_s)
            while time.monotonic() < check_at:
                await asyncio.gather(*(writer.write() for _ in range(5)))
                if chance.random() < 0.2:
                    await misbehave(proxy, chance)
                proxy.requests.clear()
            proxy.is_frozen = proxy.cuts_lines = proxy.holds_bookmarks = False
            proxy.gone_by_status = 0
            listed = {one.name: one.metadata.resource_version for one in await client.list(CONFIG_MAPS, SPACE)}
            seen.append(await _ask(cache, listed))
        assert cache.stdin is not None
        cache.stdin.close()
        await cache.wait()
        ended = dict(proxy.ended)
    sizes = [each["memory_mb"] for each in seen]
    settled = sizes[len(sizes) // 4 :]
    return {
        "minutes": options.soak_minutes,
        "writes": writer.count,
        "checks": len(seen),
        "unequal": sum(not each["is_equal"] for each in seen),
        "lists": seen[-1]["lists"],
        "streams_ended": ended,
        "memory_mb": {"first": sizes[0], "after_a_quarter": settled[0], "last": sizes[-1], "most": max(sizes)},
        "memory_mb_every_5_minutes": sizes[:: max(1, round(300 / options.check_s))],
    }


async def _started(access: ClusterAccess) -> Process:
    words = (sys.executable, "-m", "bench.kubernetes_soak", access.server)
    process = await asyncio.create_subprocess_exec(*words, stdin=PIPE, stdout=PIPE)
    assert process.stdout is not None
    await process.stdout.readline()
    return process


async def _ask(cache: Process, listed: dict[str, str]) -> dict[str, Any]:
    assert cache.stdin is not None
    assert cache.stdout is not None
    cache.stdin.write(json.dumps(listed).encode() + b"\n")
    return dict(json.loads(await cache.stdout.readline()))


async def _keep_cache(server: str) -> None:
    # As the server does.
    give_memory_back()
    lines = asyncio.StreamReader(limit=LINE_MAX)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with (
        KubeClient(ClusterAccess(server=server)) as client,
        Reflector(client, CONFIG_MAPS, SPACE, quiet_s=2.0) as cache,
    ):
        print(json.dumps({}), flush=True)
        while line := await lines.readline():
            is_equal = await _comes_to_equal(cache, json.loads(line))
            found = {"is_equal": is_equal, "lists": cache.lists, "memory_mb": resident_mb()}
            print(json.dumps(found), flush=True)


async def _comes_to_equal(cache: Reflector[Any], listed: dict[str, str]) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            while {one.name: one.metadata.resource_version for one in cache} != listed:
                await asyncio.sleep(0.1)
            return True
    return False


def resident_mb() -> float:
    """Return the memory that this process uses."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * resource.getpagesize() / 1024**2, 1)


if __name__ == "__main__":
    # Each interruption is logged, and standard output is for the answers.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    asyncio.run(_keep_cache(sys.argv[1]))
