"""The past with other promises."""

from __future__ import annotations

from openpai.client import model
from openpai.client.calls_core import Call, asks, whole


class WhatIfs:
    """Replays of the cluster's own past with other promises."""

    @asks
    def what_if(self, change: str, days: int = 30) -> Call[model.WhatIf]:
        """Return what would have been with other promises, such as `vision=+8`; it may take a minute."""
        return Call("GET", "/scheduler/what-if", whole(model.WhatIf.read), {"change": change, "days": str(days)})
