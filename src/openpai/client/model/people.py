"""Users, groups and tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openpai.client.model.reading import (
    Answer,
    Document,
    as_text,
    flag,
    mapping,
    needed,
    number,
    text,
    texts,
    value,
    whole,
)


def _scope(found: Any) -> str:
    return as_text(found) or "all"


@dataclass(frozen=True, slots=True)
class Login(Answer):
    """A person the server recognised, and the token that proves it."""

    user: str = needed("user", str)
    token: str = needed("token", str, repr=False)
    is_admin: bool = flag("admin")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class Checked(Answer):
    """What a token stands for."""

    user: str = needed("username", str)
    is_admin: bool = flag("admin")
    is_application: bool = flag("application")
    scope: str = value("scope", convert=_scope)
    expires_at_s: int | None = number("exp")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class TokenView(Answer):
    """One of a user's tokens, named by an id that is no credential."""

    id: str = text("id")
    name: str = text("name")
    scope: str = value("scope", convert=_scope)
    is_application: bool = flag("application")
    is_current: bool = flag("current")
    created_at_ms: int | None = number("createdTime")
    expires_at_ms: int | None = number("expirationTime")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class NewToken(Answer):
    """A token just made; it is shown this once."""

    token: str = needed("token", str, repr=False)
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class User(Answer):
    """A person or service that may log in. Of others, only administrators see more than the name."""

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
        """Return what they are on the platform: admin, user or viewer."""
        return "admin" if self.is_admin else "viewer" if self.is_viewer else "user"


@dataclass(frozen=True, slots=True)
class Group(Answer):
    """People who are granted the same."""

    name: str = needed("groupname", str)
    description: str = text("description")
    external_name: str = text("externalName")
    is_admin: bool = flag("extension.acls.admin")
    virtual_clusters: tuple[str, ...] = texts("extension.acls.virtualClusters")
    managed: tuple[str, ...] = texts("extension.acls.managedVirtualClusters")
    storages: tuple[str, ...] = texts("extension.acls.storageConfigs")
    extension: Mapping[str, Any] = mapping("extension", repr=False)
    document: Document = whole()
