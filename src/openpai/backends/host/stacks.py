"""What the processes of a task do at the moment: their states, where they wait in the kernel, and their own stacks.

Stacks of Python programs come from py-spy, where that is installed beside the server; it reads them without stopping
the program. The stack in the kernel can be read by root only. Plain blocking functions, meant for a thread.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from openpai.protocol.wording import cut, harmless, harmless_line

PROCESSES_MAX: Final = 20
SPIED_MAX: Final = 4
_SPY_S: Final = 5.0
_STACK_BYTES: Final = 16 * 1024
_COMMAND_MAX: Final = 200
_STATES: Final = {"R": "running", "S": "sleeping", "D": "waiting for a disk or device", "T": "stopped", "t": "traced"}


def stacks_of(pids: Sequence[int], proc: str = "/proc") -> tuple[str, str]:
    """Return what processes do as text, and in a few words that of the one that says most."""
    spy = shutil.which("py-spy")
    lines: list[str] = []
    found: list[tuple[int, str]] = []
    spied = 0
    for pid in sorted(pids)[:PROCESSES_MAX]:
        state, summary = _summary(pid, proc)
        if not state:
            continue
        found.append((_weight(state, summary), summary))
        lines.append(summary)
        lines += [f"    {line}" for line in _text(f"{proc}/{pid}/stack").splitlines()[:PROCESSES_MAX]]
        if spy and spied < SPIED_MAX and "python" in Path(_link(f"{proc}/{pid}/exe")).name:
            spied += 1
            lines += [f"    {line}" for line in _spied(spy, pid).splitlines()]
    if len(pids) > PROCESSES_MAX:
        lines.append(f"and {len(pids) - PROCESSES_MAX} more processes")
    return "\n".join(lines), max(found, default=(0, ""))[1]


def _summary(pid: int, proc: str) -> tuple[str, str]:
    state = _text(f"{proc}/{pid}/stat").rpartition(")")[2].split()[:1]
    if not state:
        return "", ""
    command = _text(f"{proc}/{pid}/cmdline").replace("\0", " ").strip() or _text(f"{proc}/{pid}/comm").strip()
    waits = _text(f"{proc}/{pid}/wchan").strip()
    where = f", in {waits}" if waits not in ("", "0") else ""
    what = _STATES.get(state[0], f"in state {state[0]}")
    return state[0], f"process {pid} ({cut(harmless_line(command), _COMMAND_MAX)}) is {what}{harmless_line(where)}"


def _weight(state: str, summary: str) -> int:
    """Return how much a process says: a stopped one most, a shell that waits for its child least."""
    return 3 if state in "Tt" else 2 if state in "DR" else 0 if "do_wait" in summary else 1


def _spied(spy: str, pid: int) -> str:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(  # noqa: S603  # our own words
            [spy, "dump", "--nonblocking", "--pid", str(pid)], capture_output=True, timeout=_SPY_S, check=False
        )
        return harmless(done.stdout[:_STACK_BYTES].decode(errors="replace"))
    return ""


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read(_STACK_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _link(path: str) -> str:
    with contextlib.suppress(OSError):
        return str(Path(path).readlink())
    return ""
