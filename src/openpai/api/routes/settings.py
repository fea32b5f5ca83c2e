"""The settings of this server, for administrators to read: each with where it comes from, and no secret."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Request

from openpai.api.answers import Reply, reply
from openpai.api.context import context_of, needs
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import settings as shapes
from openpai.ports import cluster_settings as kept
from openpai.wire.settings import Settings

router = Router("settings")
_LIVE: Final = (
    (kept.CLUSTER, "guarantees", "What each virtual cluster is guaranteed.", "pai vc config"),
    (kept.ORDERS, "orders", "The orders of queues, and defaults for their jobs.", "pai vc order"),
    (kept.FAIRNESS, "fairness", "How long past use counts in the fair share of users.", "pai scheduler fairness"),
    (kept.LEMON_POLICY, "lemons", "How many failures of several users drain a node.", "pai node lemons"),
    (kept.EXIT_SPECS, "exit-specs", "Causes of failures, and the rules that find them.", "pai exit-spec list"),
    (kept.ALERT_RULES, "alert-rules", "What deserves attention, and whom it notifies.", "pai alert rules"),
    (kept.ANNOUNCEMENTS, "announcements", "What all users read on their home pages.", "pai announcement list"),
    (kept.MARKET, "marketplace", "Whether items of the marketplace need approval.", "pai market settings"),
)  # fmt: skip
"""What administrators change while servers run: where it is kept, its name, its meaning, and the command for it."""


@router.serves("GET /api/v2/settings", "Show the settings of the server")
async def list_settings(request: Request, caller: Annotated[Caller, needs("settings.read")]) -> Reply[Settings]:
    """Return every setting of the server that answers, with its value and where that comes from.

    Secrets are not among them, and addresses are shown without user, password and query. A change of these needs a
    restart; `live` names what is changed while servers run, and how.
    """
    services = context_of(request).services
    live = [
        shapes.live_setting(name, meaning, command, await services.cluster_settings.setting(where))
        for where, name, meaning, command in _LIVE
    ]
    return reply(Settings(server=[shapes.server_setting(one) for one in services.server_settings], live=live))
