"""Announcements: what administrators want all users to read for a time."""

from __future__ import annotations

import secrets
from typing import Annotated, Final, Literal

from fastapi import Path, Query, Request
from pydantic import Field

from openpai.access.deciding import refusal
from openpai.access.model import NOTHING
from openpai.api.answers import Done, Reply, done, reply
from openpai.api.audit import about
from openpai.api.bodies import Body, read_body
from openpai.api.context import context_of, needs
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import announcements as shapes
from openpai.orchestrator import announcements
from openpai.wire.announcements import Announcement

router = Router("announcements")
_TIME_MAX: Final = 2**45


class AnnouncementBody(Body, example={"text": "The cluster is upgraded on Saturday.", "level": "warning"}):
    """What to tell, and for how long."""

    text: str = Field(min_length=1, max_length=2000, description="Plain text.")
    level: Literal["info", "warning", "critical"] = Field("info", description="How much it matters.")
    fromTime: int | None = Field(None, ge=0, le=_TIME_MAX, description="Milliseconds since 1970; null: now.")
    toTime: int | None = Field(None, ge=0, le=_TIME_MAX, description="The same; null: until it is removed.")


@router.serves("GET /api/v2/announcements", "List announcements")
async def list_announcements(
    request: Request,
    caller: Annotated[Caller, needs("announcement.list")],
    all_: Annotated[bool, Query(alias="all", description="also those to come and those that are over")] = False,
) -> Reply[list[Announcement]]:
    """Return the announcements of this moment, the newest first; administrators may ask for all."""
    if all_ and refusal(caller.principal, "announcement.change", NOTHING) is not None:
        caller.check(NOTHING, "announcement.change")
    services = context_of(request).services
    now_ms = services.clock.now_ms()
    known = await announcements.announcements(services.cluster_settings, services.clock)
    return reply([shapes.announcement(one, now_ms) for one in reversed(known) if all_ or one.is_shown(now_ms)])


@router.serves("POST /api/v2/announcements", "Announce something", takes=AnnouncementBody)
async def announce(request: Request, caller: Annotated[Caller, needs("announcement.change")]) -> Reply[Announcement]:
    """Tell all users something, from a time on and until another one."""
    body = await read_body(request, AnnouncementBody)
    services = context_of(request).services
    now_ms = services.clock.now_ms()
    from_ms = now_ms if body.fromTime is None else body.fromTime
    made = announcements.Announcement(
        secrets.token_hex(4), body.text.strip(), body.level, from_ms, body.toTime, caller.user
    )
    about(request, target=made.id)
    await announcements.announce(services.cluster_settings, services.clock, made)
    return reply(shapes.announcement(made, now_ms))


@router.serves("DELETE /api/v2/announcements/{id}", "Remove an announcement", "NoAnnouncementError")
async def remove_announcement(
    request: Request,
    caller: Annotated[Caller, needs("announcement.change")],
    id: Annotated[str, Path(max_length=64, description="The announcement.")],  # noqa: A002
) -> Done:
    """Remove an announcement; it is no longer shown."""
    about(request, target=id)
    services = context_of(request).services
    await announcements.remove_announcement(services.cluster_settings, services.clock, id, caller.user)
    return done(f"announcement {id} is removed")
