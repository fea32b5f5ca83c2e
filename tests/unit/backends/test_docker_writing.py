"""Which Engines are asked to limit a container's layer."""

from __future__ import annotations

import pytest

pytest.importorskip("aiodocker", reason="the docker backend needs the package 'aiodocker', which is not installed")

from openpai.backends.docker.writing import bounds_layers

XFS = [["Backing Filesystem", "xfs"], ["Supports d_type", "true"]]
EXT4 = [["Backing Filesystem", "extfs"]]
MOUNTS = "\n".join(
    (
        "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw",
        r"30 22 7:0 / /var/lib/my\040docker rw,relatime - xfs /dev/loop0 rw,attr2,inode64,prjquota",
        "31 22 7:1 / /srv rw,relatime - xfs /dev/loop1 rw,attr2,noquota",
    )
)


@pytest.mark.parametrize(
    ("driver", "status", "root", "can"),
    [
        ("overlay2", XFS, "/var/lib/my docker", True),
        ("overlay2", XFS, "/var/lib/my docker/below", True),
        ("overlay2", XFS, "/srv/docker", False),
        ("overlay2", XFS, "/elsewhere", False),
        ("overlay2", EXT4, "/var/lib/my docker", False),
        ("overlay2", None, "/var/lib/my docker", False),
        ("vfs", None, "/var/lib/my docker", False),
        ("btrfs", None, "/srv", True),
    ],
)
def test_only_drivers_that_can_are_asked(driver: str, status: object, root: str, can: bool) -> None:
    assert bounds_layers({"Driver": driver, "DriverStatus": status, "DockerRootDir": root}, MOUNTS) is can
