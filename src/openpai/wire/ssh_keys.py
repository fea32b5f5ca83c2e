"""Documents of the SSH keys of users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from openpai.wire.doc import Doc, Document

_ID: Final = "2e0a5f4be7a3a1e04a0a5d1c9d10e4bd4a5d2d5e8ad2a9a3b5cc0ed7a6a3f2ab"


class SshKey(Document):
    """A public SSH key of a user."""

    id: Annotated[str, Doc("names the key in paths", example=_ID)]
    title: Annotated[str, Doc(example="ann@laptop")]
    type: Annotated[str, Doc(example="ssh-ed25519")]
    bits: Annotated[int, Doc(example=256)]
    fingerprint: Annotated[str, Doc(example="SHA256:LgpfS+ejoeBKCl0cnRDkvUpdLV6K0qmjtcwO16aj8qs")]
    key: Annotated[str, Doc(example="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHWm3eEJr1bG5GLtMmEd6WYqnFyFLYHBQ1vQh7pQ3x9d")]
    addedTime: Annotated[int | None, Doc("milliseconds since 1970; null if an older client added it", example=None)]


class SshKeyList(Document):
    """The public SSH keys of a user."""

    sshKeys: Sequence[SshKey]
