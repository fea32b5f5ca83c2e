"""Users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openpai.client.model.reading import Answer, Document, flag, mapping, needed, text, texts, whole


@dataclass(frozen=True, slots=True)
class User(Answer):
    """An account. Only administrators see more than the name of other users."""

    name: str = needed("username", str)
    email: str = text("email")
    is_admin: bool = flag("admin")
    is_viewer: bool = flag("viewer")
    groups: tuple[str, ...] = texts("grouplist")
    virtual_clusters: tuple[str, ...] = texts("virtualCluster")
    storages: tuple[str, ...] = texts("storageConfig")
    extension: Mapping[str, Any] = mapping("extension", repr=False)
    document: Document = whole()

    @property
    def role(self) -> str:
        """Return their role: admin, user or viewer."""
        return "admin" if self.is_admin else "viewer" if self.is_viewer else "user"
