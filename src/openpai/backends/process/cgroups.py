"""Finds where the server can create cgroups that limit memory, and names their files.

Both versions of cgroups are supported. A cgroup of version 2 that contains processes cannot limit others, so a server
with a delegated cgroup (from a service manager) first moves into a child of it. A server without one creates a cgroup
at the top, which only root may do, or at the highest level where it may.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from openpai.system.kernel_files import processes_in, read_text

_MEMORY: Final = "memory"
_CONTROLLERS: Final = "cgroup.controllers"
_SWITCHES: Final = "cgroup.subtree_control"
_PROCESSES: Final = "cgroup.procs"
_CORNER: Final = "openpai-server"


@dataclass(frozen=True, slots=True)
class Generation:
    """The names of the files of a cgroup. Those in `fixed` are written once where they exist."""

    number: int
    entry: str
    """A process that writes 0 here moves into the cgroup."""
    limit: str
    limit_with_swap: str
    """Empty if swap has a limit of its own."""
    usage: str
    events: str
    """Has a line `oom_kill N`: the number of processes killed here for memory."""
    fixed: tuple[tuple[str, str], ...] = ()


# A shell that moves only itself, by `tasks`, need not wait for a synchronisation of all processors; version 2 moves
# only whole processes. Where swap cannot be limited, ask the kernel to swap as little as possible.
FIRST: Final = Generation(
    1,
    entry="tasks",
    limit="memory.limit_in_bytes",
    limit_with_swap="memory.memsw.limit_in_bytes",
    usage="memory.usage_in_bytes",
    events="memory.oom_control",
    fixed=(("memory.swappiness", "0"),),
)
SECOND: Final = Generation(
    2,
    entry=_PROCESSES,
    limit="memory.max",
    limit_with_swap="",
    usage="memory.current",
    events="memory.events",
    fixed=(("memory.swap.max", "0"), ("memory.oom.group", "1")),
)


@dataclass(frozen=True, slots=True)
class Home:
    """A cgroup of this server, in which the cgroups of tasks are created."""

    path: str
    generation: Generation


@dataclass(frozen=True, slots=True)
class _Place:
    path: str
    generation: Generation
    is_own: bool


def find_home(root: str, proc: Path = Path("/proc/self")) -> Home | None:
    """Return the cgroup for the tasks below `root`, created if necessary; None if none can limit memory."""
    name = f"openpai-{hashlib.sha256(root.encode()).hexdigest()[:16]}"
    try:
        mounts, own = (proc / "mountinfo").read_text(), (proc / "cgroup").read_text()
    except OSError:
        return None
    for place in _places(mounts, own):
        with contextlib.suppress(OSError):
            if place.generation is SECOND:
                _let_limit(place)
            home = f"{place.path}/{name}"
            _make(home)
            if place.generation is SECOND:
                _switch_on(home)
            if os.access(f"{home}/{place.generation.limit}", os.W_OK):
                return Home(home, place.generation)
    return None


def write(path: str, text: str) -> None:
    """Write an existing control file. Raise OSError if the system does not accept it."""
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def _places(mounts: str, own: str) -> Iterator[_Place]:
    """Yield the places to try, in order, from the texts of /proc/self/mountinfo and /proc/self/cgroup."""
    paths = {
        controller: path
        for line in own.splitlines()
        for _, names, path in [line.split(":", 2)]
        for controller in names.split(",")
    }
    for line in mounts.splitlines():
        here, _, kind = line.partition(" - ")
        root, mount = here.split()[3:5]
        words = kind.split()
        if words[0] == "cgroup2":
            generation, path = SECOND, paths.get("", "/")
        elif words[0] == "cgroup" and _MEMORY in words[-1].split(","):
            generation, path = FIRST, paths.get(_MEMORY, "/")
        else:
            continue
        inside = path.removeprefix(root.rstrip("/")) if path.startswith(root) else "/"
        levels = inside.strip("/").split("/") if inside.strip("/") else []
        # Root's tasks belong at the top, where they do not end with a login. A server that may not write there may have
        # a delegated level in between.
        for depth in dict.fromkeys((len(levels), 0, *range(len(levels) - 1, 0, -1))):
            yield _Place("/".join((mount, *levels[:depth])), generation, is_own=depth == len(levels))


def _let_limit(place: _Place) -> None:
    """Enable memory limits in the children of this cgroup; move to a child if the server is alone in it."""
    if _MEMORY not in read_text(f"{place.path}/{_CONTROLLERS}").split():
        raise FileNotFoundError(errno.ENOENT, "no memory controller", place.path)
    try:
        _switch_on(place.path)
    except OSError as error:
        if error.errno != errno.EBUSY or not place.is_own or processes_in(place.path) != [os.getpid()]:
            raise
        corner = f"{place.path}/{_CORNER}"
        _make(corner)
        write(f"{corner}/{_PROCESSES}", "0")
        _switch_on(place.path)


def _switch_on(cgroup: str) -> None:
    if _MEMORY not in read_text(f"{cgroup}/{_SWITCHES}").split():
        write(f"{cgroup}/{_SWITCHES}", f"+{_MEMORY}")


def _make(cgroup: str) -> None:
    with contextlib.suppress(FileExistsError):
        Path(cgroup).mkdir()
