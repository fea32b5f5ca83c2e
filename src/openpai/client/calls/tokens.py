"""Logging in and out, and tokens for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from openpai.client import model
from openpai.client.calls.naming import segment
from openpai.client.calls_core import Call, as_it_came, asks, listed, nothing, query_of, whole


def _revoked(response: httpx.Response) -> int:
    return int(response.json().get("revoked") or 0)


class Tokens:
    """Logs in and out, and manages the tokens of users."""

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

    @asks
    def check(self) -> Call[model.Checked]:
        """Return the user and scope of this client's token."""
        return Call("GET", "/tokens/check", whole(model.Checked.read))

    @asks
    def whoami(self) -> Call[str]:
        """Return the name of the user of this client's token."""
        return Call("GET", "/tokens/check", lambda response: str(response.json()["username"]))

    @asks
    def tokens(self) -> Call[tuple[model.TokenView, ...]]:
        """Return one's own tokens."""
        return Call("GET", "/tokens", listed(model.TokenView.read, "details"))

    @asks
    def new_token(self, *, name: str = "", scope: str = "all", expiration_s: int | None = None) -> Call[model.NewToken]:
        """Return a new token for a program; `scope` is all, jobs or read, and without a time it never expires."""
        body = {"name": name, "scope": scope, "expiration": expiration_s}
        wanted = {key: value for key, value in body.items() if value not in ("", None)}
        return Call("POST", "/tokens/application", whole(model.NewToken.read), json=wanted)

    @asks
    def revoke_token(self, token: str) -> Call[None]:
        """Revoke one of one's own tokens, named by itself or by its id."""
        return Call("DELETE", f"/tokens/{segment(token, 'a token')}", nothing)

    @asks
    def revoke_tokens(self, *, logins: bool | None = None) -> Call[int]:
        """Revoke one's own tokens and return how many: all, only logins (True) or only those of programs (False)."""
        return Call("DELETE", "/tokens", _revoked, query_of(browser=logins))

    @asks
    def revoke_tokens_of(self, username: str) -> Call[int]:
        """Revoke every token of a user and return how many; for administrators."""
        return Call("DELETE", f"/users/{segment(username, 'a user')}/tokens", _revoked)
