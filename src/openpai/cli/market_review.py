"""`pai market approve|reject|settings`: what administrators decide about items."""

from __future__ import annotations

from typing import Annotated

from openpai.cli import output, session
from openpai.cli.market import Name
from openpai.cli.options import option
from openpai.protocol.errors import InvalidParameters

Seen = Annotated[
    int | None, option("--revision N", "Only if this is still the newest revision, which you looked at.", min=1)
]


def approve(name: Name, revision: Seen = None, json: output.Json = False) -> None:
    """Approve an item, or its newest revision, so that others see it."""
    with session.connect() as pai:
        found = pai.review_market_item(name, is_approved=True, revision=revision)
    output.done(json, found.document, f"Item {name} is approved.", "pai market list --waiting")


def reject(
    name: Name,
    reason: Annotated[str, option("--reason TEXT", "Shown to the author.")] = "",
    revision: Seen = None,
    json: output.Json = False,
) -> None:
    """Reject an item, so that only its author sees it; or its newest revision, so that others keep the one before."""
    with session.connect() as pai:
        found = pai.review_market_item(name, is_approved=False, revision=revision, reason=reason)
    output.done(json, found.document, f"Item {name} is rejected.", "pai market list --waiting")


def settings(
    approval: Annotated[str, option("--approval on|off", "Whether items need approval before others see them.")] = "",
    json: output.Json = False,
) -> None:
    """Show or change whether items need approval before others see them."""
    if approval not in ("", "on", "off"):
        raise InvalidParameters(f"--approval: {approval!r} is neither on nor off", "choose one")
    with session.connect() as pai:
        found = pai.set_market_settings(needs_approval=approval == "on") if approval else pai.market_settings()
    rule = "Items need an administrator's approval" if found.needs_approval else "Items need no approval"
    output.done(json, found.document, f"{rule} before others see them.", "pai market list --waiting")
