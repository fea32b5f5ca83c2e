"""What is made for a job when it is submitted, and sealed with its secrets.

These are the SSH keys of a job whose tasks use the plugin `ssh`, and the token that the platform sends to the
applications of a job, so that they can refuse all other clients.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from openpai.protocol.job import JobSpec
from openpai.protocol.references import entries
from openpai.runtime.applications import applications_of
from openpai.runtime.plugin import PluginKeys
from openpai.runtime.plugins import SSH_PLUGIN, uses

KEYS: Final = "ssh"
APPLICATION_TOKEN: Final = "application"  # noqa: S105  the name of a key
"""The names of both among what is sealed of a job."""


def with_keys(spec: JobSpec, taken: dict[str, Any], owner: Sequence[str]) -> dict[str, Any]:
    """Return what is sealed of a job, with all that it needs beside its file; `owner` are its owner's public keys."""
    if applications_of(spec):
        taken = {**taken, APPLICATION_TOKEN: secrets.token_hex(24)}
    if not has_ssh(spec):
        return taken
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    made = {"private": private.decode(), "public": f"{public.decode()} pai-job", "owner": list(owner)}
    return {**taken, KEYS: made}


def has_ssh(spec: JobSpec) -> bool:
    """Return whether the tasks of a job use the plugin `ssh`."""
    return any(use.name == SSH_PLUGIN for use in uses(spec))


def without_keys(taken: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is sealed of a job without what was not in its file."""
    return {name: value for name, value in taken.items() if name not in (KEYS, APPLICATION_TOKEN)}


def token_of(taken: Mapping[str, Any]) -> str:
    """Return the token for the applications of a job; empty for a job that had none when it was submitted."""
    found = taken.get(APPLICATION_TOKEN)
    return found if isinstance(found, str) else ""


def keys_of(taken: Mapping[str, Any]) -> PluginKeys:
    """Return the keys among what is sealed of a job."""
    found = taken.get(KEYS)
    if not isinstance(found, Mapping):
        return PluginKeys()
    return PluginKeys(found["private"], found["public"], tuple(found["owner"]))


def public_keys(extension: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the public keys in a user's profile: texts, or mappings with a `value` as OpenPAI keeps them."""
    found = [each.get("value") if isinstance(each, Mapping) else each for each in entries(extension.get("sshKeys"))]
    return tuple(key.strip() for key in found if isinstance(key, str) and key.strip())
