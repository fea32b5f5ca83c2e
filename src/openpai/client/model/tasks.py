"""Tasks of a job, and pieces of their logs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from openpai.client.model.reading import (
    Answer,
    Document,
    amount,
    flag,
    mapping,
    measured,
    needed,
    number,
    parts,
    real,
    text,
    texts,
    value,
    whole,
)
from openpai.protocol.wording import exact
from openpai.wire import states

SUCCEEDED: Final = "SUCCEEDED"
FINAL_STATES: Final = states.FINAL_STATES


class _OfTask:
    __slots__ = ()
    role: str
    index: int

    @property
    def name(self) -> str:
        """Return `role-index`."""
        return f"{self.role}-{self.index}"


@dataclass(frozen=True, slots=True)
class Cause(Answer):
    """The cause of a failure."""

    name: str = text("name")
    """Such as cuda_oom; `unknown` if no rule of the server matched, empty if nothing failed."""
    summary: str = text("summary")
    domain: str = text("domain")
    """The responsible side: user, platform, infrastructure or unknown."""
    retry: str = text("retry")
    """Whether another attempt may end better: helps, no or unknown."""
    excludes_node: bool = flag("excludesNode")
    line: str = text("line")
    """The line of the log that shows it."""
    lines: tuple[str, ...] = texts("lines")
    """The same with the lines around it."""
    advice: tuple[str, ...] = texts("advice")
    role: str = text("taskRoleName")
    """Of a whole attempt: the task that failed first."""
    index: int | None = number("taskIndex")
    at_ms: int | None = number("time")
    """When that task ended."""

    def __bool__(self) -> bool:
        """Return whether anything failed."""
        return bool(self.name)


def as_cause(found: Any) -> Cause:
    """Return a cause; one without a name if there is none."""
    return Cause.read(found if isinstance(found, Mapping) else {})


@dataclass(frozen=True, slots=True)
class TaskView(_OfTask, Answer):
    """One task in its newest attempt."""

    role: str
    index: int = amount("taskIndex")
    state: str = text("taskState")
    attempt: int | None = number("attemptId")
    """Number of its newest attempt; None if it never had one."""
    retries: int = amount("retries")
    node: str = text("containerNodeName")
    address: str = text("containerIp")
    ports: Mapping[str, str] = mapping("containerPorts")
    started_at_ms: int | None = number("launchedTime")
    ended_at_ms: int | None = number("completedTime")
    exit_code: int | None = number("containerExitCode")
    exit_phrase: str = text("containerExitSpec.phrase")
    exit_diagnostics: str = text("containerExitDiagnostics")
    cause: Cause = value("containerExitCause", convert=as_cause)
    is_removed: bool = flag("isRemoved")
    """Whether its role became smaller and lost it."""
    document: Document = whole()

    @property
    def is_final(self) -> bool:
        """Return whether the task is over."""
        return self.state in FINAL_STATES


@dataclass(frozen=True, slots=True)
class SshTask(_OfTask, Answer):
    """The SSH address of a running task."""

    role: str = text("taskRoleName")
    index: int = amount("taskIndex")
    host: str = needed("sshIp", str)
    port: int = needed("sshPort", int)
    command: str = text("command")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class SshGatewayTask(_OfTask, Answer):
    """How an SSH client reaches a running task through the platform's gateway."""

    role: str = text("taskRoleName")
    index: int = amount("taskIndex")
    host: str = needed("host", str)
    port: int = needed("port", int)
    user: str = needed("user", str)
    host_key: str = text("hostKey")
    command: str = text("command")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class TaskProgress(Answer):
    """What a task reported last about its progress."""

    step: float = real("step")
    total: float | None = measured("total")
    metrics: Mapping[str, float] = mapping("metrics")
    at_ms: int = needed("time", int)
    steps_per_s: float | None = measured("stepsPerSecond")
    left_s: float | None = measured("secondsLeft")

    def text(self) -> str:
        """Return it for a person, as in `1200/5000 (24 %)`."""
        if self.total is None:
            return f"step {exact(self.step)}"
        return f"{exact(self.step)}/{exact(self.total)} ({min(100.0, 100 * self.step / self.total):.0f} %)"


def as_progress(document: Any) -> TaskProgress | None:
    """Return the progress in a document; None if it has none."""
    return TaskProgress.read(document) if isinstance(document, Mapping) else None


@dataclass(frozen=True, slots=True)
class GpuUse(Answer):
    """What a GPU of a task does; None where that is not measured."""

    index: int = needed("index", int)
    busy_percent: float | None = measured("busyPercent")
    tensor_percent: float | None = measured("tensorPercent")
    memory_bytes: float | None = measured("memoryBytes")
    memory_total_bytes: float | None = measured("memoryTotalBytes")
    power_w: float | None = measured("powerWatts")
    power_limit_w: float | None = measured("powerLimitWatts")
    temperature_c: float | None = measured("temperatureCelsius")


@dataclass(frozen=True, slots=True)
class TaskUse(_OfTask, Answer):
    """What a running task uses; None where that is not measured."""

    role: str = needed("taskRoleName", str)
    index: int = needed("taskIndex", int)
    at_ms: int = needed("time", int)
    cpus: float | None = measured("cpus")
    cpus_requested: int = amount("cpusRequested")
    memory_bytes: int = amount("memoryBytes")
    memory_requested_bytes: int = amount("memoryRequestedBytes")
    disk_read_per_s: float | None = measured("diskReadPerSecond")
    disk_written_per_s: float | None = measured("diskWrittenPerSecond")
    network_received_per_s: float | None = measured("networkReceivedPerSecond")
    network_sent_per_s: float | None = measured("networkSentPerSecond")
    processes: int = amount("processes")
    stopped: int = amount("stoppedProcesses")
    gpus: tuple[GpuUse, ...] = parts(GpuUse, "gpus")
    progress: TaskProgress | None = value("progress", convert=as_progress)
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class WorkKept(_OfTask, Answer):
    """The files that one task attempt left, kept until `kept_until_ms`."""

    role: str = needed("taskRoleName", str)
    index: int = needed("taskIndex", int)
    job_attempt: int = needed("jobAttemptId", int)
    attempt: int = needed("attemptId", int)
    files: int = needed("files", int)
    bytes: int = needed("bytes", int)
    is_counted: bool = needed("isCounted", bool)
    kept_until_ms: int = needed("keptUntil", int)


@dataclass(frozen=True, slots=True)
class LogPiece:
    """A piece of one stream of a task's log, beginning at byte `offset` of it."""

    stream: str
    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class LogHit(Answer):
    """A line of a log in which a text was found, beginning at byte `offset` of its stream."""

    stream: str = needed("stream", str)
    offset: int = needed("offset", int)
    at_ms: int = needed("time", int)
    text: str = needed("text", str)
