"""Replays in a process of their own, with limits of time and memory, so that a server is not kept busy by one.

The process reads one document on its standard input and writes one on its standard output.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sys
from contextlib import suppress
from typing import Any, Final

from openpai.protocol.errors import Broken, PaiError, Refused
from openpai.scheduler.config.reading import read_config
from openpai.simulator.formats import read_ours, write_ours
from openpai.simulator.report import Report
from openpai.simulator.simulate import simulate
from openpai.simulator.trace import Trace
from openpai.simulator.whatif import changed, parse_what_if

LIMIT_S: Final = 60.0
MEMORY_MAX: Final = 4 * 2**30
_NICE: Final = 10


async def compare_apart(config: str, trace: Trace, what_if: str, limit_s: float = LIMIT_S) -> tuple[Report, Report]:
    """Return the reports of two replays: with a configuration in HiveD's format, and with other promises.

    Raises Refused for changes that cannot be made, and for a history that takes longer than the limit.
    """
    order = json.dumps({"config": config, "trace": write_ours(trace), "what_if": what_if, "limit_s": limit_s})
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "openpai.simulator.apart",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        cwd="/", start_new_session=True,
    )  # fmt: skip
    try:
        async with asyncio.timeout(limit_s):
            output, _ = await process.communicate(order.encode())
    except TimeoutError:
        message = f"the simulation of {len(trace.jobs)} jobs did not end within {limit_s:.0f} s"
        raise Refused("InvalidParametersError", message, "ask for fewer days") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    if process.returncode or not output:
        raise Broken(f"the simulation ended with code {process.returncode}")
    found: dict[str, Any] = json.loads(output)
    if "code" in found:
        raise Refused(found["code"], found["message"], found.get("advice", ""))
    return Report.read(found["now"]), Report.read(found["then"])


def answer(text: str) -> dict[str, Any]:
    """Return the document for one that asks for a comparison; an error is a document, too."""
    order = json.loads(text)
    try:
        config = read_config(order["config"])
        other = changed(config, parse_what_if([order["what_if"]]))
        trace = read_ours(order["trace"])
        now = simulate(config, trace, "now")
        then = simulate(other.config, trace, order["what_if"], absent=other.absent, notes=other.notes)
    except PaiError as error:
        return error.as_dict()
    return {"now": now.as_dict(), "then": then.as_dict()}


def _limit(seconds: float) -> None:
    os.nice(_NICE)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    # If the server dies meanwhile, only this limit ends the process.
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 1))


if __name__ == "__main__":
    given = sys.stdin.read()
    _limit(json.loads(given)["limit_s"])
    json.dump(answer(given), sys.stdout)
