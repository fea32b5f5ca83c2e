"""Definitions of channels: which keys each kind has, and which of them are secret."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from openpai.notify.addresses import check_url
from openpai.protocol.errors import InvalidParameters

NAME: Final = r"^[a-z0-9][a-z0-9._-]{0,63}$"
RESERVED: Final = ("admins", "owner")
MAIL_ADDRESS: Final = re.compile(r"[^\s@<>,;:\"\\()\[\]]{1,64}@[A-Za-z0-9.-]{1,190}")
_KEYS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "mail": (("host", "port", "security", "from", "to", "username", "ca"), ("password",)),
    "webhook": ((), ("url", "authorization")),
    # The URL of a chat's webhook is its password.
    "slack": ((), ("url",)),
    "teams": ((), ("url",)),
    "alertmanager": (("url",), ("authorization",)),
}
KINDS: Final = tuple(_KEYS)
CHANNELS_MAX: Final = 100
BYTES_MAX: Final = 16 << 10
_FIX: Final = "correct the channel; nothing was changed"


def split(name: str, kind: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the plain and the secret values of a channel; raise InvalidParameters with its first fault."""
    if re.fullmatch(NAME.strip("^$"), name) is None or name in RESERVED:
        raise InvalidParameters(f"{name[:80]!r} cannot name a channel", "use small letters, digits, ., _ and -")
    if kind not in KINDS:
        raise InvalidParameters(f"there is no kind of channel {kind[:40]!r}", f"use one of: {', '.join(KINDS)}")
    plain, secret = _KEYS[kind]
    for key, value in given.items():
        if key not in plain + secret:
            listed = ", ".join(plain + secret)
            raise InvalidParameters(f"a {kind} channel has no key {key[:40]!r}", f"use: {listed}")
        if not isinstance(value, list if key == "to" else int if key == "port" else str):
            raise InvalidParameters(f"`{key}` has a value of another type", _FIX)
    (_check_mail if kind == "mail" else _check_url)(given)
    return {key: given[key] for key in plain if key in given}, {key: given[key] for key in secret if key in given}


def check_size(name: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise InvalidParameters for a channel that is too large, or that would be one too many."""
    if len(str(given)) > BYTES_MAX:
        raise InvalidParameters(f"the channel is larger than {BYTES_MAX >> 10} KiB", "nothing was changed")
    if name not in known and len(known) >= CHANNELS_MAX:
        raise InvalidParameters(f"there are {CHANNELS_MAX} channels already", "remove one first")


def with_credentials(
    kind: str, plain: Mapping[str, Any], secret: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a definition with the credentials of the one before that it leaves out, unless it names another server."""
    now = {**plain, **secret}
    if any(key in given and given[key] != now.get(key) for key in (("host", "port") if kind == "mail" else ("url",))):
        # A user who cannot read the credentials must not be able to send them to another server.
        return dict(given)
    return {**secret, **given}


def _check_url(given: Mapping[str, Any]) -> None:
    if not given.get("url"):
        raise InvalidParameters("`url` is missing", _FIX)
    check_url(given["url"])


def _check_mail(given: Mapping[str, Any]) -> None:
    if not re.fullmatch(r"[A-Za-z0-9.:_-]{1,253}", str(given.get("host", ""))):
        raise InvalidParameters("`host`, the name of the mail server, is missing", _FIX)
    if not 1 <= given.get("port", 587) <= 65535 or isinstance(given.get("port"), bool):
        raise InvalidParameters("`port` is 1 to 65535", _FIX)
    if given.get("security", "starttls") not in ("starttls", "tls", "none"):
        raise InvalidParameters("`security` is starttls, tls or none", _FIX)
    if given.get("security") == "none" and given.get("password"):
        raise InvalidParameters("without TLS the password can be read on its way", "use starttls or tls")
    for address in (given.get("from", ""), *given.get("to", ())):
        if not isinstance(address, str) or MAIL_ADDRESS.fullmatch(address) is None:
            raise InvalidParameters(f"{str(address)[:80]!r} is not a mail address", "give `from`, and `to` as a list")
