"""Groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openpai.client.model.reading import Answer, Document, flag, mapping, needed, text, texts, whole


@dataclass(frozen=True, slots=True)
class Group(Answer):
    """Users with the same rights."""

    name: str = needed("groupname", str)
    description: str = text("description")
    external_name: str = text("externalName")
    is_admin: bool = flag("extension.acls.admin")
    virtual_clusters: tuple[str, ...] = texts("extension.acls.virtualClusters")
    managed: tuple[str, ...] = texts("extension.acls.managedVirtualClusters")
    storages: tuple[str, ...] = texts("extension.acls.storageConfigs")
    extension: Mapping[str, Any] = mapping("extension", repr=False)
    document: Document = whole()
