"""Announcements: what administrators tell all users for a time, as a setting that any server may change."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal

from fastapi import Path, Query, Request
from pydantic import Field

from openpai.access.deciding import refusal
from openpai.access.model import NOTHING
from openpai.api.answers import Done, Reply, done, reply
from openpai.api.audit import about
from openpai.api.bodies import Body, read_body
from openpai.api.context import context_of, needs
from openpai.api.routing import Router
from openpai.api.services import Services
from openpai.api.sessions import Caller
from openpai.api.shapes import announcements as shapes
from openpai.ports.cluster_settings import ANNOUNCEMENTS
from openpai.protocol.errors import InvalidParameters, Refused
from openpai.wire.announcements import Announcement

router = Router("announcements")
MOST: Final = 50
KEPT_MS: Final = 30 * 86_400_000
"""How long announcements that are over can be seen by administrators."""
_RACES_MAX: Final = 10
_TIME_MAX: Final = 2**45
Rows = list[Mapping[str, Any]]


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
    found = [shapes.announcement(row, now_ms) for row in reversed((await _stored(services))[0])]
    return reply([one for one in found if all_ or one["state"] == "shown"])


@router.serves("POST /api/v2/announcements", "Announce something", takes=AnnouncementBody)
async def announce(request: Request, caller: Annotated[Caller, needs("announcement.change")]) -> Reply[Announcement]:
    """Tell all users something, from a time on and until another one."""
    body = await read_body(request, AnnouncementBody)
    services = context_of(request).services
    now_ms = services.clock.now_ms()
    from_ms = now_ms if body.fromTime is None else body.fromTime
    if not body.text.strip():
        raise InvalidParameters("the announcement says nothing", "write a text")
    if body.toTime is not None and body.toTime <= max(from_ms, now_ms):
        message = "the announcement would be over before anyone sees it"
        raise InvalidParameters(message, "give a later `toTime`, or none")
    made: dict[str, Any] = {
        "id": secrets.token_hex(4), "text": body.text.strip(), "level": body.level,
        "from_ms": from_ms, "to_ms": body.toTime, "by": caller.user,
    }  # fmt: skip
    about(request, target=made["id"])
    await _change(services, caller.user, lambda known: [*known, made])
    return reply(shapes.announcement(made, now_ms))


@router.serves("DELETE /api/v2/announcements/{id}", "Remove an announcement", "NoAnnouncementError")
async def remove_announcement(
    request: Request,
    caller: Annotated[Caller, needs("announcement.change")],
    id: Annotated[str, Path(max_length=64, description="The announcement.")],  # noqa: A002
) -> Done:
    """Remove an announcement; it is no longer shown."""
    about(request, target=id)

    def without(known: Rows) -> Rows:
        left = [row for row in known if row["id"] != id]
        if len(left) == len(known):
            raise Refused("NoAnnouncementError", f"there is no announcement {id!r}", "`pai announcement list --all`")
        return left

    await _change(context_of(request).services, caller.user, without)
    return done(f"announcement {id} is removed")


async def _stored(services: Services) -> tuple[Rows, int]:
    """Return the announcements, those of long ago left out, and the version of the setting."""
    setting = await services.cluster_settings.setting(ANNOUNCEMENTS)
    oldest_ms = services.clock.now_ms() - KEPT_MS
    rows = setting.body["announcements"] if setting is not None else []
    kept = [row for row in rows if row["to_ms"] is None or row["to_ms"] > oldest_ms]
    return kept, setting.version if setting is not None else 0


async def _change(services: Services, by: str, change: Callable[[Rows], Rows]) -> None:
    for left in reversed(range(_RACES_MAX)):
        known, version = await _stored(services)
        rows = change(known)
        if len(rows) > max(MOST, len(known)):
            raise InvalidParameters(f"there are {MOST} announcements already", "remove one first")
        body, at_ms = {"announcements": rows}, services.clock.now_ms()
        try:
            await services.cluster_settings.set_setting(ANNOUNCEMENTS, body, by=by, at_ms=at_ms, version=version)
        except Refused as error:
            # Another administrator was faster.
            if error.code != "ConflictSettingError" or not left:
                raise
        else:
            return
