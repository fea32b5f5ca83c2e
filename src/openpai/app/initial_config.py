"""What `pai up` is told of the shares: `--cluster FILE` or `--share WISHES`, set before anything is served."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import structlog

from openpai.app.settings import Settings
from openpai.cli.textfile import read_text
from openpai.orchestrator.arranging import absent_machines, check, seen_machines
from openpai.ports.backend import Backend
from openpai.ports.clock import Clock
from openpai.ports.settings import CLUSTER, SettingsStore

BY: Final = "pai up"
log: Final = structlog.get_logger(__name__)


def promised_at_start(settings: Settings) -> dict[str, Any] | None:
    """Return the setting that the command line gives, None for none. Raises Refused with every fault."""
    if settings.cluster is not None:
        text = read_text(settings.cluster, "a file in HiveD's format", code="BadConfigurationError")
        body: dict[str, Any] = {"hived": text}
    elif settings.share is not None:
        body = {"promises": settings.share}
    else:
        return None
    check(body, ())
    return body


async def promise(body: Mapping[str, Any], store: SettingsStore, backend: Backend, clock: Clock) -> None:
    """Set who is promised what, unless it is so already. Raises Refused for what the nodes there are cannot keep."""
    known = await store.setting(CLUSTER)
    if known is not None and known.body == body:
        return
    there = {node.name: node for node in await backend.nodes()}
    check(body, [*seen_machines(there.values()), *absent_machines(await store.node_notes(), there)])
    if known is not None and known.changed_by != BY:
        message = "the promises of the command line take the place of those made while the platform ran"
        log.warning(message, made_by=known.changed_by, version=known.version)
    await store.set_setting(CLUSTER, body, by=BY, at_ms=clock.now_ms())
