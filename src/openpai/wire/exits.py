"""Documents of the exits of tasks and job attempts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from openpai.wire.doc import Doc, Document

Domain = Literal["user", "platform", "infrastructure", "unknown"]
Retry = Literal["helps", "no", "unknown"]


class ExitSpec(Document):
    """A row of the exit-code table."""

    code: Annotated[int, Doc(example=137)]
    phrase: Annotated[str, Doc(example="ContainerOOMKilled")]
    issuer: Annotated[str, Doc(example="PAI_OS")]
    causer: Annotated[str, Doc(example="USER_CONTAINER")]
    type: Annotated[str, Doc(example="USER_FAILURE")]
    stage: Annotated[str, Doc(example="RUNNING")]
    behavior: Annotated[str, Doc(example="PERMANENT")]
    reaction: Annotated[str, Doc(example="NEVER_RETRY")]
    reason: Annotated[str, Doc(example="the container used more memory than it asked for")]
    repro: Annotated[Sequence[str], Doc(example=[])]
    solution: Annotated[Sequence[str], Doc(example=["ask for more memory"])]


class ErrorLogs(Document):
    """The lines that led to a diagnosis."""

    user: Annotated[str, Doc(example="")]
    platform: Annotated[str, Doc(example="")]


class RuntimeExit(Document):
    """The exit of a task, as its runtime reported it."""

    exitCode: Annotated[int, Doc(example=137)]
    originUserExitCode: Annotated[int, Doc(example=137)]
    reason: Annotated[str, Doc(example="the container used more memory than it asked for")]
    solution: Annotated[str, Doc(example="ask for more memory")]
    errorLogs: ErrorLogs
    name: Literal["app"]


class ExitMessages(Document):
    """The message of the task's exit, or else that of the platform."""

    container: None
    runtime: RuntimeExit | None
    launcher: Annotated[str | None, Doc(example=None)]


class Cause(Document):
    """The cause of a failure, as the rules of the failure analysis found it."""

    name: Annotated[str, Doc("name of the exit spec; `unknown` if no rule matched", example="cuda_oom")]
    summary: Annotated[str, Doc(example="The GPU's memory ran out.")]
    domain: Annotated[Domain, Doc("who is responsible", example="user")]
    retry: Annotated[Retry, Doc("whether another attempt may end better", example="no")]
    excludesNode: Annotated[bool, Doc("whether the next attempt avoids the node", example=False)]
    line: Annotated[str, Doc("the line that shows it", example="torch.OutOfMemoryError: CUDA out of memory.")]
    lines: Annotated[Sequence[str], Doc("the same with the lines around it", example=[])]
    advice: Annotated[Sequence[str], Doc(example=["Use smaller batches."])]


class FirstCause(Cause):
    """The cause of a failed attempt, and the task that failed first."""

    taskRoleName: Annotated[str | None, Doc(example="worker")]
    taskIndex: Annotated[int | None, Doc(example=3)]
    time: Annotated[int | None, Doc("when that task ended, in milliseconds since 1970", example=1767225600000)]


class AttemptCause(Document):
    """Why an attempt of a job ended, and the task that decided it; null before its end."""

    appExitCause: Annotated[FirstCause | None, Doc("the cause of a failure; null for other ends")]

    appExitSpec: ExitSpec | None
    appExitDiagnostics: Annotated[str | None, Doc(example=None)]
    appExitMessages: ExitMessages | None
    appExitTriggerMessage: Annotated[str | None, Doc(example=None)]
    appExitTriggerTaskRoleName: Annotated[str | None, Doc(example=None)]
    appExitTriggerTaskIndex: Annotated[int | None, Doc(example=None)]
