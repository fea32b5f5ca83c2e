"""How things are named in the paths of the API, so that a name never leaves its place there."""

from __future__ import annotations

from urllib.parse import quote

from openpai.protocol.errors import Refused


def segment(name: str, what: str) -> str:
    """Return a name as one segment of a path; raise Refused for what cannot be one."""
    if not name or "/" in name or name in (".", ".."):
        raise Refused("InvalidParametersError", f"{name!r} is not {what}'s name", "a name has no slash in it")
    return quote(name, safe="~")


class Naming:
    """Knows whose jobs are meant by bare names."""

    user: str | None

    def path(self, name: str) -> str:
        """Return a job's path in the API; a bare name is a job of our own."""
        full = name if "~" in name or not self.user else f"{self.user}~{name}"
        if not name or "/" in name or name in (".", ".."):
            raise Refused("InvalidParametersError", f"{name!r} is not a job's name", "name it `job` or `user~job`")
        return f"/jobs/{segment(full, 'a job')}"
