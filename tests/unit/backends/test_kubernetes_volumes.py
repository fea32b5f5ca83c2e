"""A storage becomes a volume that Kubernetes mounts in the same way as the other backends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openpai.backends.kubernetes.volumes import NFS_DRIVER, SMB_DRIVER, PodVolumes, pod_volumes
from openpai.ports.backend import Mount
from openpai.protocol.errors import Refused

DIRECTORY = Mount("data", "/srv/data", "/mnt/data")
NFS = Mount("nfs", ":/export", "/mnt/nfs", filesystem="nfs", options="addr=10.0.0.9,rw")
SMB = Mount(
    "smb",
    "//files/share/team",
    "/mnt/smb",
    filesystem="cifs",
    options="addr=files,rw,port=445,domain=CORP,username=ann,password=a,,b=c,username=x",
)
BOTH = frozenset({NFS_DRIVER, SMB_DRIVER})


def made(mount: Mount, drivers: frozenset[str] = BOTH) -> tuple[object, object, PodVolumes]:
    found = pod_volumes([mount], "pod", drivers)
    volume = {name: value for name, value in found.volumes[0].items() if name != "name"}
    return volume, found.mounts[0], found


def test_a_directory_of_the_node_must_exist() -> None:
    volume, place, _ = made(DIRECTORY)

    assert volume == {"hostPath": {"path": "/srv/data", "type": "Directory"}}
    assert place == {"name": "storage-0", "mountPath": "/mnt/data", "readOnly": False}


def test_a_user_sees_only_the_own_folder() -> None:
    _, place, _ = made(replace(DIRECTORY, folder="ann"))

    assert place == {"name": "storage-0", "mountPath": "/mnt/data", "readOnly": False, "subPath": "ann"}


def test_a_claim_replaces_what_the_storage_is() -> None:
    for mount in (DIRECTORY, NFS, SMB):
        volume, _, found = made(replace(mount, claim="team-claim"))
        assert volume == {"persistentVolumeClaim": {"claimName": "team-claim", "readOnly": False}}
        assert found.secrets == {}


def test_nfs_without_options_needs_no_driver() -> None:
    volume, _, _ = made(NFS, frozenset())

    assert volume == {"nfs": {"server": "10.0.0.9", "path": "/export", "readOnly": False}}


def test_nfs_with_options_needs_the_driver() -> None:
    mount = replace(NFS, options="addr=10.0.0.9,rw,vers=3,nolock")
    volume, _, _ = made(mount)

    assert volume == {
        "csi": {
            "driver": NFS_DRIVER,
            "readOnly": False,
            "volumeAttributes": {"server": "10.0.0.9", "share": "/export", "mountOptions": "vers=3,nolock"},
        }
    }
    with pytest.raises(Refused, match="'nfs' cannot be mounted in this cluster: it needs mount options vers=3,nolock"):
        made(mount, frozenset())


def test_smb_has_its_credentials_in_a_secret() -> None:
    volume, _, found = made(SMB)

    assert volume == {
        "csi": {
            "driver": SMB_DRIVER,
            "readOnly": False,
            "volumeAttributes": {"source": "//files/share/team", "secretName": "pod-storage-0"},
        }
    }
    assert found.secrets == {"pod-storage-0": {"username": "ann", "password": "a,b=c,username=x", "domain": "CORP"}}
    assert "a,b=c" not in repr(found)
    assert "a,b=c" not in repr(found.volumes)


def test_smb_for_guests_on_another_port() -> None:
    volume, _, found = made(replace(SMB, options="addr=files,rw,port=1445,guest"))

    assert "'mountOptions': 'guest,port=1445'" in str(volume)
    assert found.secrets == {}


@pytest.mark.parametrize("mount", [SMB, replace(SMB, filesystem="ceph")])
def test_what_the_cluster_cannot_mount_is_refused_with_what_it_needs(mount: Mount) -> None:
    with pytest.raises(Refused, match="cannot be mounted in this cluster") as caught:
        pod_volumes([mount], "pod", frozenset())
    assert "a,b=c" not in str(caught.value)


@pytest.mark.parametrize("mount", [DIRECTORY, NFS, replace(NFS, options="addr=1.2.3.4,ro,vers=3"), SMB])
def test_a_read_only_storage_is_read_only_everywhere(mount: Mount) -> None:
    for claim in ("", "claim"):
        volume, place, _ = made(replace(mount, is_read_only=True, claim=claim))
        assert "'readOnly': True" in str(place)
        assert "'readOnly': True" in str(volume) or "hostPath" in str(volume)


def test_a_claim_that_is_written_to_at_one_place_is_no_read_only_volume_at_another() -> None:
    """A kubelet mounts a claim once for a pod, as the first volume of it says."""
    written = replace(DIRECTORY, claim="team")
    fixed = replace(written, name="fixed", mount_path="/mnt/fixed", is_read_only=True)
    found = pod_volumes((fixed, written), "p", BOTH)
    assert [volume["persistentVolumeClaim"]["readOnly"] for volume in found.volumes] == [False, False]
    assert [place["readOnly"] for place in found.mounts] == [True, False]
