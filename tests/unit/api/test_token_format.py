"""Tokens that clients of OpenPAI can read, and that only their hash validates."""

from __future__ import annotations

import base64
import json

from openpai.access.accounts import Token
from openpai.api.token_format import digest_in, id_of, new_token


def claims(token: str) -> dict[str, object]:
    """Return the claims that clients read from a token, as jwt-decode does."""
    header, payload, _ = token.split(".")
    assert json.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))["typ"] == "JWT"
    found: dict[str, object] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return found


def test_clients_read_the_user_and_the_time_limit() -> None:
    message = claims(new_token("ann", is_application=False, created_at_ms=5_999, expires_at_ms=9_000))
    assert message == {"username": "ann", "application": False, "iat": 5, "exp": 9}
    message = claims(new_token("bö", is_application=True, created_at_ms=5_999, expires_at_ms=None))
    assert message == {"username": "bö", "application": True, "iat": 5}


def test_no_two_tokens_are_alike_and_none_is_an_id() -> None:
    tokens = {new_token("a", is_application=False, created_at_ms=0, expires_at_ms=1) for _ in range(100)}
    assert len(tokens) == 100
    assert not any(map(digest_in, tokens))


def test_an_id_names_its_digest_in_both_forms() -> None:
    token = Token("a" * 64, "ann", False, 5_000, None, "all", "")
    assert digest_in(id_of(token)) == digest_in("a" * 64) == "a" * 64
    assert claims(id_of(token))["iat"] == 5
    for other in ("a" * 63, "x.y", f"a.{'a' * 64}", f"a.b.c.{'a' * 64}", "a" * 64 + "\n"):
        assert digest_in(other) is None
