"""The two shell scripts of a task attempt: the platform's wrapper and the user's own script.

The wrapper is the same for every task and needs nothing but a POSIX `sh`. It claims the launch ticket, runs the user's
script, passes SIGTERM on, and leaves one exit report. The ticket makes an attempt run at most once: the process that
creates the file first owns the attempt. That is the wrapper of this server's launch, the wrapper of a delayed launch by
a dead server, or a server that creates the ticket to cancel a launch. A report counts only once its last line is
written, so a reader never sees half of one.

Called as `sh WRAPPER TASK_DIR LOG_DIR WORK_DIR GRACE_S [LAUNCHER [CGROUP [SCRIPT]]]`. An empty WORK_DIR means the
current directory, and then PAI_WORK_DIR keeps its value if it is set. Files in TASK_DIR: `user.sh` (read), `grace`
(read on SIGTERM, if it exists: seconds instead of GRACE_S), `ticket`, `since` and `exit` (written). On SIGTERM the
wrapper also writes the file that PAI_PREEMPTION_NOTICE names, unless it is there: from `notice` beside the script, or
its own words.
Their times are the start and the end of the attempt, because a shell has no clock. Files in LOG_DIR, all appended to:
`stdout.log`, `stderr.log`, `runtime.log`; with `-` as LOG_DIR the task inherits the wrapper's own stdout and stderr,
and the wrapper's notes go to stdout. With `-` as GRACE_S the sender of SIGTERM enforces the grace period. LAUNCHER is
put in front of the user's shell; without it, or with `probe`, the wrapper checks whether `env --default-signal` works.
CGROUP is the file that moves a process into its cgroup, and SCRIPT a file to run instead of TASK_DIR/user.sh.
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
"""First word of a ticket that a server created so that no wrapper can run the attempt."""
LAUNCHER: Final = ("env", "--default-signal=INT,QUIT")
"""Undoes that a shell lets background commands ignore SIGINT and SIGQUIT."""

_EXIT_END: Final = "end"
_EXIT_CODE: Final = re.compile(r"-?[0-9]{1,3}")
_TICKET: Final = re.compile(r"([0-9]{1,9}) ([0-9]{1,18})\n", re.ASCII)

_WRAPPER: Final = r"""dir=$1 logs=$2 work=$3 grace=$4 launcher=${5-probe} cgroup=${6-} script=${7-$1/user.sh}
if [ "$logs" = - ]; then
    exec 3>&1 4>&1 5>&2
else
    exec 3>>"$logs/runtime.log" 4>>"$logs/stdout.log" 5>>"$logs/stderr.log" || exit 74
fi
note() { echo "[openpai-runtime] $*" >&3; }
uptime() { up=0; { read -r up _; } 2>/dev/null </proc/uptime; }

# This shell will kill its process group, field 5 of the stat line. It must be its own group, or that of a container's
# first process, which nothing kills. With a launcher the caller ensures it, so that short tasks save the check.
if [ "$launcher" = probe ] && [ "$$" != 1 ] && [ "$PPID" != 1 ]; then
    stat=
    { read -r stat; } 2>/dev/null <"/proc/$$/stat"
    set -- ${stat##*) }
    if [ "${3:-}" != "$$" ]; then
        note "the wrapper must lead a process group of its own"
        exit 64
    fi
fi

# The time distinguishes this shell from a later process with the same number.
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

# A task may have created the report itself, as a pipe for instance, and opening that would wait for ever.
is_reported() { [ -f "$dir/exit" ] && [ -s "$dir/exit" ]; }
report() {
    if [ -e "$dir/exit" ]; then return 1; fi
    uptime
    set -C
    { printf 'code %s\nend\n' "$1" >"$dir/exit"; } 2>/dev/null || return
    note "task ended with exit code $1 after $((${up%%.*} - since)) s"
}
# Whether the task wrote what its job names as outputs to the directory of its image, which goes with the container.
has_outputs_elsewhere() { [ -n "${PAI_OUTPUTS-}" ] && [ -z "${PAI_CODE_FILE-}" ] && [ "$PWD" != "$PAI_WORK_DIR" ]; }
# Copies them to the working directory, and nothing that is older than the task.
copy_outputs() {
    has_outputs_elsewhere || return 0
    if ! command -v find >/dev/null 2>&1; then
        note "outputs in $PWD are lost, as the image has no find: only files in $PAI_WORK_DIR are kept"
        return 0
    fi
    newer=-newer
    if find "$dir/ticket" -cnewer "$dir/ticket" >/dev/null 2>&1; then newer=-cnewer; fi
    copy='for file; do
        if [ -e "$0/$file" ]; then continue; fi
        {
            mkdir -p -- "$0/${file%/*}" && { cp -p -- "$file" "$0/$file" 2>/dev/null || cat "$file" >"$0/$file"; }
        } 2>&3 || echo "$file"
    done'
    failed=$(
        trap '' TERM
        eval "find . -xdev -type f $newer \"\$dir/ticket\" ! -path \"*\$PAI_WORK_DIR/*\" $PAI_OUTPUTS" \
            '-exec sh -c "$copy" "$PAI_WORK_DIR" {} +' 2>/dev/null
    )
    [ -z "$failed" ] || note "not all outputs in $PWD could be copied to $PAI_WORK_DIR; the others are lost"
}
# Keeps a container until the server has read what the task left in it, see `outputs`.
hand_over() {
    [ -n "$(find "$PAI_WORK_DIR/." ! -name . -print 2>/dev/null | { read -r found && echo some; })" ] || return 0
    note "the task left files in its working directory, which the server fetches now"
    { : >"$dir/left"; } 2>/dev/null || return 0
    is_over=
    trap 'is_over=1' USR1
    waited=0
    while [ -z "$is_over" ] && [ ! -s "$dir/taken" ]; do
        most=${PAI_HAND_OVER%% *}
        if [ -e "$dir/taking" ]; then most=${PAI_HAND_OVER##* }; fi
        if [ "$waited" -ge "$most" ]; then
            note "the server has not fetched the files within $waited s; they are lost with the container"
            return 0
        fi
        sleep 1 || return 0
        waited=$((waited + 1))
    done
    said="the files are lost: the task had to end before they were fetched"
    { read -r said; } 2>/dev/null <"$dir/taken"
    note "$said"
}
finish() {
    trap '' TERM USR1
    # Without a report only this exit code remains, and a kill must not replace it.
    if is_reported || report "$1"; then kill -KILL 0; fi
    reported=
    if [ -f "$dir/exit" ]; then { read -r _ reported; } 2>/dev/null <"$dir/exit"; fi
    if [ -n "${PAI_HAND_OVER-}" ] && [ "$$" = 1 ]; then hand_over; fi
    exit "${reported:-$1}"
}

# Writes why the task has to end, unless the server has: a cluster, or a person, sent SIGTERM.
notify() {
    [ -n "${PAI_PREEMPTION_NOTICE-}" ] || return 0
    text=
    # An annotation of the pod.
    { read -r text; } 2>/dev/null <"${script%/*}/notice"
    if [ -z "$text" ]; then
        left=$grace
        if [ "$left" = - ]; then left=${PAI_GRACE_SECONDS:-30}; fi
        # In a process of its own, because wrong arithmetic ends a shell.
        deadline=$({ now=$(date +%s) && echo "$((now + ${left%%.*}))"; } 2>/dev/null) || deadline=null
        text='{"reason": "terminated", "message": "the node or its administrator ends the task"'
        text="$text, \"deadline\": $deadline, \"graceSeconds\": $left}"
    fi
    set -C
    { printf '%s\n' "$text" >"$PAI_PREEMPTION_NOTICE"; } 2>/dev/null
    set +C
}

is_ending=
wanted=
on_term() {
    trap '' TERM
    is_ending=1
    # The file may be empty where the disk is full.
    { read -r wanted; } 2>/dev/null <"$dir/grace"
    grace=${wanted:-$grace}
    notify
    if [ "$grace" = - ]; then note "SIGTERM: the task is to end"; else note "SIGTERM: the task has $grace s to end"; fi
    kill -TERM 0
    # A stopped process receives no other signal until it continues.
    kill -CONT 0
    [ "$grace" != - ] || return 0
    # Without a `sleep` command, the sender of SIGTERM enforces the grace period.
    { { sleep "$grace" || sleep "${grace%%.*}"; } && kill -USR1 "$$"; } >/dev/null 2>&1 3>&- 4>&- 5>&- &
}
on_usr1() {
    [ -n "$is_ending" ] || return 0
    note "the task did not end within $grace s after SIGTERM and is killed"
    if has_outputs_elsewhere; then note "its outputs in $PWD are lost: only files in $PAI_WORK_DIR are kept"; fi
    finish 137
}
# Handled, not ignored: children inherit ignored signals, and a task may signal its own group.
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
# A container starts in the directory of its image, which may differ from the one whose files are kept.
if [ -n "$work" ] || [ -z "${PAI_WORK_DIR-}" ]; then PAI_WORK_DIR=$PWD; fi
export PAI_WORK_DIR
if [ -n "${PAI_HAND_OVER-}" ] && [ ! -d "$PAI_WORK_DIR" ]; then
    mkdir -p -- "$PAI_WORK_DIR" 2>&3 || note "what the task leaves will be lost: $PAI_WORK_DIR cannot be created"
fi
# On a storage, which the wrapper sees with the rights of the task; a backend makes its own directories.
if [ "$logs" = - ] && [ -n "${PAI_CHECKPOINT_DIR-}" ] && [ ! -d "$PAI_CHECKPOINT_DIR" ]; then
    if ! mkdir -p -- "$PAI_CHECKPOINT_DIR" 2>&3; then
        PAI_CHECKPOINT_MESSAGE="$PAI_CHECKPOINT_DIR cannot be created"
        unset PAI_CHECKPOINT_DIR
        export PAI_CHECKPOINT_MESSAGE
    fi
fi
if [ -n "${PAI_CHECKPOINT_MESSAGE-}" ]; then note "no PAI_CHECKPOINT_DIR: $PAI_CHECKPOINT_MESSAGE"; fi

# What the task writes must be newer than the ticket, however coarse the times of files are.
tries=0
while has_outputs_elsewhere && [ "$tries" -lt 1000 ] && command -v find >/dev/null 2>&1; do
    { echo >"$dir/since"; } 2>/dev/null || break
    [ -z "$(find "$dir/since" -newer "$dir/ticket" 2>/dev/null)" ] || break
    tries=$((tries + 1))
done

note "task starts"
if [ -z "${BASH_VERSION-}" ]; then
    (
        [ -z "$is_ending" ] || exit 143
        exec $launcher "$shell" "$script" </dev/null >&4 2>&5 3>&- 4>&- 5>&-
    ) &
else
    # Bash loses the exit code of a child when a signal interrupts `wait`. A subshell waits for the task in the
    # foreground, where no signal interrupts it, and reports. It handles signals so as not to end before the task.
    (
        trap 'is_ending=1' TERM
        trap : HUP INT QUIT USR1 USR2 ALRM
        code=143
        if [ -z "$is_ending" ]; then
            $launcher "$shell" "$script" </dev/null >&4 2>&5 3>&- 4>&- 5>&-
            code=$?
        fi
        copy_outputs
        report "$code"
        exit "$code"
    ) &
fi
child=$!
while :; do
    wait "$child"
    code=$?
    # A signal ends `wait` too early, in bash sometimes one that was handled before.
    if is_reported || ! kill -0 "$child" 2>/dev/null; then break; fi
done
# A signal may have interrupted `wait` just before it returned the exit code; if it was returned before, this is 127.
wait "$child"
again=$?
if [ "$again" != 127 ]; then code=$again; fi
is_reported || copy_outputs
finish "$code"
"""

_TRAP: Final = "trap 'exit 143' TERM"

_PROLOGUE: Final = f"""set -e
if [ -n "${{BASH_VERSION-}}" ]; then set -o pipefail; fi
{_TRAP}
"""


def wrapper() -> str:
    """Return the wrapper, the script that runs a task attempt; the same for every task."""
    return _WRAPPER


def user_script(commands: str) -> str:
    """Return the script the user's shell runs: it ends at the first command that fails.

    On SIGTERM the shell waits for its current command, which also gets the signal and may be saving its work, and then
    ends with 143. A script may replace this by its own trap.
    """
    return f"{_PROLOGUE}{commands.rstrip()}\n"


def in_subshell(commands: str, *, stops_at_failure: bool = True) -> str:
    """Return `commands` so that `exit`, `cd` and `export` affect only them, and SIGTERM works as in `user_script`."""
    policy = "set -e\n" if stops_at_failure else "set +e\n"
    return f"(\n{_TRAP}\n{policy}{commands.rstrip()}\n)"


@dataclass(frozen=True, slots=True)
class ExitText:
    """An exit report. `reason` and `message` are empty if the wrapper wrote it."""

    code: int
    reason: str = ""
    message: str = ""

    def text(self) -> str:
        """Return the content of the file `exit`."""
        message = " ".join(self.message.split())
        return f"code {self.code}\nreason {self.reason}\nmessage {message}\n{_EXIT_END}\n"

    @classmethod
    def parse(cls, text: str) -> ExitText | None:
        """Return the report in the file, or None if its last line is missing."""
        *lines, last = text.removesuffix("\n").split("\n")
        if last != _EXIT_END or not text.endswith("\n"):
            return None
        fields = dict(line.partition(" ")[::2] for line in lines)
        # A task can write this file too; no program ends with any other number.
        if not _EXIT_CODE.fullmatch(fields.get("code", "")):
            return None
        return cls(int(fields["code"]), fields.get("reason", ""), fields.get("message", ""))


@dataclass(frozen=True, slots=True)
class Ticket:
    """The owner of a task attempt: a wrapper (`pid`), or none for ever (`pid` None).

    The wrapper started at `claimed` or before, in hundredths of a second since the node booted.
    """

    pid: int | None
    claimed: int = 0

    @classmethod
    def parse(cls, text: str) -> Ticket | None:
        """Return the ticket in the file, or None for one that its owner could not finish writing."""
        if text == f"{FENCED}\n":
            return cls(None)
        found = _TICKET.fullmatch(text)
        return cls(int(found[1]), int(found[2])) if found else None
