"""A client of the shared API server, a namespace of one test, and fake nodes.

A folder of tests that wants them imports them in its `conftest.py`.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from openpai.kube.client import KubeClient
from openpai.kube.config import cluster_access
from openpai.kube.errors import KubeError
from openpai.kube.objects import NAMESPACES, PODS
from tests.kube.fake_nodes import FakeNodes


@pytest_asyncio.fixture
async def kube(kube_api: Path) -> AsyncIterator[KubeClient]:
    """A client with all rights on the API server that the tests share."""
    async with KubeClient(cluster_access(kube_api)) as client:
        yield client


@pytest_asyncio.fixture
async def kube_namespace(kube: KubeClient) -> AsyncIterator[str]:
    """A namespace of this test; its pods are removed at the end."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    await kube.create(NAMESPACES, {"metadata": {"name": name}})
    yield name
    for pod in await kube.list(PODS, name):
        with contextlib.suppress(KubeError):
            await kube.delete(PODS, pod.name, name, grace_s=0)
    with contextlib.suppress(KubeError):
        await kube.delete(NAMESPACES, name)


@pytest_asyncio.fixture
async def kube_nodes(kube: KubeClient, kube_namespace: str) -> AsyncIterator[FakeNodes]:
    """Fake nodes, of which there are none yet, whose pods are those of this test's namespace."""
    async with FakeNodes(kube, kube_namespace) as nodes:
        yield nodes
