"""Public SSH keys in the profiles of users: which ones are accepted, how they are named, and how a profile changes.

They are kept as OpenPAI keeps them, as `sshKeys` of a user's extension: `{title, value, time}`. Older clients write
there without a check, so that a text that is no acceptable key is found there, too; it is listed, and opens nothing.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_ssh_public_key

from openpai.protocol.errors import InvalidParameters, Refused

PROFILE_KEY: Final = "sshKeys"
KEYS_MAX: Final = 32
TEXT_MAX: Final = 8192
TITLE_MAX: Final = 100
RSA_BITS_MIN: Final = 2048
RSA_BITS_MAX: Final = 16384
_BITS: Final = {
    "ssh-ed25519": 256,
    "ecdsa-sha2-nistp256": 256,
    "ecdsa-sha2-nistp384": 384,
    "ecdsa-sha2-nistp521": 521,
    "ssh-rsa": 0,
}
_ADVICE: Final = "make one with `ssh-keygen -t ed25519`, and give the file that ends in .pub"


@dataclass(frozen=True, slots=True)
class SshKey:
    """A public key that was checked."""

    type: str
    bits: int
    blob: bytes = field(repr=False)
    """The key as SSH sends it."""
    title: str = ""
    added_at_ms: int | None = None

    @property
    def fingerprint(self) -> str:
        """Return its name, as `ssh-keygen -l` prints it."""
        return f"SHA256:{base64.b64encode(sha256(self.blob).digest()).decode().rstrip('=')}"

    @property
    def id(self) -> str:
        """Return its name in paths of the API."""
        return sha256(self.blob).hexdigest()

    @property
    def text(self) -> str:
        """Return the key as a line of a file, without a comment."""
        return f"{self.type} {base64.b64encode(self.blob).decode()}"


def read_key(text: str) -> SshKey:
    """Return the key that one line of a public key file has, titled by its comment; raise InvalidParametersError."""
    line = text.strip()
    if len(line) > TEXT_MAX:
        raise InvalidParameters(f"a public SSH key has at most {TEXT_MAX} characters, this text {len(line)}", _ADVICE)
    if "PRIVATE KEY" in line:
        message = "this is a private key, which must not leave your machine"
        raise InvalidParameters(message, "give the public one: the file that ends in .pub")
    if "\n" in line or "\r" in line:
        raise InvalidParameters("this is more than one line", "add one key at a time")
    type_, _, rest = line.partition(" ")
    if type_ not in _BITS:
        known = ", ".join(_BITS)
        message = f"a public SSH key begins with its type, one of {known}, and has no options before it"
        raise InvalidParameters(message, _ADVICE)
    encoded, _, comment = rest.strip().partition(" ")
    return SshKey(type_, _bits_of(type_, encoded), base64.b64decode(encoded), title_of(comment))


def _bits_of(type_: str, encoded: str) -> int:
    try:
        # A second line or a space in the text would be left out by the reader.
        base64.b64decode(encoded, validate=True)
        found = load_ssh_public_key(f"{type_} {encoded}".encode())
    except (ValueError, TypeError, binascii.Error, UnsupportedAlgorithm) as error:
        raise InvalidParameters(f"this is not a public key of the type {type_}", _ADVICE) from error
    if not isinstance(found, RSAPublicKey):
        return _BITS[type_]
    if not RSA_BITS_MIN <= found.key_size <= RSA_BITS_MAX:
        message = f"this RSA key has {found.key_size} bits, and {RSA_BITS_MIN} to {RSA_BITS_MAX} are accepted"
        raise InvalidParameters(message, _ADVICE)
    return found.key_size


def title_of(text: str) -> str:
    """Return a text as the title of a key: shortened, and without characters that do not print."""
    return "".join(each if each.isprintable() else " " for each in text).strip()[:TITLE_MAX]


def keys_in(extension: Mapping[str, Any]) -> tuple[SshKey, ...]:
    """Return the keys of a profile, without what is no acceptable key."""
    found = (_found(entry) for entry in _entries(extension))
    return tuple(key for key in found if key is not None)


def with_key(extension: Mapping[str, Any], key: SshKey) -> list[Any]:
    """Return the keys of a profile with one more; raise ConflictSshKeyError, or InvalidParametersError for too many."""
    entries = _entries(extension)
    if any(known.blob == key.blob for known in keys_in(extension)):
        raise Refused("ConflictSshKeyError", f"the profile has the key {key.fingerprint} already", "`pai ssh-key list`")
    if len(entries) >= KEYS_MAX:
        message = f"the profile has {len(entries)} SSH keys, and {KEYS_MAX} are allowed"
        raise InvalidParameters(message, "remove one first: pai ssh-key remove FINGERPRINT")
    return [*entries, {"title": key.title, "value": key.text, "time": key.added_at_ms}]


def without_key(extension: Mapping[str, Any], name: str) -> list[Any]:
    """Return the keys of a profile without the one of an id; raise NoSshKeyError if there is none."""
    entries = _entries(extension)
    kept = [entry for entry in entries if (key := _found(entry)) is None or key.id != name]
    if len(kept) == len(entries):
        raise Refused("NoSshKeyError", f"the profile has no SSH key {name[:TITLE_MAX]!r}", "`pai ssh-key list`")
    return kept


def _entries(extension: Mapping[str, Any]) -> Sequence[Any]:
    found = extension.get(PROFILE_KEY)
    return found if isinstance(found, list) else []


def _found(entry: Any) -> SshKey | None:
    value, document = (entry.get("value"), entry) if isinstance(entry, Mapping) else (entry, {})
    if not isinstance(value, str):
        return None
    try:
        key = read_key(value)
    except Refused:
        return None
    time = document.get("time")
    title = title_of(document["title"]) if isinstance(document.get("title"), str) and document["title"] else key.title
    at_ms = time if isinstance(time, int) and not isinstance(time, bool) else None
    return SshKey(key.type, key.bits, key.blob, title, at_ms)
