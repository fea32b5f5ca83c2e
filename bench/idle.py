"""What a server costs that has nothing to do. The bars are 150 MB and 1 % of a core."""

from __future__ import annotations

import argparse
import asyncio

from bench.server import answer, platform


async def measure(options: argparse.Namespace) -> None:
    async with platform("--backend", "process") as server:
        await asyncio.sleep(2)
        before = server.cpu_s()
        await asyncio.sleep(options.seconds)
        answer(
            seconds=options.seconds,
            core_percent=round((server.cpu_s() - before) / options.seconds * 100, 2),
            memory_mb=server.memory_mb(),
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30)
    asyncio.run(measure(parser.parse_args()))
