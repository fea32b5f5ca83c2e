"""Starts `pai` from a process that has imported it: most of the start of a server is importing the same again.

The process that has imported makes each new one as its sibling (CLONE_PARENT), so that it is a child of the tests as
any other that they start: they wait for it, signal it and learn how it ended. When the tests end, even by SIGKILL, what
they have started so and left running ends, too. What tests the start of the command itself uses `PAI`, as do machines
other than Linux on x86-64.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, Final

from pwdlib.hashers.argon2 import Argon2Hasher

from openpai.diagnosis.rules import built_in
from openpai.identity import passwords

PAI: Final = [sys.executable, "-c", "from openpai.app.main import run; run()"]
_SERVER: Final = """
import sys
from tests.fork_server import serve
serve(int(sys.argv[1]))()
"""
_IMPORTED: Final = (
    "openpai.app.main",
    "openpai.app.up",
    "openpai.app.console",
    "openpai.app.serve",
    "openpai.app.entrances",
    "openpai.api.app",
    "openpai.app.settings_check",
    "openpai.app.settings_shown",
    "openpai.backends.process.backend",
    "alembic.command",
    "alembic.config",
    "uvicorn.lifespan.off",
    "uvloop",
)
_ROOT: Final = Path(__file__).resolve().parents[1]
_IS_POSSIBLE: Final = (sys.platform, platform.machine()) == ("linux", "x86_64")
_CLONE: Final = 56
_CLONE_PARENT: Final = 0x00008000
_CLONE_PIDFD: Final = 0x00001000


def start_pai(
    words: Sequence[str], env: Mapping[str, str], log: IO[bytes], constants: Mapping[str, float] = {}
) -> subprocess.Popen[bytes]:
    """Start `pai` with these words in a session of its own; what it prints goes to the log.

    `constants` replaces some of its constants, by module and name: a test need not wait for what is rare on purpose.
    """
    return start("openpai.app.main:run", words, env, log, constants)


def start(
    place: str, words: Sequence[str], env: Mapping[str, str], log: IO[bytes], constants: Mapping[str, float] = {}
) -> subprocess.Popen[bytes]:
    """Start the function at a place, `module:function`, in the same way; it finds the words in `sys.argv`."""
    if _IS_POSSIBLE:
        return _Forked(place, words, env, log, constants)
    code = "import sys; from tests.fork_server import _function; sys.argv[0] = 'pai'; _function({!r}, {!r})()"
    command = [sys.executable, "-c", code.format(place, dict(constants)), *words]
    own = {**env, "PYTHONPATH": str(_ROOT)}
    return subprocess.Popen(command, env=own, stdout=log, stderr=log, start_new_session=True)


def _function(place: str, constants: Mapping[str, float]) -> Callable[[], object]:
    """Return the function at a place, once some constants have other values."""
    replace_constants(constants)
    module, _, name = place.partition(":")
    found: Callable[[], object] = getattr(importlib.import_module(module), name)
    return found


def replace_constants(constants: Mapping[str, float]) -> None:
    """Give constants of this process other values, by module and name."""
    for path, value in constants.items():
        module, _, name = path.rpartition(".")
        assert hasattr(importlib.import_module(module), name), path
        setattr(importlib.import_module(module), name, value)


def use_cheap_hashes() -> None:
    """Have this process hash passwords in no time, which takes a tenth of a second on purpose."""
    passwords._hasher = Argon2Hasher(time_cost=1, memory_cost=8, parallelism=1)


class _Forked(subprocess.Popen[bytes]):
    """A child for which no program was executed."""

    def __init__(
        self, place: str, words: Sequence[str], env: Mapping[str, str], log: IO[bytes], constants: Mapping[str, float]
    ) -> None:
        self._request = json.dumps([place, list(words), dict(env), str(Path.cwd()), dict(constants)]).encode()
        self._log = log
        super().__init__([place, *words])

    def _execute_child(self, *_: Any, **__: Any) -> None:
        """Have it made, where Popen would execute a program."""
        server = _server()
        socket.send_fds(server, [len(self._request).to_bytes(4, "big")], [self._log.fileno()])
        server.sendall(self._request)
        self.pid = int.from_bytes(server.recv(4), "big")
        self._child_created = True


@cache
def _server() -> socket.socket:
    """Return the connection to the process that has imported `pai`; it ends with this one."""
    here, there = socket.socketpair()
    command = [sys.executable, "-c", _SERVER, str(there.fileno())]
    subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.DEVNULL, pass_fds=[there.fileno()], start_new_session=True)
    there.close()
    return here


def serve(fd: int) -> Callable[[], object]:
    """Make processes until the tests end; return in each of them, with the function that it is to run."""
    for name in _IMPORTED:
        importlib.import_module(name)
    built_in()
    use_cheap_hashes()
    # Nothing of what is shared is looked through again, which would copy it.
    gc.collect()
    gc.freeze()
    clone = ctypes.CDLL(None, use_errno=True).syscall
    before, after_in_parent, after_in_child = (
        getattr(ctypes.pythonapi, f"PyOS_{name}") for name in ("BeforeFork", "AfterFork_Parent", "AfterFork_Child")
    )
    made: list[int] = []
    pid = -1
    with socket.socket(fileno=fd) as tests:
        while True:
            size, fds, _, _ = socket.recv_fds(tests, 4, 1)
            request = tests.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL) if size else b""
            if not request or len(request) < int.from_bytes(size, "big"):
                break
            made = [process for process in made if _is_known(process)]
            process = ctypes.c_int()
            before()
            pid = clone(_CLONE, _CLONE_PARENT | _CLONE_PIDFD, 0, ctypes.byref(process), 0, 0)
            if not pid:
                after_in_child()
                break
            after_in_parent()
            os.close(fds[0])
            if pid < 0:
                raise OSError(ctypes.get_errno(), "clone")
            made.append(process.value)
            try:
                tests.sendall(pid.to_bytes(4, "big"))
            except OSError:
                break
    if pid:
        _kill(made)
        os._exit(0)
    for other in made:
        os.close(other)
    place, words, env, cwd, constants = json.loads(request)
    _become(words, env, cwd, fds[0])
    return _function(place, constants)


def _is_known(process: int) -> bool:
    """Return whether the tests may still wait for a process; else close its descriptor."""
    try:
        signal.pidfd_send_signal(process, 0)
    except ProcessLookupError:
        os.close(process)
        return False
    return True


def _kill(made: Sequence[int]) -> None:
    for process in made:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)


def _become(words: list[str], env: dict[str, str], cwd: str, log: int) -> None:
    os.setsid()
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    os.chdir(cwd)
    sys.argv[1:] = words
