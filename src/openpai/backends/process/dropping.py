"""Runs tasks as a user without rights where the server is root: who that is, and how a task becomes that user.

The wrapper stays root's, and with it the task's ticket, its exit report and the directories of its logs: a task can
neither forge nor remove them. Only the job's own script becomes the user, in a group that no other job has. By that
group a task gets to its own directory and to no other job's, and the system keeps jobs from looking into each other's
processes, though they are one user: it asks for the same user and the same group.
"""

from __future__ import annotations

import grp
import hashlib
import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from openpai.protocol.errors import Refused

_GROUPS_FIRST: Final = 0x7000_0000
"""Where the groups of jobs begin: from here on up systems give groups to nobody, nor do containers."""
_GROUPS_MASK: Final = 0x0FFF_FFFF
_ROOT: Final = 0
_SHELL: Final = "/bin/sh"
"""What programs start for a task that ask for a shell: who may not log in has none of its own."""


@dataclass(frozen=True, slots=True)
class TaskUser:
    """Who tasks run as. `change` is the program that makes a process somebody else's."""

    name: str
    uid: int
    groups: tuple[int, ...]
    home: str
    change: str

    def prefix(self, job: str) -> str:
        """Return what to put before a command that a job's task shall run; without spaces in its words."""
        groups = ",".join(map(str, self.groups))
        return f"{self.change} --reuid={self.uid} --regid={group_of(job)} --groups={groups} --inh-caps=-all"

    def environment(self, work: str) -> Mapping[str, str]:
        """Return the variables that say who a task is; who has no home is at home where it works."""
        home = self.home if os.path.isdir(self.home) else work  # noqa: PTH112  # done for each task
        return {"HOME": home, "USER": self.name, "LOGNAME": self.name, "SHELL": _SHELL}

    def require_way_to(self, directory: str) -> None:
        """Raise Refused unless tasks can become this user and then get to `directory`."""
        command = [*self.prefix("").split(), "test", "-x", directory]
        # The server's own environment may hold its secrets.
        environment = {"PATH": os.environ.get("PATH", os.defpath)}
        asked = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)  # noqa: S603
        if asked.returncode == 0:
            return
        why = asked.stderr.strip()
        if why:
            told = f"tasks cannot become the user {self.name}: {why}"
            raise Refused("BadConfigurationError", told, "leave --task-user away, or start the server as a full root")
        raise Refused(
            "BadConfigurationError",
            f"the user {self.name} cannot get to {directory}",
            "give a --data-dir below directories that everybody may pass through, such as /var/lib/openpai",
        )


def find_user(name: str) -> TaskUser:
    """Return the user of this name. Raise Refused when there is none who could run tasks, or we may not change."""
    advice = "name a user of this machine without rights, such as one made by: useradd --system --create-home pai-task"
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise Refused("BadConfigurationError", f"there is no user {name!r} on this machine", advice) from None
    groups = tuple(sorted(os.getgrouplist(name, found.pw_gid)))
    if found.pw_uid == _ROOT:
        raise Refused("BadConfigurationError", f"the user {name} of --task-user is root", advice)
    if _ROOT in groups:
        told = f"the user {name} of --task-user is in the group {grp.getgrgid(_ROOT).gr_name}"
        raise Refused("BadConfigurationError", told, advice)
    change = shutil.which("setpriv")
    if change is None:
        told = "--task-user needs the program setpriv, which is not in PATH"
        raise Refused("BadConfigurationError", told, "install util-linux")
    return TaskUser(name, found.pw_uid, groups, found.pw_dir, change)


def group_of(job: str) -> int:
    """Return the number of the group that only this job's tasks are in."""
    return _GROUPS_FIRST + (int.from_bytes(hashlib.sha256(job.encode()).digest()[:4]) & _GROUPS_MASK)
