"""Shell texts that look at the processes of a task from inside its container, and what their answers mean.

They need a POSIX `sh` with `sleep`; the loop of samples starts other programs only where there is something for them:
`tail` for a file of progress, `nvidia-smi` for GPUs. The task may have replaced any of these programs, so an answer is
the task's own claim about itself, and is read within bounds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from openpai.protocol.wording import cut, harmless_line
from openpai.runtime.progress import TAIL_BYTES, Progress, read_progress

PROCESSES_MAX: Final = 500
GPUS_EVERY: Final = 6
"""In one of so many samples GPUs are looked at, because the driver's program takes a while."""
_NUMBER: Final = re.compile(r"\d{1,18}", re.ASCII)
_END: Final = "end"

# Called as `sh -c TEXT pai-sample PERIOD COUNT PROGRESS_FILE`.
_SAMPLES: Final = (
    r"""period=$1 left=$2 file=$3 round=0
g=/sys/fs/cgroup
fields() {
    while read -r name value rest; do
        case " $2 " in *" $name "*) echo "$name $value" ;; esac
    done 2>/dev/null <"$1"
}
first() {
    value=
    { read -r value; } 2>/dev/null <"$2" && echo "$1 $value"
}
lines() {
    while read -r line; do echo "$1 $line"; done 2>/dev/null <"$2"
}
while [ "$left" -gt 0 ]; do
    if [ -r $g/cpu.stat ]; then
        fields $g/cpu.stat usage_usec
        first memory $g/memory.current
        fields $g/memory.stat inactive_file
        lines io $g/io.stat
    else
        for one in $g/cpuacct $g/cpu,cpuacct; do first cpu_ns $one/cpuacct.usage; done
        first memory $g/memory/memory.usage_in_bytes
        fields $g/memory/memory.stat total_inactive_file
        lines io $g/blkio/blkio.throttle.io_service_bytes
    fi
    lines net /proc/net/dev
    all=-1 stopped=0
    for one in /proc/[0-9]*; do
        stat=
        { read -r stat; } 2>/dev/null <"$one/stat"
        case ${stat##*) } in
        [Tt]*) stopped=$((stopped + 1)) all=$((all + 1)) ;;
        Z* | '') ;;
        *) all=$((all + 1)) ;;
        esac
        [ "$all" -lt PROCESSES ] || break
    done
    echo "processes $all"
    echo "stopped $stopped"
    if [ -f "$file" ] && [ ! -L "$file" ]; then
        if command -v tail >/dev/null 2>&1; then tail -c TAIL "$file" 2>/dev/null; else cat "$file"; fi | {
            last= count=0
            while IFS= read -r line || [ -n "$line" ]; do
                count=$((count + 1))
                [ "$count" -lt 1000 ] || exit
                [ -z "$line" ] || last=$line
            done
            printf 'progress %s\n' "$last"
        }
    fi
    if [ "$round" = 0 ] && command -v nvidia-smi >/dev/null 2>&1; then
        query=index,utilization.gpu,memory.used,memory.total,power.draw,power.limit,temperature.gpu
        # Drivers before 450 know no slices, and refuse the whole query.
        { lines=$(nvidia-smi --query-gpu=$query,mig.mode.current --format=csv,noheader,nounits 2>/dev/null) ||
            lines=$(nvidia-smi --query-gpu=$query --format=csv,noheader,nounits 2>/dev/null); } &&
            echo "$lines" | while read -r line; do echo "gpu $line"; done
    fi
    round=$(((round + 1) % EVERY)) left=$((left - 1))
    echo end || exit
    [ "$left" = 0 ] || sleep "$period" || exit
done
""".replace("PROCESSES", str(PROCESSES_MAX))
    .replace("TAIL", str(TAIL_BYTES))
    .replace("EVERY", str(GPUS_EVERY))
)

# Called as `sh -c TEXT pai-stacks`.
_STACKS: Final = r"""count=0
for one in /proc/[0-9]*; do
    stat= waits= line= words=
    { read -r stat; } 2>/dev/null <"$one/stat" || continue
    [ "${one##*/}" != "$$" ] || continue
    count=$((count + 1))
    [ "$count" -le 20 ] || break
    echo "process ${one##*/} $stat"
    if command -v tr >/dev/null 2>&1; then
        words=$(tr '\0' ' ' 2>/dev/null <"$one/cmdline" | { read -r all; echo "$all"; })
    fi
    echo "command $words"
    { read -r waits; } 2>/dev/null <"$one/wchan"
    echo "waits $waits"
    case $words in
    *python*)
        if command -v py-spy >/dev/null 2>&1 && command -v timeout >/dev/null 2>&1; then
            timeout 5 py-spy dump --nonblocking --pid "${one##*/}" 2>/dev/null |
                while IFS= read -r line; do echo "stack $line"; done
        fi
        ;;
    esac
done
"""


def sample_words(period_s: float, count: int, progress_file: str) -> tuple[str, ...]:
    """Return the command that prints a sample of its container every few seconds, `count` times."""
    return ("/bin/sh", "-c", _SAMPLES, "pai-sample", f"{period_s:g}", str(count), progress_file)


def stack_words() -> tuple[str, ...]:
    """Return the command that prints what each process of its container does."""
    return ("/bin/sh", "-c", _STACKS, "pai-stacks")


@dataclass(frozen=True, slots=True)
class GpuUse:
    """A GPU as its container sees it: values that the driver does not give are None."""

    busy_percent: float | None
    memory_bytes: int | None
    memory_total_bytes: int | None
    power_w: float | None
    power_limit_w: float | None
    temperature_c: float | None
    is_slice: bool = False
    """Whether the container has a part of it: only the temperature is known of that."""


@dataclass(slots=True)
class InsideSample:
    """What one sample says."""

    cpu_s: float = 0.0
    memory_bytes: int = 0
    disk_read_bytes: int | None = None
    disk_written_bytes: int | None = None
    network_received_bytes: int | None = None
    network_sent_bytes: int | None = None
    processes: int = 0
    stopped: int = 0
    progress: Progress | None = None
    gpus: tuple[GpuUse, ...] | None = None
    """None in a sample without a look at them."""


class SampleReader:
    """Puts the pieces of an answer together; raises ValueError for one that cannot be a sample."""

    LINES_MAX: Final = 2000
    BYTES_MAX: Final = 256 * 1024

    def __init__(self) -> None:
        self._rest = b""
        self._lines: list[str] = []

    def feed(self, data: bytes) -> list[InsideSample]:
        """Return the samples that are complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        found = []
        for line in lines:
            text = line.decode(errors="replace")
            if text == _END:
                found.append(read_sample(self._lines))
                self._lines = []
            else:
                self._lines.append(text)
        if len(self._lines) > self.LINES_MAX or len(self._rest) > self.BYTES_MAX:
            raise ValueError("an answer without an end")
        return found


def read_sample(lines: Iterable[str]) -> InsideSample:
    """Return what the lines of a sample say; lines that mean nothing are left out."""
    found = InsideSample()
    gpus: list[GpuUse] = []
    cache = 0
    for line in lines:
        name, _, value = line.partition(" ")
        match name:
            case "usage_usec":
                found.cpu_s = _int(value) / 1e6
            case "cpu_ns":
                found.cpu_s = _int(value) / 1e9
            case "memory":
                found.memory_bytes = _int(value)
            case "inactive_file" | "total_inactive_file":
                cache = _int(value)
            case "io":
                _add_disk(found, value)
            case "net":
                _add_network(found, value)
            case "processes":
                found.processes = _int(value)
            case "stopped":
                found.stopped = _int(value)
            case "progress":
                found.progress = read_progress(value[:TAIL_BYTES])
            case "gpu":
                gpus.append(_gpu(value))
    found.memory_bytes = max(0, found.memory_bytes - cache)
    found.gpus = tuple(gpus) or None
    return found


def _add_disk(found: InsideSample, text: str) -> None:
    """Add a line of a cgroup's counters: `8:0 rbytes=1 wbytes=2` in version 2, `8:0 Read 1` in version 1."""
    words = text.split()[1:]
    pairs = dict(word.partition("=")[::2] for word in words)
    if "rbytes" in pairs:
        read, written = _int(pairs["rbytes"]), _int(pairs.get("wbytes", ""))
    elif len(words) == 2 and words[0] in ("Read", "Write"):
        read, written = (_int(words[1]), 0) if words[0] == "Read" else (0, _int(words[1]))
    else:
        return
    found.disk_read_bytes = (found.disk_read_bytes or 0) + read
    found.disk_written_bytes = (found.disk_written_bytes or 0) + written


def _add_network(found: InsideSample, text: str) -> None:
    device, colon, counts = text.partition(":")
    numbers = counts.split()
    if colon and device.strip() != "lo" and len(numbers) > 8:
        found.network_received_bytes = (found.network_received_bytes or 0) + _int(numbers[0])
        found.network_sent_bytes = (found.network_sent_bytes or 0) + _int(numbers[8])


def _gpu(text: str) -> GpuUse:
    words = [word.strip() for word in text.split(",")]
    busy, used, total, power, limit, degrees = [*map(_float, words), *[None] * 7][1:7]
    if words[7:] == ["Enabled"]:
        # All but the heat is of the whole GPU, which others use, too.
        return GpuUse(None, None, None, None, None, degrees, is_slice=True)
    return GpuUse(busy, _mib(used), _mib(total), power, limit, degrees)


def _int(text: str) -> int:
    return int(text) if _NUMBER.fullmatch(text) else 0


def _float(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text, re.ASCII) else None


def _mib(value: float | None) -> int | None:
    return None if value is None else int(value * 2**20)


@dataclass(slots=True)
class ProcessState:
    """What a process does at the moment."""

    pid: int
    state: str
    command: str
    waits: str = ""
    """The place in the kernel where it waits."""
    stack: list[str] = field(default_factory=list)


STATES: Final = {"R": "running", "S": "sleeping", "D": "waiting for a disk or device", "T": "stopped", "t": "traced"}
_COMMAND_MAX: Final = 200
_STACK_MAX: Final = 200


def read_processes(text: str) -> list[ProcessState]:
    """Return the processes in the answer of `stack_words`."""
    found: list[ProcessState] = []
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "process":
            number, _, stat = value.partition(" ")
            # The name, in parentheses, is the task's choice.
            before, _, after = stat.rpartition(") ")
            found.append(ProcessState(_int(number), after[:1], before.partition("(")[2]))
        elif found and name == "command" and value.strip():
            found[-1].command = value.strip()
        elif found and name == "waits":
            found[-1].waits = value.strip()
        elif found and name == "stack" and len(found[-1].stack) < _STACK_MAX:
            found[-1].stack.append(value)
    return [process for process in found if process.state and process.state != "Z"]


# Frames of Python in which a rank waits for the others.
_COLLECTIVE: Final = re.compile(
    r"\b(?P<name>all_?reduce|all_?gather(?:_\w+)?|reduce_scatter(?:_\w+)?|all_to_all(?:_\w+)?|broadcast|barrier|"
    r"monitored_barrier|Allreduce|Allgather|Bcast|Barrier|synchronize|wait_for_everyone) \("
)


def collective_of(stack: Iterable[str]) -> str:
    """Return the collective operation in which a Python program waits, by its innermost such frame; empty for none."""
    return next((found["name"] for line in stack if (found := _COLLECTIVE.search(line))), "")


class ProcessSummary(NamedTuple):
    """What the process of a task that says most does."""

    text: str = ""
    """A sentence; empty if the task has no process."""
    collective: str = ""
    """The collective operation in which it waits; empty for none."""


def described(process: ProcessState) -> str:
    """Return a sentence about a process."""
    where = f", in {process.waits}" if process.waits not in ("", "0") else ""
    what = STATES.get(process.state, f"in state {process.state}")
    command = cut(harmless_line(process.command), _COMMAND_MAX)
    collective = collective_of(process.stack)
    waits = f"; it waits in {collective}" if collective else ""
    return f"process {process.pid} ({command}) is {harmless_line(what + where)}{waits}"


def most_telling(processes: Sequence[ProcessState]) -> ProcessSummary:
    """Return what the process that says most does: a stopped one, then one that works or waits for a disk."""
    summaries = ((_weight(each), ProcessSummary(described(each), collective_of(each.stack))) for each in processes)
    return max(summaries, default=(0, ProcessSummary()))[1]


def _weight(process: ProcessState) -> int:
    """Return how much a process says; a shell that waits for its child says least."""
    if collective_of(process.stack) and process.state not in "Tt":
        return 3
    return 4 if process.state in "Tt" else 2 if process.state in "DR" else 0 if "do_wait" in process.waits else 1
