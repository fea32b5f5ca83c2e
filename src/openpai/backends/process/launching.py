"""Starts task attempts: the files the wrapper reads, the environment it gets, and the process itself."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from openpai.backends.host.checkpoints import CheckpointDirectories
from openpai.backends.host.directory import (
    ENTRY_FILE,
    HOME_DIRECTORY,
    USERS_FILE,
    WORK_DIRECTORY,
    LaunchRecord,
    make_directory,
)
from openpai.backends.host.hosts import SharedHosts
from openpai.backends.host.machine import NO_GPUS, Gpus
from openpai.backends.process.attempts import ProcessAttempt
from openpai.backends.process.confining import Namespaces
from openpai.backends.process.dropping import TaskUser, group_of
from openpai.backends.process.memory import entry_of
from openpai.backends.process.mounting import mount_all
from openpai.backends.process.processes import MARKER, boot_id, keep_descriptors, kill_group, spawn
from openpai.ports.backend import LaunchTask
from openpai.runtime.notice import CHECKPOINT_VARIABLE, NOTICE_FILE, NOTICE_VARIABLE
from openpai.runtime.progress import PROGRESS_FILE, PROGRESS_VARIABLE
from openpai.runtime.script import HOSTS_FILE, LAUNCHER, user_script, wrapper
from openpai.runtime.unpacking import CODE_VARIABLE

_SHELL: Final = "/bin/sh"
_WRAPPER_FILE: Final = ".wrapper.sh"
# The server's own environment may hold its secrets, so only what a program needs to work here is passed on.
_INHERITED: Final = (
    "CUDA_HOME",
    "HOME",
    "LANG",
    "LANGUAGE",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "PATH",
    "REQUESTS_CA_BUNDLE",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
)
_OF_THE_SERVER: Final = ("HOME", "LOGNAME", "SHELL", "TMPDIR", "USER")
"""The variables of these that another user cannot use."""
_OF_THE_PLATFORM: Final = ("PAI_", "FC_", "CUDA_", "NVIDIA_")
_STREAMS: Final = ("stdout", "stderr")
_INHERITED_PREFIXES: Final = ("LC_",)
_OOM_SCORE: Final = Path("/proc/self/oom_score_adj")
"""How the system rates a process when memory runs out; children inherit it."""


class Launcher:
    """Prepares and starts the wrappers of task attempts below one root."""

    boot: str
    """Identifies the time since the system was started."""
    ordinary: str
    """The commands with which a shell gets the limits, umask and priority of tasks."""

    def __init__(
        self,
        root: str,
        logs_root: str,
        checkpoints: CheckpointDirectories,
        *,
        has_users: bool = False,
        namespaces: Namespaces | None = None,
        gpus: Gpus = NO_GPUS,
    ) -> None:
        self._logs_root = logs_root
        self._checkpoints = checkpoints
        self._gpus = gpus
        self._namespaces = namespaces
        self._wrapper = f"{root}/{_WRAPPER_FILE}"
        self._hosts = SharedHosts(root)
        self.boot = boot_id()
        # A shell reads its script while it runs, so a newer text must be a new file.
        fresh = Path(f"{self._wrapper}.new")
        # The server raises its own limit of open files; tasks get the limit it was started with.
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        limit = "unlimited" if files == resource.RLIM_INFINITY else str(files)
        keep_descriptors()
        self.ordinary = _ordinary(limit)
        fresh.write_text(f"{self.ordinary}{wrapper()}")
        fresh.replace(self._wrapper)
        self._inherited = {
            name: value
            for name, value in os.environ.items()
            if name in _INHERITED or name.startswith(_INHERITED_PREFIXES)
            if not has_users or name not in _OF_THE_SERVER
        }
        self._prefix = _signal_resetter()
        self._silence = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)

    def close(self) -> None:
        """Close the files that launches share."""
        os.close(self._silence)

    def launch(
        self, attempt: ProcessAttempt, action: LaunchTask, now_ms: int, *, user: TaskUser | None, spare: str | None
    ) -> tuple[int, int]:
        """Start a task attempt and return its wrapper's process number and a pidfd that holds it.

        It runs as `user`, None for the server's own. `spare` is a task directory to reuse.

        Raise OSError if the machine does not allow it now and ValueError if it never will.
        """
        directory = attempt.directory
        record = LaunchRecord(action.grant, action.node, action.devices, now_ms, self.boot, attempt.cgroup)
        logs = f"{self._logs_root}/{action.key.path()}"
        make_directory(logs)
        shared = self._hosts.file_of(action.hosts)
        directory.prepare(record, user_script(action.commands), action.hosts, spare, shared)
        work = f"{directory.path}/{WORK_DIRECTORY}"
        own = user.environment(f"{directory.path}/{HOME_DIRECTORY}") if user else {}
        if user is not None:
            _require_harmless(action.env)
        environment = {**self._inherited, **own, **action.shared_env, **action.env, MARKER: directory.path}
        if self._gpus.names and action.devices:
            names = self._gpus.visible(action.devices)
            environment |= {"CUDA_VISIBLE_DEVICES": names, "NVIDIA_VISIBLE_DEVICES": names}
        if action.code:
            environment[CODE_VARIABLE] = directory.take_code(action.code)
        if action.hosts:
            environment["PAI_HOSTS_FILE"] = f"{directory.path}/{HOSTS_FILE}"
        environment[NOTICE_VARIABLE] = f"{directory.path}/{NOTICE_FILE}"
        environment[PROGRESS_VARIABLE] = f"{directory.path}/{PROGRESS_FILE}"
        environment[CHECKPOINT_VARIABLE] = self._checkpoints.make(action.key, user.uid if user else -1)
        is_private = user is not None and self._namespaces is not None
        owner = user.uid if user else -1
        mounted = mount_all(action.mounts, directory.path, work, _SHELL, owner=owner, is_private=is_private)
        environment |= mounted.environment
        launcher, prefix = self._prefix, mounted.prefix
        if user is not None:
            launcher = f"{user.prefix(action.key.job)} {launcher}"
            _hand_over(attempt, logs, user)
            if self._namespaces is not None:
                # Storages are mounted inside the namespaces; the wrapper stays outside.
                entry = self._namespaces.entry(directory.path, mounted.binds, launcher, action.shm_mb)
                _write_entry(attempt, user, entry)
                launcher, prefix = self._namespaces.launcher, ()
        pid = spawn(
            (
                *prefix,
                _SHELL,
                self._wrapper,
                directory.path,
                logs,
                work,
                f"{action.grace_s:g}",
                launcher,
                entry_of(attempt.cgroup),
            ),
            environment,
            self._silence,
        )
        try:
            return pid, os.pidfd_open(pid)
        except OSError:
            # An attempt that cannot be watched must not run.
            kill_group(pid)
            os.waitpid(pid, 0)
            raise


def _ordinary(files_max: str) -> str:
    """Return the commands that give a task the umask of a container, and none of the privileges of the server.

    A service that is protected from the system's lack of memory, or goes before others, must not pass that on.
    """
    lines = [f"ulimit -S -n {files_max} 2>/dev/null", "umask 022"]
    if os.getpriority(os.PRIO_PROCESS, 0) < 0:
        lines.append('renice 0 -p "$$" >/dev/null 2>&1')
    with contextlib.suppress(OSError, ValueError):
        if int(_OOM_SCORE.read_text()) < 0:
            lines.append(f"{{ echo 0 >{_OOM_SCORE}; }} 2>/dev/null")
    return "".join(f"{line}\n" for line in lines)


def _require_harmless(environment: Mapping[str, str]) -> None:
    """Raise ValueError for a variable that could make the wrapper, which is root, run a job's code."""
    for name in environment:
        if not name.startswith(_OF_THE_PLATFORM):
            message = (
                f"variable {name} cannot be given to a task that is another user's than the server; export it instead"
            )
            raise ValueError(message)


def _write_entry(attempt: ProcessAttempt, user: TaskUser, entry: str) -> None:
    """Write the script that sets up the namespaces of a task, and the users in them."""
    directory = attempt.directory
    directory.write(ENTRY_FILE, entry)
    directory.write(USERS_FILE, user.passwd(attempt.key.job, f"{directory.path}/{HOME_DIRECTORY}"))
    os.chmod(f"{directory.path}/{USERS_FILE}", 0o644)  # noqa: PTH101  # as its like in /etc


def _hand_over(attempt: ProcessAttempt, logs: str, user: TaskUser) -> None:
    """Give a task's directory to its user, and make its streams files that the user may open again."""
    for name in _STREAMS:
        file = os.open(f"{logs}/{name}.log", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.fchown(file, user.uid, -1)
        finally:
            os.close(file)
    attempt.directory.hand_over(user.uid, group_of(attempt.key.job))


def _signal_resetter() -> str:
    """Return the words to put before a command so that it receives SIGINT and SIGQUIT, empty if there are none.

    Searched once, because searching PATH for each task would cost a tenth of its start.
    """
    program = shutil.which(LAUNCHER[0])
    if program is None:
        return ""
    ran = subprocess.run([program, *LAUNCHER[1:], "true"], check=False, capture_output=True)  # noqa: S603  # our own words
    if ran.returncode != 0:
        return ""
    # The wrapper splits it at spaces.
    return " ".join((LAUNCHER[0] if " " in program else program, *LAUNCHER[1:]))
