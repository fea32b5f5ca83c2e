"""Answers that many operations share, errors, and types of fields that documents share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NotRequired

from openpai.wire.doc import Doc, Document

Ms = Annotated[int, Doc("milliseconds since 1970", example=1_767_225_600_000)]
UserName = Annotated[str, Doc(example="ann")]
JobName = Annotated[str, Doc(example="train")]
JobId = Annotated[str, Doc("never changes", example="0d7c2a52c1f64e2f8d1b6a1f6d8b3c11")]
VcName = Annotated[str, Doc(example="vision")]
RoleName = Annotated[str, Doc(example="worker")]
NodeName = Annotated[str, Doc(example="node-17")]
GroupName = Annotated[str, Doc(example="team-vision")]
StorageName = Annotated[str, Doc(example="datasets")]
Sentence = Annotated[str, Doc("for people", example="this is done")]
ExitCode = Annotated[int | None, Doc("see the exit-code table; null until it ended", example=0)]
NullableMs = Annotated[int | None, Doc("milliseconds since 1970", example=1_767_225_600_000)]


class StatusMessage(Document):
    """The request was accepted, with its HTTP status."""

    status: Annotated[int, Doc("the HTTP status", example=200)]
    message: Sentence


class Message(Document):
    """The request was accepted."""

    message: Sentence


class Fault(Document):
    """One fault of a job file, or of a field of a request."""

    path: Annotated[str, Doc("where in the file or in the request", example="taskRoles.worker.instances")]
    line: Annotated[int | None, Doc(example=7)]
    message: Annotated[str, Doc(example="0 is less than 1")]
    allowed: Annotated[str, Doc(example="1 to 10,000")]
    suggestion: Annotated[str, Doc("the nearest legal spelling", example="")]


class Error(Document):
    """An error: a code for programs, a message for people, and the next step."""

    code: Annotated[str, Doc(example="NoJobError")]
    message: Annotated[str, Doc("for people", example="there is no job 'ann~train'")]
    advice: NotRequired[Annotated[str, Doc("what to do next", example="ask an administrator")]]
    faults: NotRequired[
        Annotated[
            Sequence[Fault], Doc("all faults of a job file, or the fields of a request that are wrong", example=[])
        ]
    ]
