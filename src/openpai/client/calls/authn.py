"""Logging in and out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openpai.client import model
from openpai.client.calls_core import Call, as_it_came, asks, nothing, whole


class Authn:
    """Logs in and out."""

    @asks
    def info(self) -> Call[Mapping[str, Any]]:
        """Return the name and version of the server and how to log in."""
        return Call("GET", "/info", as_it_came)

    @asks
    def login(self, username: str, password: str, expiration_s: int | None = None) -> Call[model.Login]:
        """Return a new login; this client does not use its token by itself."""
        body: dict[str, Any] = {"username": username, "password": password}
        if expiration_s is not None:
            body["expiration"] = expiration_s
        return Call("POST", "/authn/basic/login", whole(model.Login.read), json=body)

    @asks
    def redeem(self, code: str, verifier: str) -> Call[model.Login]:
        """Return a new login for the code of a sign-on and its secret; this client does not use its token by itself."""
        return Call("POST", "/authn/oidc/token", whole(model.Login.read), json={"code": code, "verifier": verifier})

    @asks
    def logout(self) -> Call[None]:
        """Revoke this client's token."""
        return Call("DELETE", "/authn/basic/logout", nothing)
