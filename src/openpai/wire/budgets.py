"""Documents of budgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from openpai.wire.answers import Ms
from openpai.wire.doc import Doc, Document


class Budget(Document):
    """The GPU hours that a user, a group or a virtual cluster may use in a period, and those that are used."""

    kind: Annotated[Literal["user", "group", "vc"], Doc("whose use it counts")]
    name: Annotated[str, Doc("name of the user, the group or the virtual cluster", example="vision")]
    period: Annotated[Literal["month", "quarter", "total"], Doc("after which time it renews, in UTC")]
    gpuHours: Annotated[float, Doc(example=5000)]
    warnAt: Annotated[Sequence[float], Doc("shares of the hours at which a warning is sent", example=[0.8])]
    stops: Annotated[
        Literal["none", "opportunistic", "all"], Doc("which accepted jobs with GPUs are stopped once it is used up")
    ]
    noticeMinutes: Annotated[float, Doc("how long before a stop its user is notified", example=60)]
    contact: Annotated[str, Doc("whom to ask for more", example="lab office, room 5")]
    gpuHoursUsed: Annotated[float, Doc("in the present period, those of running jobs until now", example=4012.5)]
    renewsAt: Annotated[Ms | None, Doc("when it renews; null: never")]
    usedUpAt: Annotated[Ms | None, Doc("when the platform noticed that it is used up; null: it is not")]
