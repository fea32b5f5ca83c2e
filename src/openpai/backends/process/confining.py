"""Runs a task in namespaces of its own, with its own processes, IPC, /tmp and /dev/shm.

The platform's wrapper stays outside, as root, and starts `unshare`, whose child is the first process of the new
namespaces: a shell that mounts, as root, what the task needs, starts the task as its user, and waits for it. When that
shell ends, or is killed from outside, the system kills all other processes in the namespaces.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from openpai.backends.host.directory import ENTRY_FILE, TMP_DIRECTORY, USERS_FILE
from openpai.lifecycle.model import ExitReason
from openpai.runtime.script import EXIT_FILE

_FAILED: Final = ExitReason.LAUNCH_FAILED.value
_PRIVATE: Final = ("/tmp", "/var/tmp")  # noqa: S108  # they are what others must not share
_SHM: Final = "/dev/shm"  # noqa: S108
_UNSHARED: Final = ("--mount", "--pid", "--ipc", "--fork", "--kill-child=KILL", "--propagation", "private")
_ENTRY: Final = r"""dir=@DIR@ mount=@MOUNT@
fail() {
    output=$(printf %s "$1" | tr '\n' ' ')
    set -C
    { printf 'code 1\nreason @FAILED@\nmessage %s\nend\n' "$output" >"$dir/@EXIT@"; } 2>/dev/null
    exit 1
}
try() { output=$("$@" 2>&1) || fail "$output"; }
try "$mount" -t proc -o nosuid,nodev,noexec proc /proc
@BINDS@
# From here on paths may mean other files, but where we are, the working directory of the task, stays what it is.
for place in @PRIVATE@; do
    [ ! -d "$place" ] || try "$mount" -c -o bind,nosuid,nodev ../@TMP@ "$place"
done
[ ! -d @SHM@ ] || try "$mount" -t tmpfs -o size=@SIZE@m,mode=1777,nosuid,nodev tmpfs @SHM@
try "$mount" -c -o bind,ro ../@PASSWD@ /etc/passwd
case $dir in
/tmp/* | /var/tmp/* | @SHM@/*)
    try mkdir -p "${dir%/*}"
    try "$mount" -c -o bind ../.. "${dir%/*}"
    ;;
esac
# No hard link leads across mounts: a task must not put other files of this disk where the server will read its files.
try "$mount" -c -o bind .. "$dir"
cd "$dir/work" || fail "the working directory is gone"
@CHANGE@ "$@"
exit $?
"""


@dataclass(frozen=True, slots=True)
class Namespaces:
    """The programs that create namespaces and mount in them."""

    unshare: str
    mount: str

    @property
    def launcher(self) -> str:
        """Return the words that the wrapper puts before a command; it starts in the task's working directory."""
        return " ".join((self.unshare, *_UNSHARED, "/bin/sh", f"../{ENTRY_FILE}"))

    def entry(self, directory: str, binds: Sequence[str], change: str, shm_mb: int) -> str:
        """Return the script that prepares the namespaces and runs a command there with `change` before it.

        `binds` has the storages to mount: `ro` or `rw`, source and target of each.
        """
        values = {
            "DIR": shlex.quote(directory),
            "MOUNT": shlex.quote(self.mount),
            "BINDS": "\n".join(_bind(*binds[start : start + 3]) for start in range(0, len(binds), 3)),
            "CHANGE": change,
            "PRIVATE": " ".join(_PRIVATE),
            "SHM": _SHM,
            "SIZE": str(max(shm_mb, 1)),
            "TMP": TMP_DIRECTORY,
            "PASSWD": USERS_FILE,
            "FAILED": _FAILED,
            "EXIT": EXIT_FILE,
        }
        text = _ENTRY
        for name, value in values.items():
            text = text.replace(f"@{name}@", value)
        return text


@cache
def find_namespaces() -> Namespaces | None:
    """Return how tasks get namespaces of their own, or None if the system does not allow it."""
    unshare, mount = shutil.which("unshare"), shutil.which("mount")
    if unshare is None or mount is None or os.geteuid() != 0 or " " in unshare:
        return None
    probe = "mount -t proc proc /proc && mount -t tmpfs tmpfs /tmp && mount -c -o bind . /tmp"
    ran = subprocess.run([unshare, *_UNSHARED, "/bin/sh", "-c", probe], check=False, capture_output=True)  # noqa: S603
    return Namespaces(unshare, mount) if ran.returncode == 0 else None


def _bind(mode: str, source: str, target: str) -> str:
    quoted = shlex.quote(target)
    return (
        f"[ -d {quoted} ] || try mkdir -p -- {quoted}\n"
        f'try "$mount" -o bind,nosuid,nodev,{mode} -- {shlex.quote(source)} {quoted}'
    )
