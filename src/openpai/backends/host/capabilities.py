"""The Linux capabilities of containers: all are dropped but those that ordinary images need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CAPABILITIES: Final[Mapping[str, str]] = {
    "AUDIT_WRITE": "sshd, as Red Hat and others build it, writes each login to the audit log or refuses it",
    "CHOWN": "package managers and tar give files to their owners",
    "DAC_OVERRIDE": "root writes to the files of an image's other users",
    "FOWNER": "package managers set modes and times of files that are not root's",
    "FSETID": "package managers install programs with a setgid bit, and write to them later",
    "KILL": "the platform's wrapper and supervisors such as sshd end processes of other users",
    "NET_BIND_SERVICE": "servers in the container's own network listen on ports below 1024",
    "SETGID": "apt, sshd, su and gosu take on the group of another user",
    "SETUID": "apt, sshd, su and gosu become another user",
    "SYS_CHROOT": "sshd shuts the part that speaks to strangers into an empty directory",
}
"""The capabilities that containers have, and what needs each of them in ordinary images."""
NET_BIND_SERVICE: Final = "NET_BIND_SERVICE"


def kept_capabilities(*, is_on_host_network: bool) -> list[str]:
    """Return the capabilities that a container keeps."""
    # On the machine's own network a low port may be one of the machine's services.
    return sorted(name for name in CAPABILITIES if not (is_on_host_network and name == NET_BIND_SERVICE))
