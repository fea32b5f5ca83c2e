"""Plug-in pages of the portal."""

from __future__ import annotations

from dataclasses import dataclass

from openpai.client.model import reading as field
from openpai.client.model.reading import Answer, Document


@dataclass(frozen=True, slots=True)
class PluginPage(Answer):
    """A page of another server in the portal's navigation."""

    name: str = field.text("name")
    """The word in its address at the portal, /pages/NAME."""
    title: str = field.text("title")
    address: str = field.text("address")
    document: Document = field.whole()
