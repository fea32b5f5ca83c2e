"""The training example of the README in real pods on two real nodes: its logs, a lost pod, a lost node, and a stop."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
import yaml
from cryptography.fernet import Fernet

from openpai.kube.client import KubeClient
from openpai.kube.config import cluster_access
from openpai.kube.objects import NAMESPACES, PODS
from openpai.kube.objects.pods import Pod
from tests.kube.images import python_image
from tests.kube.node import RealNode, real_node, why_no_node
from tests.kube.server import ControlPlane, control_plane
from tests.kube.servers import Replica, server, until

pytestmark = pytest.mark.full
EXAMPLE = Path(__file__).parents[2] / "examples/04-distributed-training.yaml"
IMAGE = "local/sklearn:1"
SPACE = "training"
DIGITS = """
import numpy
from types import SimpleNamespace
def load_digits():
    rows = numpy.loadtxt(__file__.replace("__init__.py", "digits.csv.gz"), delimiter=",")
    return SimpleNamespace(data=rows[:, :-1], target=rows[:, -1].astype(int))
"""
"""What the example loads of scikit-learn. The demo trains with all of it, which takes each task seconds to import."""

LOADS: Final = """
import argparse, os, socket, struct, time, numpy
from sklearn.datasets import load_digits
load_digits()
argparse.ArgumentParser().parse_args([])
listener = socket.create_server(("", 0))
socket.create_connection(listener.getsockname())
numpy.random.default_rng(7).normal(0, 0.1, 8).astype(numpy.float32)
"""
"""Loads what the program of the example loads."""


def why_not() -> str:
    if importlib.util.find_spec("sklearn") is None:
        return "no scikit-learn (pip install scikit-learn)"
    return why_no_node() or ("two nodes of two processors are needed" if (os.cpu_count() or 1) < 2 else "")


def digits() -> Path:
    """Return the pictures that scikit-learn brings along, without importing it."""
    found = importlib.util.find_spec("sklearn")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "datasets/data/digits.csv.gz"


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[tuple[ControlPlane, dict[str, RealNode]]]:
    if reason := why_not():
        pytest.skip(reason)
    datasets = tmp_path / "packages/sklearn/datasets"
    datasets.mkdir(parents=True)
    # Without it Python would take the whole of scikit-learn from its own packages.
    (datasets.parent / "__init__.py").touch()
    (datasets / "__init__.py").write_text(DIGITS)
    shutil.copy(digits(), datasets / "digits.csv.gz")
    image = python_image(tmp_path / "image.tar", IMAGE, LOADS, tmp_path / "packages")
    with control_plane(controllers=True) as plane, real_node(plane, 245) as one, real_node(plane, 246) as other:
        for node in (one, other):
            node.load(image)
        yield plane, {one.name: one, other.name: other}


@pytest_asyncio.fixture
async def platform(nodes: tuple[ControlPlane, dict[str, RealNode]], tmp_path: Path) -> AsyncIterator[Replica]:
    plane, _ = nodes
    async with KubeClient(cluster_access(plane.kubeconfig)) as kube:
        await kube.create(NAMESPACES, {"metadata": {"name": SPACE}})
    # Both nodes are this machine: on networks of their own, pods of one would not reach those of the other.
    options = {"kubeconfig": plane.kubeconfig, "kube_namespace": SPACE, "config": tmp_path / "server.yaml"}
    (tmp_path / "server.yaml").write_text("host-network: true\n")
    (tmp_path / "server").mkdir()
    async with server(tmp_path / "server", Fernet.generate_key().decode(), **options) as made:
        yield made


def example(name: str, *, workers: int, epochs: int, pause_s: float = 0.0) -> str:
    """Return the job file of the example with these numbers, its workers pausing after each epoch.

    A job that is there to be interrupted would else compute as fast as it can, all the time, and delay what it is
    waiting for.
    """
    job: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    if pause_s:
        report = 'print(f"epoch={epoch} loss='
        assert report in job["parameters"]["program"]
        program = job["parameters"]["program"].replace(report, f"time.sleep({pause_s}); {report}")
        job["parameters"]["program"] = program
    job |= {"name": name, "jobRetryCount": 9}
    job["prerequisites"][0]["uri"] = IMAGE
    job["parameters"]["epochs"] = epochs
    job["taskRoles"]["worker"]["instances"] = workers
    return json.dumps(job)


async def running(kube: KubeClient, job: str) -> dict[str, Pod]:
    """Return the pods of a job whose containers run, by role."""
    pods = [pod for pod in await kube.list(PODS, SPACE) if pod.metadata.label("openpai/name") == job]
    alive = [pod for pod in pods if pod.status.phase == "Running" and not pod.is_deleting]
    return {pod.metadata.label("openpai/role"): pod for pod in alive}


async def both_run(kube: KubeClient, job: str, without: set[str]) -> dict[str, Pod]:
    """Wait until both tasks run in pods that are none of these, and return the pods."""

    async def are_new() -> bool:
        pods = await running(kube, job)
        return len(pods) == 2 and not {pod.uid for pod in pods.values()} & without

    await until(are_new, 240)
    return await running(kube, job)


async def log_of(platform: Replica, job: str, role: str) -> str:
    path = f"/api/v2/jobs/{job}/attempts/0/taskRoles/{role}/taskIndex/0/attempts/0/logs/stdout"
    answer = await platform.client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


async def test_the_training_example_survives_what_happens_to_its_pods_and_nodes(
    platform: Replica, nodes: tuple[ControlPlane, dict[str, RealNode]]
) -> None:
    plane, machines = nodes

    async def submit(name: str, workers: int, epochs: int, pause_s: float = 0.0) -> None:
        job = example(name, workers=workers, epochs=epochs, pause_s=pause_s)
        answer = await platform.client.post("/api/v2/jobs", content=job)
        assert answer.status_code == 202, answer.text

    async def has_ended() -> bool:
        return await platform.state("whole") not in ("WAITING", "RUNNING", "STOPPING")

    async def trains() -> bool:
        return "epoch=1/" in await log_of(platform, "long", "ps")

    async with KubeClient(cluster_access(plane.kubeconfig)) as kube:
        await submit("whole", 3, 30)
        await until(has_ended, 240)
        assert await platform.state("whole") == "SUCCEEDED", await log_of(platform, "whole", "ps")
        lines = (await log_of(platform, "whole", "ps")).splitlines()
        assert float(lines[-1].removeprefix("accuracy=")) > 0.9
        assert "epoch=30 loss=" in await log_of(platform, "whole", "worker")

        await submit("long", 1, 1_000_000, 0.5)
        first = await both_run(kube, "long", set())
        await until(trains, 120)
        await kube.delete(PODS, first["worker"].name, SPACE)
        second = await both_run(kube, "long", {pod.uid for pod in first.values()})
        lost = second["ps"].spec.node_name
        machines[lost].lose_power()
        third = await both_run(kube, "long", {pod.uid for pod in (*first.values(), *second.values())})
        assert lost not in {pod.spec.node_name for pod in third.values()}
        assert "epoch=1/" in await log_of(platform, "long", "ps")

        stopped = await platform.client.put("/api/v2/jobs/long/executionType", json={"value": "STOP"})
        assert stopped.status_code == 202

        async def is_stopped() -> bool:
            return await platform.state("long") == "STOPPED" and not await running(kube, "long")

        await until(is_stopped, 120)
