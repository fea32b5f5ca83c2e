"""Pods in protobuf: a real API server reads the same pod as from JSON, whatever a task may have."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from openpai.backends.kubernetes.bundles import Bundle
from openpai.backends.kubernetes.devices import DeviceRequest
from openpai.backends.kubernetes.pod_bodies import PodBodies
from openpai.backends.kubernetes.pods import Parts, Placement, PodOptions
from openpai.backends.kubernetes.seals import Seals
from openpai.backends.kubernetes.volumes import NFS_DRIVER, SMB_DRIVER, pod_volumes
from openpai.kube.client import KubeClient
from openpai.kube.connection import JSON
from openpai.kube.objects import PODS
from openpai.kube.objects.kinds import kind
from openpai.kube.objects.meta import PROTOBUF
from openpai.ports.backend import LaunchTask, Mount
from tests.contracts.seen import a_key

PEERS = "worker 0 10.0.0.1 ssh=15000\nworker 1 10.0.0.2 ssh=15000\n"
STORAGES = [
    Mount("claim", "", "/c", claim="kept", is_read_only=True),
    Mount("nfs", ":/share", "/n", filesystem="nfs", options="addr=10.0.0.9,rw", folder="ann"),
    Mount("tuned", ":/share", "/t", filesystem="nfs", options="addr=10.0.0.9,nconnect=4"),
    Mount("smb", "//server/share", "/s", filesystem="cifs", options="username=u,password=p"),
    Mount("local", "/srv/data", "/l"),
]


def a_launch(**changes: Any) -> LaunchTask:
    fields: dict[str, Any] = {
        "key": a_key(),
        "grant": 7,
        "node": "n1",
        "devices": (0, 1),
        "cpus": 2,
        "memory_mb": 1024,
        "image": "registry.example/team/image:1",
        "commands": "python train.py",
        "labels": {"user": "ann", "job": "bert", "role": "worker", "index": "3"},
        "env": {"PAI_ODD": "$(HOME) \u00e9 " + "x" * 300, "EMPTY": ""},
        **changes,
    }
    return LaunchTask(**fields)


@pytest.mark.parametrize(
    ("options", "changes", "parts"),
    [
        ({}, {}, {}),
        ({"placement": Placement.POLITE}, {"hosts": PEERS, "ports": (15000, 15001)}, {}),
        (
            {
                "host_network": True,
                "setuid": True,
                "infiniband": "rdma/hca",
                "checkpoint_claim": "kept",
                "priority_class": "system-node-critical",
                "pull_secrets": ("site",),
                "work_mb_max": 100,
                "fetch_mb_max": 1,
                "epoch": 12,
                "tolerations": (
                    {"key": "gpu", "operator": "Equal", "value": "a", "effect": "NoExecute", "tolerationSeconds": 5},
                ),
            },
            {"hosts": PEERS, "ports": (15000,), "infiniband": True, "shm_mb": 64, "grace_s": 3.5, "is_unique": True},
            {"devices": DeviceRequest({"nvidia.com/gpu": 2}, {"CUDA_VISIBLE_DEVICES": "0,1"})},
        ),
        (
            {},
            {},
            {
                "storages": pod_volumes(STORAGES, "pai-mount", [NFS_DRIVER, SMB_DRIVER]),
                "claims": ({"name": "devices", "resourceClaimName": "c"},),
            },
        ),
    ],
    ids=["plain", "polite", "options", "storages"],
)
async def test_the_same_pod_comes_of_both_forms(
    kube: KubeClient, kube_namespace: str, options: dict[str, Any], changes: dict[str, Any], parts: dict[str, Any]
) -> None:
    bundle = Bundle(("pai-files-1", "pai-files-2"), has_variables=True, env="pai-env", registry="pai-registry")
    launch, found = a_launch(**changes), []
    for only_json in (True, False):
        bodies = PodBodies(PodOptions(**options), Seals(b"secret", kube_namespace))
        bodies.only_json = only_json
        body = bodies.of(launch, Parts(bundle, **parts))
        assert body.is_binary is not only_json
        answer = await kube.connection.call(
            "POST",
            PODS.path(kube_namespace),
            doing="create a pod",
            params={"dryRun": "All", "fieldValidation": "Strict"},
            body=body.content,
            content_type=JSON if only_json else PROTOBUF,
        )
        pod = json.loads(answer)
        assert body.identity_of(PODS.decoder.decode(answer)) == body.identity
        for name in ("uid", "creationTimestamp", "managedFields"):
            del pod["metadata"][name]
        found.append(pod)
    assert found[0] == found[1]


async def test_of_a_new_pod_the_metadata_comes_in_protobuf(kube: KubeClient, kube_namespace: str) -> None:
    bodies = PodBodies(PodOptions(), Seals(b"secret", kube_namespace))
    body = bodies.of(a_launch(), Parts(Bundle(("pai-files",))))
    made = await kube.create(PODS, body.content, kube_namespace, only_metadata=True)
    found = await kube.get(PODS, made.name, kube_namespace)
    # Nothing asks a pod that was just created for the rest.
    known = msgspec.structs.replace(found.metadata, creation_timestamp=None, labels=None, finalizers=None)
    assert made == PODS.type(metadata=known)
    assert body.identity_of(made) == body.identity
    await kube.patch(PODS, made.name, {"metadata": {"finalizers": None}}, kube_namespace)


async def test_of_a_kind_without_protobuf_the_metadata_comes_in_json(kube: KubeClient) -> None:
    version, plural = "apiextensions.k8s.io/v1", "customresourcedefinitions"
    kinds = kind(version, "CustomResourceDefinition", plural, is_namespaced=False)
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "bodies.example.com", "names": names, "scope": "Cluster", "versions": [served]}
    await kube.create(kinds, {"metadata": {"name": "things.bodies.example.com"}, "spec": spec}, only_metadata=True)
    await kube.delete(kinds, "things.bodies.example.com")
