"""Runs tasks as users without rights where the server is root: chooses the user, and changes to it.

The wrapper stays root's, and with it the task's ticket, its exit report and the directories of its logs: a task can
neither forge nor remove them. Only the job's own script runs as the user, in a group that no other job has. By that
group a task reaches its own directory and no other job's. Jobs of one user cannot inspect each other's processes
either, because the system requires the same user and the same group for that.
"""

from __future__ import annotations

import grp
import hashlib
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from openpai.access.accounts import User
from openpai.backends.process.uids import UidRange, UidTable
from openpai.ports.backend import LaunchTask
from openpai.protocol.errors import BadConfiguration

_GROUPS_FIRST: Final = 0x7000_0000
"""The first group number of jobs: neither systems nor containers assign numbers from here on."""
_GROUPS_MASK: Final = 0x0FFF_FFFF
_ROOT: Final = 0
_SHELL: Final = "/bin/sh"
"""The shell of a task's user: a user that may not log in has none of its own."""
_USER: Final = "user"
_PLAIN_NAME: Final = re.compile(r"[a-z_][a-z0-9_.-]{0,30}")
_PASSWD: Final = Path("/etc/passwd")


@dataclass(frozen=True, slots=True)
class TaskUser:
    """The user that a task runs as. `change` is the program that changes the user of a process."""

    name: str
    uid: int
    groups: tuple[int, ...]
    change: str

    def prefix(self, job: str) -> str:
        """Return the words to put before a command of a job's task; no word has spaces."""
        groups = f"--groups={','.join(map(str, self.groups))}" if self.groups else "--clear-groups"
        who = f"--reuid={self.uid} --regid={group_of(job)} {groups}"
        # With no_new_privs a setuid bit has no effect, wherever the program comes from.
        return f"{self.change} {who} --inh-caps=-all --no-new-privs"

    def environment(self, home: str) -> Mapping[str, str]:
        """Return the variables that name a task's user."""
        return {"HOME": home, "USER": self.name, "LOGNAME": self.name, "SHELL": _SHELL}

    def passwd(self, job: str, home: str) -> str:
        """Return the text of an /etc/passwd with this user, for ssh, git and others."""
        known = _PASSWD.read_text()
        lines = [line for line in known.splitlines() if line.split(":")[2:3] != [str(self.uid)]]
        return "\n".join([*lines, f"{self.name}:x:{self.uid}:{group_of(job)}::{home}:{_SHELL}", ""])

    def require_way_to(self, directory: str, option: str) -> None:
        """Raise Refused, naming the option, unless tasks can become this user and then reach `directory`."""
        command = [*self.prefix("").split(), "test", "-x", directory]
        # The server's own environment may hold its secrets.
        environment = {"PATH": os.environ.get("PATH", os.defpath)}
        ran = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)  # noqa: S603
        if ran.returncode == 0:
            return
        why = ran.stderr.strip()
        if why:
            message = f"tasks cannot become the user {self.name}: {why}"
            raise BadConfiguration(message, f"leave {option} away, or start the server as a full root")
        raise BadConfiguration(
            f"the user {self.name} cannot get to {directory}",
            "give a --data-dir below directories that all users may enter, such as /var/lib/openpai",
        )


class TaskUsers(Protocol):
    """Chooses the user that the tasks of each job run as."""

    def require_way_to(self, directory: str) -> None:
        """Raise Refused unless tasks can change users and reach `directory`."""

    async def person(self, launch: LaunchTask) -> str:
        """Return the person that a job belongs to: the same for all jobs of one person, and for no others."""

    def user_of(self, person: str) -> TaskUser:
        """Return the user that this person's tasks run as. Raise ValueError or OSError if there is none."""

    def user_with(self, uid: int) -> TaskUser:
        """Return the user of tasks that has this number. Raise ValueError for the number of any other user."""


class OneUser:
    """One user of the machine for all tasks."""

    def __init__(self, user: TaskUser) -> None:
        self._user = user

    def require_way_to(self, directory: str) -> None:
        """Raise Refused unless tasks can become this user and reach `directory`."""
        self._user.require_way_to(directory, "--task-user")

    async def person(self, _launch: LaunchTask) -> str:
        """Return an empty name: all persons share one user."""
        return ""

    def user_of(self, _person: str) -> TaskUser:
        """Return the one user."""
        return self._user

    def user_with(self, uid: int) -> TaskUser:
        """Return the one user. Raise ValueError for another number."""
        if uid != self._user.uid:
            raise ValueError(f"{uid} is not the number of {self._user.name}")
        return self._user


class Accounts(Protocol):
    """Looks up the platform's users."""

    async def user(self, name: str) -> User | None:
        """Return one user, or None if there is none of that name."""


class UserPerPerson:
    """A user number of its own for each person with an account."""

    def __init__(self, table: UidTable, sample: int, accounts: Accounts, change: str) -> None:
        self._table = table
        self._sample = sample
        self._accounts = accounts
        self._change = change

    def require_way_to(self, directory: str) -> None:
        """Raise Refused unless tasks can become users of the range and reach `directory`."""
        TaskUser(f"number {self._sample}", self._sample, (), self._change).require_way_to(directory, "--task-uids")

    async def person(self, launch: LaunchTask) -> str:
        """Return the owner's name and the creation time of the account, which distinguish it from others of that name.

        A job whose owner's account is gone counts as a person of its own, so that nothing is inherited.
        """
        name = launch.labels.get(_USER, "")
        user = await self._accounts.user(name)
        if user is None or user.created_at_ms > launch.submitted_at_ms:
            return f"{name}\tjob {launch.key.job}"
        return f"{name}\tsince {user.created_at_ms}"

    def user_of(self, person: str) -> TaskUser:
        """Return the user of this person. Raise ValueError if the range is used up, OSError if the disk is full."""
        uid = self._table.uid_of(person)
        return TaskUser(_login(person.partition("\t")[0], uid), uid, (), self._change)

    def user_with(self, uid: int) -> TaskUser:
        """Return the user of this number. Raise ValueError for a number that no person got."""
        if not self._table.has(uid):
            raise ValueError(f"{uid} is no number of a person")
        return TaskUser(f"task-{uid}", uid, (), self._change)


def find_user(name: str) -> TaskUser:
    """Return the user of this name. Raise Refused if it cannot run tasks, or the server may not change users."""
    advice = "name a user of this machine without rights, such as one made by: useradd --system --create-home pai-task"
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise BadConfiguration(f"there is no user {name!r} on this machine", advice) from None
    groups = tuple(sorted(os.getgrouplist(name, found.pw_gid)))
    if found.pw_uid == _ROOT:
        raise BadConfiguration(f"the user {name} of --task-user is root", advice)
    if _ROOT in groups:
        raise BadConfiguration(f"the user {name} of --task-user is in the group {grp.getgrgid(_ROOT).gr_name}", advice)
    return TaskUser(name, found.pw_uid, groups, find_setpriv("--task-user"))


def users_in(range_: UidRange, table: Path, accounts: Accounts) -> UserPerPerson:
    """Return a user for each person, from a range. Raise Refused if other users have numbers in it."""
    range_.require_unused()
    try:
        known = UidTable(table, range_)
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"the user numbers cannot be read from {table}: {error}"
        raise BadConfiguration(message, "restore that file from a backup") from error
    return UserPerPerson(known, range_.first, accounts, find_setpriv("--task-uids"))


def find_setpriv(option: str) -> str:
    """Return the program that changes users. Raise Refused, naming the option that needs it, if there is none."""
    change = shutil.which("setpriv")
    if change is None:
        raise BadConfiguration(f"{option} needs the program setpriv, which is not in PATH", "install util-linux")
    return change


def group_of(job: str) -> int:
    """Return the number of the group of this job's tasks only."""
    return _GROUPS_FIRST + (int.from_bytes(hashlib.sha256(job.encode()).digest()[:4]) & _GROUPS_MASK)


def _login(name: str, uid: int) -> str:
    """Return the name of a person inside a task, which no user of the machine has."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        if _PLAIN_NAME.fullmatch(name):
            return name
    return f"task-{uid}"
