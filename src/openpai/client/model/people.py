"""People, groups and tokens as the server tells of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from openpai.client.model.reading import Document, number, text, texts


@dataclass(frozen=True, slots=True)
class Login:
    """A person the server recognised, and the token that proves it."""

    user: str
    token: str = field(repr=False)
    is_admin: bool
    document: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> Login:
        """Return the login the server answered with."""
        return cls(document["user"], document["token"], bool(document.get("admin")), document)


@dataclass(frozen=True, slots=True)
class Checked:
    """What a token stands for."""

    user: str
    is_admin: bool
    is_application: bool
    scope: str
    expires_at_s: int | None
    document: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> Checked:
        """Return what the server says of the token it was asked with."""
        return cls(
            user=document["username"],
            is_admin=bool(document.get("admin")),
            is_application=bool(document.get("application")),
            scope=text(document.get("scope")) or "all",
            expires_at_s=number(document.get("exp")),
            document=document,
        )


@dataclass(frozen=True, slots=True)
class TokenView:
    """One of a user's tokens, named by an id that nobody can log in with."""

    id: str
    name: str
    scope: str
    is_application: bool
    is_current: bool
    created_at_ms: int | None
    expires_at_ms: int | None
    document: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> TokenView:
        """Return one token of the server's list."""
        return cls(
            id=text(document.get("id")),
            name=text(document.get("name")),
            scope=text(document.get("scope")) or "all",
            is_application=bool(document.get("application")),
            is_current=bool(document.get("current")),
            created_at_ms=number(document.get("createdTime")),
            expires_at_ms=number(document.get("expirationTime")),
            document=document,
        )


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token just made; it is shown this once."""

    token: str = field(repr=False)
    document: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> NewToken:
        """Return the token the server made."""
        return cls(document["token"], document)


@dataclass(frozen=True, slots=True)
class User:
    """A person or service that may log in. Of others, only administrators see more than the name."""

    name: str
    email: str
    is_admin: bool
    is_viewer: bool
    groups: tuple[str, ...]
    virtual_clusters: tuple[str, ...]
    storages: tuple[str, ...]
    extension: Mapping[str, Any] = field(repr=False)
    document: Document = field(repr=False, compare=False)

    @property
    def role(self) -> str:
        """Return what they are on the platform: admin, user or viewer."""
        return "admin" if self.is_admin else "viewer" if self.is_viewer else "user"

    @classmethod
    def read(cls, document: Document) -> User:
        """Return one user of the server's."""
        return cls(
            name=document["username"],
            email=text(document.get("email")),
            is_admin=bool(document.get("admin")),
            is_viewer=bool(document.get("viewer")),
            groups=texts(document.get("grouplist")),
            virtual_clusters=texts(document.get("virtualCluster")),
            storages=texts(document.get("storageConfig")),
            extension=dict(document.get("extension") or {}),
            document=document,
        )


@dataclass(frozen=True, slots=True)
class Group:
    """People who are granted the same."""

    name: str
    description: str
    external_name: str
    is_admin: bool
    virtual_clusters: tuple[str, ...]
    managed: tuple[str, ...]
    storages: tuple[str, ...]
    extension: Mapping[str, Any] = field(repr=False)
    document: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> Group:
        """Return one group of the server's."""
        extension = document.get("extension") or {}
        granted = extension.get("acls") or {}
        return cls(
            name=document["groupname"],
            description=text(document.get("description")),
            external_name=text(document.get("externalName")),
            is_admin=bool(granted.get("admin")),
            virtual_clusters=texts(granted.get("virtualClusters")),
            managed=texts(granted.get("managedVirtualClusters")),
            storages=texts(granted.get("storageConfigs")),
            extension=dict(extension),
            document=document,
        )
