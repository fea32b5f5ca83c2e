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

from openpai.protocol.wording import harmless
from openpai.runtime.inspecting import ProcessState, ProcessSummary, described, most_telling

PROCESSES_MAX: Final = 20
SPIED_MAX: Final = 4
_SPY_S: Final = 5.0
_STACK_BYTES: Final = 16 * 1024


def stacks_of(pids: Sequence[int], proc: str = "/proc") -> tuple[str, ProcessSummary]:
    """Return what processes do as text, and in short that of the one that says most."""
    spy = shutil.which("py-spy")
    lines: list[str] = []
    found: list[ProcessState] = []
    spied = 0
    for pid in sorted(pids)[:PROCESSES_MAX]:
        process = _state(pid, proc)
        if process is None:
            continue
        found.append(process)
        kernel = _text(f"{proc}/{pid}/stack").splitlines()[:PROCESSES_MAX]
        if spy and spied < SPIED_MAX and "python" in Path(_link(f"{proc}/{pid}/exe")).name:
            spied += 1
            process.stack = _spied(spy, pid).splitlines()
        lines += [described(process), *(f"    {line}" for line in (*kernel, *process.stack))]
    if len(pids) > PROCESSES_MAX:
        lines.append(f"and {len(pids) - PROCESSES_MAX} more processes")
    return "\n".join(lines), most_telling(found)


def _state(pid: int, proc: str) -> ProcessState | None:
    state = _text(f"{proc}/{pid}/stat").rpartition(")")[2].split()[:1]
    if not state:
        return None
    command = _text(f"{proc}/{pid}/cmdline").replace("\0", " ").strip() or _text(f"{proc}/{pid}/comm").strip()
    return ProcessState(pid, state[0], command, _text(f"{proc}/{pid}/wchan").strip())


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
