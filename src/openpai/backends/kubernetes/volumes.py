"""Turns the storages of a task into volumes of its pod.

| storage | volume |
|---|---|
| a directory of the nodes | hostPath; with a folder for each user, only that folder, which the kubelet creates |
| any storage with a PersistentVolumeClaim | that claim |
| NFS | an nfs volume; with mount options the driver nfs.csi.k8s.io, since nfs volumes have none |
| SMB | the driver smb.csi.k8s.io, with the credentials in a Secret |

Object stores have a claim, which a CSI driver mounts, or are read and written by the job's commands.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from openpai.ports.backend import Mount
from openpai.protocol.errors import Refused

NFS_DRIVER: Final = "nfs.csi.k8s.io"
SMB_DRIVER: Final = "smb.csi.k8s.io"
_PLAIN: Final = frozenset({"ro", "rw"})
_CREDENTIALS: Final = ("username", "password", "domain")


@dataclass(frozen=True, slots=True)
class PodVolumes:
    """The volumes of a pod, where its container has them, and the Secrets that they need."""

    volumes: tuple[Mapping[str, Any], ...] = ()
    mounts: tuple[Mapping[str, Any], ...] = ()
    secrets: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    """The values of each Secret by its name."""


def pod_volumes(mounts: Sequence[Mount], prefix: str, drivers: Collection[str]) -> PodVolumes:
    """Return the volumes for these storages; the names of Secrets begin with `prefix`.

    `drivers` are the CSI drivers of the cluster.

    Raises Refused for a storage that this cluster cannot mount.
    """
    # A kubelet mounts a claim once for a pod: read-only as a volume, it would be that at every place.
    written = {mount.claim for mount in mounts if mount.claim and not mount.is_read_only}
    volumes, places = [], []
    secrets: dict[str, Mapping[str, str]] = {}
    for number, mount in enumerate(mounts):
        name = f"storage-{number}"
        source, credentials = _source(mount, f"{prefix}-{name}", drivers, written)
        if credentials:
            secrets[f"{prefix}-{name}"] = credentials
        volumes.append({"name": name, **source})
        place = {"name": name, "mountPath": mount.mount_path, "readOnly": mount.is_read_only}
        places.append({**place, "subPath": mount.folder} if mount.folder else place)
    return PodVolumes(tuple(volumes), tuple(places), secrets)


def _source(
    mount: Mount, secret: str, drivers: Collection[str], written: Collection[str]
) -> tuple[dict[str, Any], Mapping[str, str]]:
    if mount.claim:
        is_read_only = mount.is_read_only and mount.claim not in written
        return {"persistentVolumeClaim": {"claimName": mount.claim, "readOnly": is_read_only}}, {}
    if mount.filesystem == "nfs":
        return _nfs(mount, drivers), {}
    if mount.filesystem == "cifs":
        return _smb(mount, secret, drivers)
    if mount.filesystem:
        raise _unknown(mount, f"file system {mount.filesystem}", "mount it on the nodes")
    return {"hostPath": {"path": mount.source, "type": "Directory"}}, {}


def _nfs(mount: Mount, drivers: Collection[str]) -> dict[str, Any]:
    options = mount.options.split(",")
    server = next((option.removeprefix("addr=") for option in options if option.startswith("addr=")), "")
    path = mount.source.removeprefix(":")
    others = [option for option in options if option and option not in _PLAIN and not option.startswith("addr=")]
    if not others:
        return {"nfs": {"server": server, "path": path, "readOnly": mount.is_read_only}}
    if NFS_DRIVER not in drivers:
        raise _unknown(
            mount,
            f"mount options {','.join(others)}",
            f"install the CSI driver {NFS_DRIVER}, which the server must be allowed to list",
        )
    attributes = {"server": server, "share": path, "mountOptions": ",".join(others)}
    return {"csi": {"driver": NFS_DRIVER, "readOnly": mount.is_read_only, "volumeAttributes": attributes}}


def _smb(mount: Mount, secret: str, drivers: Collection[str]) -> tuple[dict[str, Any], Mapping[str, str]]:
    if SMB_DRIVER not in drivers:
        raise _unknown(mount, "SMB", f"install the CSI driver {SMB_DRIVER}, which the server must be allowed to list")
    text, has_password, password = mount.options.partition("password=")
    given = {name: value for name, _, value in (pair.partition("=") for pair in text.split(",")) if name}
    # The kernel reads two commas as one; the driver passes the password on in another way.
    given |= {"password": password.replace(",,", ",")} if has_password else {}
    credentials = {name: given[name] for name in _CREDENTIALS if given.get(name)}
    options = ["guest"] if "guest" in given else []
    options += [f"port={given['port']}"] if given.get("port", "445") != "445" else []
    attributes = {"source": mount.source}
    if options:
        attributes["mountOptions"] = ",".join(options)
    if credentials:
        attributes["secretName"] = secret
    return {"csi": {"driver": SMB_DRIVER, "readOnly": mount.is_read_only, "volumeAttributes": attributes}}, credentials


def _unknown(mount: Mount, what: str, advice: str) -> Refused:
    message = f"the storage {mount.name!r} cannot be mounted in this cluster: it needs {what}"
    return Refused(
        "InvalidParametersError", message, f"an administrator can {advice}, or name a volume claim in data.claim"
    )
