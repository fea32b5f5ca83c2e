"""The settings of the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openpai.client.calls_core import Call, as_it_came, asks


class Settings:
    """The settings of the server."""

    @asks
    def settings(self) -> Call[Mapping[str, Any]]:
        """Return every setting of the server that answers, and what is changed while it runs, for administrators."""
        return Call("GET", "/settings", as_it_came)
