"""What requests that edit exit specs and alert rules have in common."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Query
from pydantic import Field

from openpai.api.bodies import Body

REASON_MAX: Final = 1000
Reason = Annotated[str, Query(max_length=REASON_MAX, description="Kept in the history.")]
OfName = Annotated[str, Query(max_length=64, description="Only changes of this name.")]


class EditBody(Body):
    """What is known of an edit beside the new content."""

    reason: str = Field("", max_length=REASON_MAX, description="Kept in the history.")
    revision: int | None = Field(None, ge=0, description="Refuse if there was a change after this revision.")
