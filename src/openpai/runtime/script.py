"""The two shell texts a task attempt is made of: the platform's wrapper and the user's own script.

The wrapper is constant and asks nothing of a machine or an image but a POSIX `sh`. It claims the launch ticket, runs
the user's script, passes SIGTERM on, and leaves one exit report. The ticket makes an attempt run at most once: the
process that creates the file first owns the attempt, be it the wrapper of this server's launch, of a dead server's
launch that arrives late, or a server that creates it to declare a launch dead. A report counts only when its last line
is there, so a reader never sees half of one.

Called as `sh WRAPPER TASK_DIR LOG_DIR WORK_DIR GRACE_S [LAUNCHER [CGROUP]]`; an empty WORK_DIR means where it is, and
then a PAI_WORK_DIR that is set already stays. Files in TASK_DIR: `user.sh` (read), `grace` (read on SIGTERM, if there:
seconds instead of GRACE_S), `ticket` and `exit` (written). When the attempt began and ended are the times of these two
files: a shell cannot tell the time by itself. Files in LOG_DIR: `stdout.log`, `stderr.log`, `runtime.log`, all appended
to. LAUNCHER is put in front of the user's shell; leave it away and the wrapper finds out whether `env --default-signal`
is there. CGROUP is the file by which a process moves into the cgroup it belongs in.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

TICKET_FILE: Final = "ticket"
EXIT_FILE: Final = "exit"
SCRIPT_FILE: Final = "user.sh"
GRACE_FILE: Final = "grace"
HOSTS_FILE: Final = "hosts"
FENCED: Final = "fenced"
"""First word of a ticket that a server created so that no wrapper can run the attempt any more."""
LAUNCHER: Final = ("env", "--default-signal=INT,QUIT")
"""Undoes what a shell does to background commands: it makes them deaf to SIGINT and SIGQUIT."""

_EXIT_END: Final = "end"
_EXIT_CODE: Final = re.compile(r"-?[0-9]{1,3}")
_TICKET: Final = re.compile(r"([0-9]{1,9}) ([0-9]{1,18})\n", re.ASCII)

_WRAPPER: Final = r"""dir=$1 logs=$2 work=$3 grace=$4 launcher=${5-probe} cgroup=${6-}
exec 3>>"$logs/runtime.log" 4>>"$logs/stdout.log" 5>>"$logs/stderr.log" || exit 74
note() { echo "[openpai-runtime] $*" >&3; }
uptime() { up=0; { read -r up _; } 2>/dev/null </proc/uptime; }

# This shell is going to kill its process group, field 5 of the stat line: that must be its own, or the group of a
# container's first process, which nothing kills. Who names a launcher has seen to it; to look makes the end dearer.
if [ "$launcher" = probe ] && [ "$$" != 1 ] && [ "$PPID" != 1 ]; then
    stat=
    { read -r stat; } 2>/dev/null <"/proc/$$/stat"
    set -- ${stat##*) }
    if [ "${3:-}" != "$$" ]; then
        note "the wrapper must lead a process group of its own"
        exit 64
    fi
fi

# A later process with the same number was born later than this moment, which tells it from this shell.
uptime
set -C
{ echo "$$ ${up%.*}${up#*.}" >"$dir/ticket"; } 2>/dev/null || exit 75
set +C
owner=
{ read -r owner _; } 2>/dev/null <"$dir/ticket"
[ "$owner" = "$$" ] || exit 75
since=${up%%.*}

if [ -n "$cgroup" ]; then
    { echo 0 >"$cgroup"; } 2>/dev/null || note "memory is not limited: the cgroup cannot be entered"
fi

# A task may have put anything in the report's place: to open a pipe would be to wait for ever.
is_reported() { [ -f "$dir/exit" ] && [ -s "$dir/exit" ]; }
report() {
    if [ -e "$dir/exit" ]; then return 1; fi
    uptime
    set -C
    { printf 'code %s\nend\n' "$1" >"$dir/exit"; } 2>/dev/null || return
    note "task ended with exit code $1 after $((${up%%.*} - since)) s"
}
finish() {
    trap '' TERM USR1
    # Without a report this exit code is all there is to tell, and it must not become that of a kill.
    if is_reported || report "$1"; then kill -KILL 0; fi
    reported=
    if [ -f "$dir/exit" ]; then { read -r _ reported; } 2>/dev/null <"$dir/exit"; fi
    exit "${reported:-$1}"
}

told=
on_term() {
    trap '' TERM
    told=1
    { read -r grace; } 2>/dev/null <"$dir/grace"
    note "SIGTERM: the task has $grace s to end"
    kill -TERM 0
    # A stopped process hears of nothing but this and SIGKILL.
    kill -CONT 0
    # Where there is no `sleep`, the sender of SIGTERM keeps the time.
    { { sleep "$grace" || sleep "${grace%%.*}"; } && kill -USR1 "$$"; } >/dev/null 2>&1 3>&- 4>&- 5>&- &
}
on_usr1() {
    [ -n "$told" ] || return 0
    note "the task did not end within $grace s after SIGTERM and is killed"
    finish 137
}
# Handled, not ignored: what a shell ignores its children ignore too, and a task may signal its own group.
trap on_term TERM
trap on_usr1 USR1
trap : HUP INT QUIT USR2 ALRM

shell=sh
if [ -x /bin/bash ]; then shell=/bin/bash; elif command -v bash >/dev/null 2>&1; then shell=bash; fi
if [ "$launcher" = probe ]; then
    launcher=
    if env --default-signal=INT,QUIT true 2>/dev/null; then launcher='env --default-signal=INT,QUIT'; fi
fi
if [ -n "$work" ] && ! cd "$work" 2>&3; then
    note "the working directory cannot be entered"
    finish 1
fi
# A container starts where its image says, which need not be where the files that it leaves are kept.
if [ -n "$work" ] || [ -z "${PAI_WORK_DIR-}" ]; then PAI_WORK_DIR=$PWD; fi
export PAI_WORK_DIR

note "task starts"
if [ -z "${BASH_VERSION-}" ]; then
    (
        [ -z "$told" ] || exit 143
        exec $launcher "$shell" "$dir/user.sh" </dev/null >&4 2>&5 3>&- 4>&- 5>&-
    ) &
else
    # Bash forgets how a child ended when a signal comes between. A shell of its own waits for the task in the
    # foreground, where no signal interrupts it, and reports. It handles signals so as not to end before the task does.
    (
        trap 'told=1' TERM
        trap : HUP INT QUIT USR1 USR2 ALRM
        code=143
        if [ -z "$told" ]; then
            $launcher "$shell" "$dir/user.sh" </dev/null >&4 2>&5 3>&- 4>&- 5>&-
            code=$?
        fi
        report "$code"
        exit "$code"
    ) &
fi
child=$!
while :; do
    wait "$child"
    code=$?
    # A signal ends `wait` too early, and in bash sometimes one that was dealt with before.
    if is_reported || ! kill -0 "$child" 2>/dev/null; then break; fi
done
# A signal may have come when the child's end was seen but not yet told; what was told before is unknown (127) now.
wait "$child"
again=$?
if [ "$again" != 127 ]; then code=$again; fi
finish "$code"
"""

_TRAP: Final = "trap 'exit 143' TERM"

_PROLOGUE: Final = f"""set -e
if [ -n "${{BASH_VERSION-}}" ]; then set -o pipefail; fi
{_TRAP}
"""


def wrapper() -> str:
    """Return the text of the script that runs one task attempt; the same for every task."""
    return _WRAPPER


def user_script(commands: str) -> str:
    """Return the script the user's shell runs: it ends at the first command that fails.

    On SIGTERM the shell waits for the command it is running, which heard the signal too and may be saving its work,
    and then ends with 143. A script that says what to do on SIGTERM replaces this.
    """
    return f"{_PROLOGUE}{commands.rstrip()}\n"


def in_subshell(commands: str, *, stops_at_failure: bool = True) -> str:
    """Return `commands` so that `exit`, `cd` and `export` change only them, and SIGTERM is met as in `user_script`."""
    policy = "" if stops_at_failure else "set +e\n"
    return f"(\n{_TRAP}\n{policy}{commands.rstrip()}\n)"


@dataclass(frozen=True, slots=True)
class ExitText:
    """What an exit report says. `reason` and `message` are empty when the wrapper wrote it."""

    code: int
    reason: str = ""
    message: str = ""

    def text(self) -> str:
        """Return the report as the file `exit` holds it."""
        message = " ".join(self.message.split())
        return f"code {self.code}\nreason {self.reason}\nmessage {message}\n{_EXIT_END}\n"

    @classmethod
    def parse(cls, text: str) -> ExitText | None:
        """Return what the file says, or None unless its last line is there."""
        *lines, last = text.removesuffix("\n").split("\n")
        if last != _EXIT_END or not text.endswith("\n"):
            return None
        fields = dict(line.partition(" ")[::2] for line in lines)
        # A task can write here too, and no program ends with any other number.
        if not _EXIT_CODE.fullmatch(fields.get("code", "")):
            return None
        return cls(int(fields["code"]), fields.get("reason", ""), fields.get("message", ""))


@dataclass(frozen=True, slots=True)
class Ticket:
    """Who owns a task attempt: a wrapper (`pid`), or nobody ever (`pid` None).

    The wrapper was born at `claimed` or before, in hundredths of a second since the machine was started.
    """

    pid: int | None
    claimed: int = 0

    @classmethod
    def parse(cls, text: str) -> Ticket | None:
        """Return what the file says, or None for a ticket that its owner could not finish writing."""
        if text == f"{FENCED}\n":
            return cls(None)
        found = _TICKET.fullmatch(text)
        return cls(int(found[1]), int(found[2])) if found else None
