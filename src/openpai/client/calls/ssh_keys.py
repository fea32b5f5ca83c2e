"""The public SSH keys of users."""

from __future__ import annotations

from openpai.client import model
from openpai.client.calls.naming import segment
from openpai.client.calls_core import Call, asks, listed, nothing, whole


def _path(username: str) -> str:
    return f"/users/{segment(username, 'a user')}/ssh-keys"


class SshKeys:
    """Lists, adds and removes the public keys with which a user logs in at the SSH gateway."""

    @asks
    def ssh_keys(self, username: str) -> Call[tuple[model.SshKey, ...]]:
        """Return the public keys of a user."""
        return Call("GET", _path(username), listed(model.SshKey.read, "sshKeys"))

    @asks
    def add_ssh_key(self, username: str, key: str, title: str = "") -> Call[model.SshKey]:
        """Add a public key, as a line of a `.pub` file; without a title, its comment is the title."""
        body = {"key": key, **({"title": title} if title else {})}
        return Call("POST", _path(username), whole(model.SshKey.read), json=body)

    @asks
    def remove_ssh_key(self, username: str, key: str) -> Call[None]:
        """Remove a public key, named by its id; its open SSH connections end."""
        return Call("DELETE", f"{_path(username)}/{segment(key, 'an SSH key')}", nothing)
