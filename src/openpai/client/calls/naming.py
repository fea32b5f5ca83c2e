"""Names in paths of the API, quoted so that a name is always exactly one segment."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from openpai.protocol.errors import InvalidParameters

if TYPE_CHECKING:
    from openpai.client.connection import Connection

_ID: Final = re.compile(r"[0-9a-f]{32}")


def segment(name: str, what: str) -> str:
    """Return a name as one segment of a path; raise Refused for an invalid name."""
    if not name or "/" in name or name in (".", ".."):
        raise InvalidParameters(f"{name!r} is not {what}'s name", "a name is not empty and has no slash in it")
    return quote(name, safe="~")


class OverWire:
    """The connection of the client."""

    wire: Connection


class Naming(OverWire):
    """Completes names of jobs with the user of the client."""

    user: str | None

    def path(self, name: str) -> str:
        """Return a job's path in the API; a name without a user is one's own job, unless it is an id."""
        is_whole = "~" in name or not self.user or _ID.fullmatch(name)
        full = name if is_whole else f"{self.user}~{name}"
        if not name or "/" in name or name in (".", ".."):
            raise InvalidParameters(f"{name!r} is not a job's name", "name it `job` or `user~job`")
        return f"/jobs/{segment(full, 'a job')}"
