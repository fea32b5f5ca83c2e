"""Logins and tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from openpai.client.model.reading import Answer, Document, as_text, flag, needed, number, text, value, whole


def _scope(found: Any) -> str:
    return as_text(found) or "all"


@dataclass(frozen=True, slots=True)
class Login(Answer):
    """A login and its token."""

    user: str = needed("user", str)
    token: str = needed("token", str, repr=False)
    is_admin: bool = flag("admin")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class Checked(Answer):
    """The user and scope of a token."""

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
    """A new token; it is shown only now."""

    token: str = needed("token", str, repr=False)
    document: Document = whole()
