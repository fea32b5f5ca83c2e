"""Announcements: what administrators tell all users."""

from __future__ import annotations

from openpai.client import model
from openpai.client.calls.naming import segment
from openpai.client.calls_core import Call, asks, given, listed, nothing, query_of, whole


class Announcements:
    """What administrators tell all users."""

    @asks
    def announcements(self, *, all_: bool = False) -> Call[tuple[model.Announcement, ...]]:
        """Return the announcements of this moment; administrators may ask for all."""
        return Call("GET", "/announcements", listed(model.Announcement.read), query_of(all="true" if all_ else None))

    @asks
    def announce(
        self, text: str, *, level: str = "info", from_ms: int | None = None, to_ms: int | None = None
    ) -> Call[model.Announcement]:
        """Tell all users something, from a time on and until another one."""
        body = given(text=text, level=level, fromTime=from_ms, toTime=to_ms)
        # A repeated request would announce it twice.
        return Call("POST", "/announcements", whole(model.Announcement.read), json=body, is_repeatable=False)

    @asks
    def remove_announcement(self, id_: str) -> Call[None]:
        """Remove an announcement."""
        return Call("DELETE", f"/announcements/{segment(id_, 'an announcement')}", nothing)
