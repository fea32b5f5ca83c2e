"""What is kept of a pod is all that is asked of it later, and little."""

from __future__ import annotations

import json
from typing import Any

from openpai.backends.kubernetes.cached_pods import PodKeeper
from openpai.backends.kubernetes.foreign import requested
from openpai.backends.kubernetes.names import SCOPE_LABEL, pod_name
from openpai.backends.kubernetes.seals import Identity, Seals
from openpai.kube.objects.kinds import PODS
from openpai.kube.objects.pods import Pod
from openpai.lifecycle.model import AttemptKey

SEALS = Seals(b"secret", "jobs")
KEY = AttemptKey("job", 0, "worker", 3, 0)
AMOUNTS = {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}, "limits": {"memory": "1Gi"}}


def read(namespace: str, labels: dict[str, str], annotations: dict[str, str], *, node: str = "n1", **spec: Any) -> Pod:
    managed = [{"manager": "kubelet", "fieldsV1": {f"f:{number}": {} for number in range(100)}}]
    conditions = [{"type": kind, "status": "True"} for kind in ("Ready", "PodScheduled", "Initialized")]
    body = {
        "metadata": {
            "name": pod_name(SEALS.scope, KEY),
            "namespace": namespace,
            "uid": "u",
            "resourceVersion": "7",
            "labels": {**labels, "app": "x"},
            "annotations": {**annotations, "kubectl": "y" * 1000},
            "managedFields": managed,
        },
        "spec": {"nodeName": node, "schedulerName": "openpai", "containers": [{"name": "task", **spec}]},
        "status": {"phase": "Running", "conditions": conditions},
    }
    return PODS.decoder.decode(json.dumps(body))


def test_a_pod_of_ours_stays_what_its_seal_says() -> None:
    identity = Identity(KEY, 5, "n1", (0, 1))
    pod = read("jobs", {SCOPE_LABEL: SEALS.scope}, SEALS.annotations(identity))
    kept = PodKeeper("jobs", SEALS.scope).kept(pod)

    assert SEALS.identity(kept) == SEALS.identity(pod) == identity
    assert (kept.uid, kept.metadata.resource_version, kept.spec.scheduler_name) == ("u", "7", "openpai")
    assert kept.metadata.label(SCOPE_LABEL) == SEALS.scope
    assert kept.status.conditions == ()


def test_a_pod_with_our_label_and_no_seal_still_counts_for_what_it_takes() -> None:
    keeper = PodKeeper("jobs", SEALS.scope)
    for namespace in ("jobs", "others"):
        pod = read(namespace, {SCOPE_LABEL: SEALS.scope}, {}, resources=AMOUNTS)
        kept = keeper.kept(pod)
        assert SEALS.identity(kept) is None
        assert requested(kept.spec) == requested(pod.spec)
        assert requested(kept.spec).resources == {"nvidia.com/gpu": 1}
        assert (kept.spec.node_name, kept.status.phase) == ("n1", "Running")


def test_equal_parts_are_shared_by_the_pods_of_all_nodes() -> None:
    keeper = PodKeeper("jobs", SEALS.scope)
    one, other = (keeper.kept(read("others", {}, {}, node=node, resources=AMOUNTS)) for node in ("n1", "n2"))
    different = keeper.kept(read("others", {}, {}, resources={"requests": {"cpu": "2"}}))
    assert one.spec.containers is other.spec.containers
    assert (one.spec.node_name, other.spec.node_name) == ("n1", "n2")
    assert requested(different.spec).cpu_milli == 2000


def test_what_a_pod_keeps_through_its_events_is_shared_by_them_and_equal_states_by_all() -> None:
    keeper = PodKeeper("jobs", SEALS.scope)
    sealed = SEALS.annotations(Identity(KEY, 5, "n1", (0, 1)))
    one, other = (keeper.kept(read("jobs", {SCOPE_LABEL: SEALS.scope}, sealed)) for _ in range(2))
    assert one.name is other.name
    assert one.uid is other.uid
    assert one.status is other.status
    foreign = [keeper.kept(read("others", {}, {}, node=node)) for node in ("n1", "n2")]
    assert foreign[0].status is foreign[1].status
