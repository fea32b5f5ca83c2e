"""Documents of reports of use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, NotRequired

from typing_extensions import TypedDict

from openpai.wire.answers import Ms
from openpai.wire.doc import Doc, Document


class UsageTotal(Document):
    """Use in hours."""

    gpuHours: Annotated[float, Doc(example=12.5)]
    cpuHours: Annotated[float, Doc(example=100)]
    memoryGbHours: Annotated[float, Doc(example=800)]
    taskAttempts: Annotated[int, Doc(example=3)]
    gpuHoursBorrowed: Annotated[float, Doc("the part of them without a guarantee", example=2.5)]
    gpuHoursLent: Annotated[float, Doc("what virtual clusters lent to others; not by user or group", example=0)]
    jobsMoved: Annotated[int, Doc("how often a job was moved to make room for another one", example=0)]
    gpuHoursMoved: Annotated[float, Doc("the work that these jobs did again", example=0)]
    gpuHoursIdle: Annotated[float, Doc("held by running jobs that did not use them", example=1.5)]
    gpuHoursFailed: Annotated[float, Doc("lost because the platform failed", example=0)]
    gpuHoursPreempted: Annotated[float, Doc("lost because resources were taken back", example=0.5)]
    gpuHoursWasted: Annotated[float, Doc("the last three together", example=2)]


class UsageRow(UsageTotal):
    """Use by the requested dimensions."""

    day: NotRequired[Annotated[str, Doc("in UTC", example="2026-01-31")]]
    user: NotRequired[Annotated[str, Doc(example="ann")]]
    group: NotRequired[Annotated[str, Doc(example="team-vision")]]
    virtualCluster: NotRequired[Annotated[str, Doc(example="vision")]]


class WeeklyReport(Document):
    """The message about the last week."""

    subject: Annotated[str, Doc(example="GPU hours of vision in the week of 2026-11-16")]
    text: Annotated[str, Doc(example="GPU hours from 2026-11-16 to 2026-11-22 (UTC)")]


# `from` is a keyword, so it needs this form.
_From = TypedDict("_From", {"from": Ms})


class UsageReport(Document, _From):
    """A report of use."""

    to: Ms
    by: Annotated[Sequence[Literal["day", "user", "group", "vc"]], Doc(example=["user"])]
    rows: Sequence[UsageRow]
    total: UsageTotal
