"""On a real kubelet a task finds what its last attempt saved, in the claim for checkpoints or on a storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from msgspec import structs

from openpai.app.clock import SystemClock
from openpai.backends.kubernetes.backend import KubernetesBackend, KubernetesOptions
from openpai.backends.kubernetes.node_health import NodeRules
from openpai.backends.kubernetes.pods import PodOptions
from openpai.kube.client import KubeClient
from openpai.kube.config import cluster_access
from openpai.lifecycle.model import AttemptKey
from openpai.ports.backend import ForgetTask, Mount
from tests.contracts.seen import Watch
from tests.kube.node import RealNode
from tests.kube.test_node_storages import SPACE, bound_claim, task

pytestmark = pytest.mark.full
SAVES: Final = """
if [ -f "$PAI_CHECKPOINT_DIR/step" ]; then echo "found $(cat "$PAI_CHECKPOINT_DIR/step")"; else echo "found nothing"; fi
echo "step of attempt" >"$PAI_CHECKPOINT_DIR/step"
"""


async def output(node: RealNode, logs: Path, pods: PodOptions, keys: Sequence[AttemptKey], *mounts: Mount) -> list[str]:
    """Return what attempts say that run one after another, each on a server of its own."""
    found = []
    for grant, key in enumerate(keys, start=1):
        rules = NodeRules({"kubernetes.io/hostname": node.name})
        options = KubernetesOptions(namespace=SPACE, nodes=rules, pods=pods)
        made = KubernetesBackend(cluster_access(node.plane.kubeconfig), b"checkpoints", SystemClock(), options, logs)
        await made.open()
        try:
            await made.apply([replace(task(node, key.job, *mounts, commands=SAVES), key=key, grant=grant)])
            (report,) = await Watch(made).until_over(key)
            log = Path(logs, key.path())
            assert report.code == 0, (report, (log / "runtime.log").read_text())
            found.append((log / "stdout.log").read_text().strip())
            await made.apply([ForgetTask(key)])
        finally:
            await made.close()
    return found


def attempts(job: str) -> list[AttemptKey]:
    first = AttemptKey(job, 0, "worker", 0, 0)
    # Its next attempt, another task of the job, and the next attempt of the whole job.
    changes: list[dict[str, int]] = [{}, {"task_attempt": 1}, {"index": 1}, {"job_attempt": 1}]
    return [structs.replace(first, **change) for change in changes]


FOUND: Final = ["found nothing", "found step of attempt", "found nothing", "found step of attempt"]


async def test_each_task_finds_its_own_directory_in_the_claim(kube_node: RealNode, tmp_path: Path) -> None:
    place = tmp_path / "claim"
    place.mkdir()
    async with KubeClient(cluster_access(kube_node.plane.kubeconfig)) as kube, bound_claim(kube, str(place)) as claim:
        pods = PodOptions(checkpoint_claim=claim)
        # Which attempts share a directory is the same for a claim and a storage.
        assert await output(kube_node, tmp_path / "logs", pods, attempts("saves-claim")[:2]) == FOUND[:2]
        assert (place / "saves-claim" / "worker.0" / "step").exists()


async def test_each_task_finds_its_own_directory_on_a_storage(kube_node: RealNode, tmp_path: Path) -> None:
    place = tmp_path / "shared"
    place.mkdir()
    mount = Mount("shared", str(place), "/mnt/shared")
    keys = attempts("saves-shared")
    assert await output(kube_node, tmp_path / "logs", PodOptions(), keys, mount) == FOUND
    assert (place / ".pai-checkpoints" / "saves-shared" / "worker.1" / "step").exists()
