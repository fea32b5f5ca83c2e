"""Logins."""

from __future__ import annotations

from dataclasses import dataclass

from openpai.client.model.reading import Answer, Document, flag, needed, whole


@dataclass(frozen=True, slots=True)
class Login(Answer):
    """A login and its token."""

    user: str = needed("user", str)
    token: str = needed("token", str, repr=False)
    is_admin: bool = flag("admin")
    document: Document = whole()
