"""Kueue's definitions on the API server that the tests share, without Kueue itself."""

from __future__ import annotations

import contextlib
from typing import Any, Final

import pytest_asyncio

from openpai.kube.client import KubeClient
from openpai.kube.errors import KubeError
from openpai.kube.objects.kinds import Kind, kind
from openpai.kube.objects.kueue import GROUP, WORKLOADS
from tests.kube.servers import until

LOCAL_QUEUES: Final = kind(WORKLOADS.api_version, "LocalQueue", "localqueues")
_CRDS: Final = kind(
    "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", is_namespaced=False
)
_ANY: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _definition(of: Kind[Any]) -> dict[str, Any]:
    names = {"kind": of.name, "plural": of.plural, "singular": of.name.lower(), "listKind": f"{of.name}List"}
    version = {
        "name": of.api_version.rpartition("/")[2],
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _ANY, "status": _ANY}}},
        "subresources": {"status": {}},
    }
    return {
        "metadata": {
            "name": f"{of.plural}.{GROUP}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        },
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


@pytest_asyncio.fixture
async def kueue(kube: KubeClient, kube_namespace: str) -> None:
    """Kueue's API, served."""
    kinds: tuple[Kind[Any], ...] = (WORKLOADS, LOCAL_QUEUES)
    for each in kinds:
        with contextlib.suppress(KubeError):  # it is there already
            await kube.create(_CRDS, _definition(each))

    async def is_served() -> bool:
        with contextlib.suppress(KubeError):
            for each in kinds:
                await kube.list(each, kube_namespace)
            return b"v1beta1" in await kube.raw("GET", f"/apis/{GROUP}")
        return False

    await until(is_served)
