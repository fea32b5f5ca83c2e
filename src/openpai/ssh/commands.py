"""The shell texts of the gateway: how a client's command runs in a task, and how a signal reaches it.

They need a POSIX `sh` and nothing else. A command is run by bash where the task has it, as by `pai job exec`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from openpai.runtime.shell import connecting

VARIABLES_MAX: Final = 100
VARIABLE_MAX: Final = 8192
SIGNALS: Final = frozenset(
    {"ABRT", "ALRM", "FPE", "HUP", "ILL", "INT", "KILL", "PIPE", "QUIT", "SEGV", "TERM", "USR1", "USR2"}
)
"""The signals of SSH's protocol."""
KEYS: Final[Mapping[str, bytes]] = {"INT": b"\x03", "QUIT": b"\x1c", "TSTP": b"\x1a"}
"""What a terminal turns into a signal."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)

# Called as `sh -c TEXT pai-ssh ID COUNT [NAME VALUE]... [COMMAND]`.
_RUN: Final = r"""PAI_SSH_CHANNEL=$1 && export PAI_SSH_CHANNEL
count=$2
shift 2
while [ "$count" -gt 0 ]; do
    export "$1=$2"
    shift 2
    count=$((count - 1))
done
shell=sh
if command -v bash >/dev/null 2>&1; then shell=bash; fi
SHELL=$(command -v "$shell") && export SHELL
if [ "$#" -gt 0 ]; then exec "$shell" -c "$1"; fi
exec "$shell"
"""

# Called as `sh -c TEXT pai-ssh ID SIGNAL`. `read` ends at a newline, which a variable may contain.
_SIGNAL: Final = r"""for process in /proc/[0-9]*; do
    found=
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in *"PAI_SSH_CHANNEL=$1"*) found=1 ;; esac
    done 2>/dev/null <"$process/environ"
    if [ -n "$found" ]; then kill -s "$2" "${process#/proc/}" 2>/dev/null; fi
done
exit 0
"""

# Called as `sh -c TEXT pai-relay PATH`.
_SOCKET: Final = (
    '[ -S "$1" ] || exit 111\n'
    + connecting("UNIX-CONNECT:$1", "s = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])")
    + r"""if command -v nc >/dev/null 2>&1 && nc -h 2>&1 | grep -q -e '-U'; then connect nc -U "$1"; fi
exit 127
"""
)


def run_words(channel: str, variables: Mapping[str, str], command: str | None) -> tuple[str, ...]:
    """Return the command that runs a client's command, or a shell for None, with the client's variables."""
    chosen = usable(variables)
    pairs = [text for name, value in chosen.items() for text in (name, value)]
    words = ("sh", "-c", _RUN, "pai-ssh", channel, str(len(chosen)), *pairs)
    return words if command is None else (*words, command)


def usable(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a client that have a proper name and a value of bounded length, as many as allowed."""
    fitting = (
        (name, value)
        for name, value in variables.items()
        if _NAME.fullmatch(name) and len(value) <= VARIABLE_MAX and "\0" not in value
    )
    return dict(list(fitting)[:VARIABLES_MAX])


def signal_words(channel: str, signal: str) -> tuple[str, ...]:
    """Return the command that sends a signal to every process of a client's command."""
    return ("sh", "-c", _SIGNAL, "pai-ssh", channel, signal)


def socket_words(path: str) -> tuple[str, ...]:
    """Return the command that connects its streams to a Unix socket, with the first program of the image that can."""
    return ("sh", "-c", _SOCKET, "pai-relay", path)
