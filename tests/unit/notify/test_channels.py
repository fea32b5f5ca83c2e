"""Definitions of channels: how large and how many, and which credentials a change keeps."""

from __future__ import annotations

from typing import Any

import pytest

from openpai.notify.channels import BYTES_MAX, CHANNELS_MAX, check_size, with_credentials
from openpai.protocol.errors import InvalidParameters

MAIL = {"host": "mail.example.org", "port": 587, "from": "pai@example.org"}
SECRET = {"password": "secret"}


@pytest.mark.parametrize(
    ("given", "is_kept"),
    [
        ({**MAIL, "from": "other@example.org"}, True),
        ({"host": "mail.example.org", "from": "pai@example.org"}, True),
        ({**MAIL, "host": "evil.example.org"}, False),
        ({**MAIL, "port": 25}, False),
    ],
)
def test_credentials_stay_with_their_server(given: dict[str, Any], is_kept: bool) -> None:
    assert ("password" in with_credentials("mail", MAIL, SECRET, given)) is is_kept


def test_a_password_that_is_given_replaces_the_one_before() -> None:
    assert with_credentials("mail", MAIL, SECRET, {**MAIL, "password": "new"})["password"] == "new"
    hook = {"url": "https://chat.example.org/a", "authorization": "Bearer x"}
    assert with_credentials("webhook", {}, hook, {}) == hook
    assert with_credentials("webhook", {}, hook, {"url": "https://evil.example.org"}) == {
        "url": "https://evil.example.org"
    }


def test_channels_are_limited_in_size_and_number() -> None:
    full = [f"c{at}" for at in range(CHANNELS_MAX)]
    check_size("c0", MAIL, full)
    with pytest.raises(InvalidParameters, match="channels already"):
        check_size("new", MAIL, full)
    with pytest.raises(InvalidParameters, match="larger than 16 KiB"):
        check_size("new", {"from": "x" * BYTES_MAX}, [])
