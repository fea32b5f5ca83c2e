"""Opens the marketplace, and adds the examples of the distribution to a new one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import structlog

import openpai
from openpai.app.clock import SystemIdentities
from openpai.market.items import Content
from openpai.orchestrator.market import MarketService
from openpai.ports.clock import Clock
from openpai.ports.cluster_settings import SettingsStore
from openpai.ports.market import ItemEdit
from openpai.protocol.errors import PaiError
from openpai.store.database import Database
from openpai.store.market import SqlMarketStore

_log: Final = structlog.get_logger(__name__)
_PACKAGE: Final = Path(openpai.__file__).parent
PLACES: Final = (_PACKAGE / "examples", _PACKAGE.parents[1] / "examples")
"""Where a wheel has the examples, and where a checkout has them."""
AUTHOR: Final = "openpai"
BUILT_IN: Final[dict[str, tuple[str, str, str]]] = {
    "01-hello": ("hello", "Hello", "start"),
    "02-parameters": ("parameters", "Parameters", "start"),
    "04-distributed-training": ("distributed-training", "Distributed training", "training"),
    "09-torch-ddp": ("torch-ddp", "PyTorch on several nodes", "training"),
    "11-resume": ("resume", "Resume after preemption", "training"),
}
"""Item, title and category of each example that a new marketplace has."""


async def open_market(database: Database, settings: SettingsStore, clock: Clock, *, is_seeded: bool) -> MarketService:
    """Return the marketplace; with the examples that it never had, unless another server adds them."""
    market = MarketService(SqlMarketStore(database), settings, clock, SystemIdentities())
    if is_seeded:
        try:
            await market.seed(built_in(), AUTHOR)
        except PaiError as error:
            # Another server may be adding them at this moment; without examples a platform works as well.
            _log.warning("the examples were not added to the marketplace", error=error.message)
    return market


def built_in() -> list[tuple[str, ItemEdit]]:
    """Return the examples as items by name; none if the distribution lacks them."""
    place = next((each for each in PLACES if each.is_dir()), None)
    if place is None:
        return []
    return [
        (name, _edit(place / f"{file}.yaml", title, category)) for file, (name, title, category) in BUILT_IN.items()
    ]


def _edit(file: Path, title: str, category: str) -> ItemEdit:
    text = file.read_text("utf-8")
    # Each example begins with a comment on what it shows.
    head = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        head.append(line.removeprefix("#").strip())
    summary = " ".join(head).removeprefix("Shows:").strip().partition(". ")[0].rstrip(".:")
    summary = f"{summary[:1].upper()}{summary[1:300]}"
    return ItemEdit(
        Content(title, summary, protocol=text, categories=(category,), tags=("example",)),
        comment="from the examples of the distribution",
        is_official=True,
    )
