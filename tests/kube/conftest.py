"""Fixtures of tests that talk to a real API server; other folders get them from `tests.kube.fixtures`."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kube.fixtures import kube, kube_namespace, kube_nodes
from tests.kube.node import lasting, real_node, why_no_node
from tests.kube.server import control_plane

if TYPE_CHECKING:
    from tests.kube.fake_gpu_driver import FakeGpuDriver

__all__ = ["gpu_driver", "kube", "kube_namespace", "kube_nodes"]


@pytest.fixture
def gpu_driver() -> FakeGpuDriver:
    """A node with eight GPUs, of a Kubernetes that serves DeviceTaintRules."""
    if reason := why_no_node():
        pytest.skip(reason)
    return lasting(_node_with_gpus)


@contextmanager
def _node_with_gpus() -> Iterator[FakeGpuDriver]:
    from tests.kube.fake_gpu_driver import GPUS, FakeGpuDriver, knows_cdi, write_runtime

    state = Path(tempfile.mkdtemp(prefix="pai-gpus-"))
    path = os.environ["PATH"]
    if knows_cdi():
        (state / "prepared").mkdir()
    else:
        write_runtime(state / "bin", state / "prepared", shutil.which("runc") or "runc")
        os.environ["PATH"] = f"{state / 'bin'}:{path}"
    # A kubelet looks for logs that are too long every ten seconds, and finds those of more than ten megabytes.
    rotates = {"containerLogMaxSize": "1Mi", "containerLogMonitorInterval": "3s"}
    gates = ("--feature-gates=DRADeviceTaintRules=true", "--runtime-config=resource.k8s.io/v1beta2=true")
    try:
        with control_plane(controllers=True, flags=gates) as plane, real_node(plane, 242, rotates) as node:
            made = FakeGpuDriver(node, GPUS, state / "prepared")
            made.start()
            yield made
            made.close()
    finally:
        os.environ["PATH"] = path
        shutil.rmtree(state, ignore_errors=True)
