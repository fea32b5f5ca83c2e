"""Shell texts for commands that users run in a running task; they need a POSIX `sh` and nothing else."""

from __future__ import annotations

import re
from typing import Final

# PAI_SHELL marks every process of a session: the session's id, a dot, and the number of its first process.
# Called as `sh -c TEXT pai-shell ID DIRECTORY TERM [WORD...]`. Descriptors 7 to 9 are those of namespaces.
_START: Final = r"""exec 7<&- 8<&- 9<&-
if [ -n "$3" ]; then TERM=$3 && export TERM; fi
PAI_SHELL="$1.$$" && export PAI_SHELL
if [ -n "$2" ]; then
    cd "$2" || exit 126
    PAI_WORK_DIR=$PWD && export PAI_WORK_DIR
fi
shift 3
if [ "$#" = 0 ]; then
    if [ -x /bin/bash ]; then set -- /bin/bash; else set -- sh; fi
fi
exec "$@"
"""

# Called as `sh -c TEXT pai-shell ID SIGNAL`. `read` ends at a newline, which a variable may contain.
_END: Final = r"""for process in /proc/[0-9]*; do
    found=
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in *"PAI_SHELL=$1."*) found=${line##*"PAI_SHELL=$1."} ;; esac
    done 2>/dev/null <"$process/environ"
    case $found in
    [0-9]*) found=${found%%[!0-9]*} && kill -s "$2" -- "-$found" 2>/dev/null && exit 0 ;;
    esac
done
exit 0
"""

NO_RELAY: Final = 127
"""The exit code of a relay without a program that can connect."""

_CONNECTING: Final = r"""connect() { echo; exec "$@"; }
if command -v socat >/dev/null 2>&1; then connect socat - @SOCAT@; fi
for python in python3 python; do
    if command -v "$python" >/dev/null 2>&1; then
        connect "$python" -c '
import socket, sys, threading, os
@PYTHON@
def send():
    while True:
        data = os.read(0, 65536)
        if not data:
            break
        s.sendall(data)
    s.shutdown(socket.SHUT_WR)
t = threading.Thread(target=send)
t.daemon = True
t.start()
while True:
    data = s.recv(65536)
    if not data:
        break
    while data:
        data = data[os.write(1, data):]
' "$1"
    fi
done
"""


def connecting(socat: str, python: str) -> str:
    """Return the text that connects its streams to `$1` with socat or Python, and goes on if the image has neither.

    `socat` is its address for socat, and `python` the statement that makes `s` a connection. Before what the other
    end sends comes a newline, which says that a program listens there.
    """
    return _CONNECTING.replace("@SOCAT@", f'"{socat}"').replace("@PYTHON@", python)


NOT_OWN: Final = 112
"""The exit code of a relay whose port another program of the machine listens on."""

# Called as `sh -c TEXT pai-relay PORT [own]`, for what has no program of its own on the node. With `own` a process of
# the task has to listen on the port: its network is that of the machine.
_RELAY: Final = (
    r"""port=$1
hex=$(printf '%04X' "$port")
found=
own=
if [ -n "$2" ]; then files=$(ls -l /proc/[0-9]*/fd 2>/dev/null); fi
for table in /proc/net/tcp /proc/net/tcp6; do
    while read -r _ local _ state _ _ _ _ _ inode _; do
        case $local$state in *":${hex}0A")
            found=1
            case $files in *"socket:[$inode]"*) own=1 ;; esac
            ;;
        esac
    done 2>/dev/null <"$table"
done
[ -n "$found" ] || exit 111
[ -z "$2" ] || [ -n "$own" ] || exit 112
"""
    + connecting("TCP4:127.0.0.1:$1", 's = socket.create_connection(("127.0.0.1", int(sys.argv[1])))')
    + r"""if command -v nc >/dev/null 2>&1; then connect nc 127.0.0.1 "$port"; fi
if [ -x /bin/bash ]; then
    connect /bin/bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1; cat <&3 & cat >&3; wait' relay "$port"
fi
echo "the image has none of socat, python3, nc and bash" >&2
exit 127
"""
)
_ID: Final = re.compile(r"[0-9a-f]+")


def start_words(session: str, directory: str, term: str, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that starts a user's command as one session, in `directory` unless that is empty.

    `term` is the type of its terminal, empty without one.
    """
    return ("/bin/sh", "-c", _START, "pai-shell", _checked(session), directory, term, *words)


def end_words(session: str, signal: str) -> tuple[str, ...]:
    """Return the command that sends a signal to the first process group of a session, however little the image has."""
    return ("/bin/sh", "-c", _END, "pai-shell", _checked(session), signal)


def relay_words(port: int, *, is_own: bool = False) -> tuple[str, ...]:
    """Return the command that connects its streams to a port, with the first program of the image that can.

    With `is_own` a process of the task has to listen there.
    """
    return ("/bin/sh", "-c", _RELAY, "pai-relay", str(port), "own" if is_own else "")


def _checked(session: str) -> str:
    if not _ID.fullmatch(session):
        raise ValueError(f"{session!r} is no id of a session")
    return session
