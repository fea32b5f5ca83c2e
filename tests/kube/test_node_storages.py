"""Storages on a real kubelet: a directory of the node, a claim that the cluster binds, and NFS, in one task."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from openpai.app.clock import SystemClock
from openpai.backends.kubernetes import starting
from openpai.backends.kubernetes.backend import KubernetesBackend, KubernetesOptions
from openpai.backends.kubernetes.node_health import NodeRules
from openpai.kube.client import KubeClient
from openpai.kube.config import cluster_access
from openpai.kube.errors import KubeError
from openpai.kube.objects import kind
from openpai.lifecycle.model import AttemptKey, ExitReason
from openpai.ports.backend import ForgetTask, LaunchTask, Mount
from tests.contracts.seen import Watch
from tests.kube.images import SHELL_IMAGE
from tests.kube.node import RealNode

pytestmark = pytest.mark.full
VOLUMES = kind("v1", "PersistentVolume", "persistentvolumes", is_namespaced=False)
CLAIMS = kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
SPACE = "default"
COMMANDS = """
for place in node claim nfs; do
  [ -d /mnt/$place ] || continue
  cat /mnt/$place/hello
  echo "written by $PAI_TASK_ROLE_NAME" >/mnt/$place/made
  if (echo x >/mnt/$place-fixed/made) 2>/dev/null; then exit 9; fi
  cat /mnt/$place-fixed/made
done
"""


@asynccontextmanager
async def backend(node: RealNode, logs: Path) -> AsyncIterator[KubernetesBackend]:
    rules = NodeRules({"kubernetes.io/hostname": node.name})
    options = KubernetesOptions(namespace=SPACE, nodes=rules)
    made = KubernetesBackend(cluster_access(node.plane.kubeconfig), b"storages", SystemClock(), options, logs)
    await made.open()
    try:
        yield made
    finally:
        await made.close()


def task(node: RealNode, job: str, *mounts: Mount, commands: str = COMMANDS) -> LaunchTask:
    key = AttemptKey(job, 0, "worker", 0, 0)
    env = {"PAI_TASK_ROLE_NAME": "worker"}
    return LaunchTask(key, 1, node.name, (), 1, 128, SHELL_IMAGE, commands, env=env, grace_s=1.0, mounts=mounts)


def both(name: str, source: str, **how: Any) -> tuple[Mount, Mount]:
    """Return a storage that may be written to, and the same read-only."""
    fixed = Mount(name, source, f"/mnt/{name}-fixed", is_read_only=True, **how)
    return Mount(name, source, f"/mnt/{name}", **how), fixed


def directory(path: Path) -> str:
    path.mkdir()
    (path / "hello").write_text(f"hello {path.name}\n")
    return str(path)


@asynccontextmanager
async def bound_claim(kube: KubeClient, path: str) -> AsyncIterator[str]:
    """A claim that the cluster binds to a volume that is a directory of the node. Its name is no earlier run's."""
    name = f"team-{token_hex(4)}"
    modes, size, volume = ["ReadWriteMany"], {"storage": "1Gi"}, f"pv-{name}"
    spec = {"capacity": size, "accessModes": modes, "hostPath": {"path": path}, "storageClassName": name}
    await kube.create(VOLUMES, {"metadata": {"name": volume}, "spec": spec})
    spec = {"accessModes": modes, "resources": {"requests": size}, "storageClassName": name}
    try:
        await kube.create(CLAIMS, {"metadata": {"name": name}, "spec": spec}, SPACE)
        yield name
    finally:
        for what, space in ((CLAIMS, SPACE), (VOLUMES, "")):
            with contextlib.suppress(KubeError):
                await kube.delete(what, name if space else volume, space)


@pytest.fixture
def nfs_export(tmp_path: Path) -> Iterator[str]:
    """A directory that an NFS server of this machine exports."""
    if reason := why_no_nfs():
        pytest.skip(reason)
    path = Path(directory(tmp_path / "nfs"))
    config = tmp_path / "ganesha.conf"
    config.write_text(
        "NFS_CORE_PARAM { Protocols = 4; NFS_Port = 2049; Enable_NLM = false; Enable_RQUOTA = false; }\n"
        f"EXPORT {{ Export_Id = 1; Path = {path}; Pseudo = /nfs; Access_Type = RW; Squash = No_root_squash;"
        " SecType = sys; FSAL { Name = VFS; } }\n"
    )
    command = ["ganesha.nfsd", "-F", "-f", str(config), "-L", str(tmp_path / "nfs.log"), "-p", str(tmp_path / "pid")]
    with subprocess.Popen(command) as server:
        try:
            limit_s = time.monotonic() + 90
            while "NFS SERVER INITIALIZED" not in (tmp_path / "nfs.log").read_text():
                assert server.poll() is None
                assert time.monotonic() < limit_s
                time.sleep(0.2)
            yield "/nfs"
        finally:
            server.terminate()


def why_no_nfs() -> str:
    """Return why no NFS can be mounted here; empty if it can."""
    if not any(line.split()[-1] == "nfs4" for line in Path("/proc/filesystems").read_text().splitlines()):
        return "the kernel cannot mount NFS (load its module nfsv4)"
    missing = [name for name in ("ganesha.nfsd", "mount.nfs") if shutil.which(name) is None]
    return f"no {', '.join(missing)} (apt install nfs-ganesha-vfs nfs-common)" if missing else ""


async def mounted(node: RealNode, logs: Path, *mounts: Mount) -> str:
    """Return what a task says that uses these storages."""
    async with backend(node, logs) as made:
        launch = task(node, f"stores-{token_hex(4)}", *mounts)
        await made.apply([launch])
        (report,) = await Watch(made).until_over(launch.key)
        message = (logs / launch.key.path() / "stdout.log").read_text()
        assert (report.code, report.message) == (0, ""), message
        await made.apply([ForgetTask(launch.key)])
    return message


async def test_directories_of_nodes_and_claims_are_mounted(kube_node: RealNode, tmp_path: Path) -> None:
    ours, theirs = directory(tmp_path / "node"), directory(tmp_path / "claim")
    access = cluster_access(kube_node.plane.kubeconfig)
    async with KubeClient(access) as kube, bound_claim(kube, theirs) as claim:
        mounts = (*both("node", ours), *both("claim", "nothing of the node", claim=claim))
        message = await mounted(kube_node, tmp_path / "logs", *mounts)
        assert message.splitlines() == ["hello node", "written by worker", "hello claim", "written by worker"]
        assert (tmp_path / "claim" / "made").read_text() == "written by worker\n"


async def test_nfs_is_mounted(kube_node: RealNode, nfs_export: str, tmp_path: Path) -> None:
    mounts = both("nfs", f":{nfs_export}", filesystem="nfs", options=f"addr={kube_node.address},rw")
    message = await mounted(kube_node, tmp_path / "logs", *mounts)
    assert message.splitlines() == ["hello nfs", "written by worker"]
    assert (tmp_path / "nfs" / "made").read_text() == "written by worker\n"


async def test_storages_that_cannot_be_mounted_say_why_and_end(
    kube_node: RealNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that no kernel can reach, and a claim that is not there: the message is the kubelet's own."""
    monkeypatch.setattr(starting, "PATIENCE_S", 5.0)
    away = Mount("away", ":/none", "/mnt/away", filesystem="nfs", options="addr=127.0.0.1,rw")
    claim = Mount("claim", "", "/mnt/claim", claim="not-there")
    async with backend(kube_node, tmp_path / "logs") as made:
        launches = [task(kube_node, "away", away), task(kube_node, "no-claim", claim)]
        await made.apply(launches)
        async with asyncio.timeout(180):
            watch = Watch(made)
            reports = [(await watch.until_over(launch.key))[0] for launch in launches]
        await made.apply([ForgetTask(launch.key) for launch in launches])
    assert {report.reason for report in reports} <= {ExitReason.LAUNCH_FAILED, ExitReason.OUT_OF_RESOURCES}
    assert "storage-0" in reports[0].message
    assert '"not-there" not found' in reports[1].message
