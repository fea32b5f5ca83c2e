"""What documents of things that administrators edit have in common, such as exit specs and alert rules."""

from __future__ import annotations

from typing import Annotated

from openpai.wire.answers import NullableMs
from openpai.wire.doc import Doc, Document


class Revised(Document):
    """The last change of something that the platform comes with or an administrator added."""

    changedBy: Annotated[str, Doc("the user who changed it last, if it was changed", example="")]
    changedTime: NullableMs
    outdated: Annotated[bool, Doc("whether the bundled one is newer than the change", example=False)]
    revision: Annotated[int, Doc("that of its last change; 0 if it was never changed", example=0)]


class Revision(Document):
    """One change."""

    revision: Annotated[int, Doc(example=3)]
    name: Annotated[str, Doc(example="cuda_oom")]
    time: Annotated[int, Doc("milliseconds since 1970", example=1767225600000)]
    user: Annotated[str, Doc(example="root")]
    reason: Annotated[str, Doc(example="a new form of the message")]
