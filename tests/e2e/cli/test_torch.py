"""A stock PyTorch program finds its peers on either backend. Opt-in: PyTorch is no dependency of this project."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.containers import docker_platform
from tests.e2e.server import ROOT, Person, Server, logged_in

EXAMPLE = ROOT / "examples" / "09-torch-ddp.yaml"
PYTHON = os.environ.get("PAI_TEST_TORCH_PYTHON", sys.executable)
IMAGE = os.environ.get("PAI_TEST_TORCH_IMAGE", "")

pytestmark = pytest.mark.slow


@pytest.fixture
def process_server(tmp_path: Path) -> Iterator[Server]:
    """Give a platform whose tasks find a `python3` that has PyTorch."""
    says = "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"
    if subprocess.run([PYTHON, "-c", says], check=False).returncode != 0:
        pytest.skip(f"{PYTHON} has no PyTorch; PAI_TEST_TORCH_PYTHON=/path/to/python3 names one that has")
    server = Server.start(tmp_path / "platform", path=Path(PYTHON).parent)
    yield server
    assert server.end() == 0


@pytest.fixture
def docker_server(tmp_path: Path) -> Iterator[Server]:
    """Give a platform that can run containers of the image with PyTorch."""
    if not IMAGE:
        pytest.skip("PAI_TEST_TORCH_IMAGE=image names one with python3 and PyTorch, for the docker backend")
    with docker_platform(tmp_path / "platform") as (server, _):
        yield server


def check_training(pai: Person, file: Path) -> None:
    """Submit the example and see that all three ranks met and learned what none of them could learn alone."""
    message = pai("job", "submit", str(file), "--watch")
    assert message.code == 0, message.out + message.err
    tasks = [("master", 0), ("worker", 0), ("worker", 1)]
    output = [pai("job", "logs", "torch-ddp", "-r", role, "-i", str(index)).out for role, index in tasks]
    for rank, text in enumerate(output):
        loss = re.search(rf"^rank={rank} world=3 loss=(\d+\.\d+)$", text, re.MULTILINE)
        assert loss is not None, text
        assert float(loss[1]) < 0.01


def test_torch_finds_its_peers_among_processes(process_server: Server, tmp_path: Path) -> None:
    check_training(logged_in(tmp_path / "home", process_server.url), EXAMPLE)


def test_torch_finds_its_peers_among_containers(docker_server: Server, tmp_path: Path) -> None:
    with_image, replaced = re.subn(r"(?m)^( +uri: ).*$", rf"\g<1>{IMAGE}", EXAMPLE.read_text())
    assert replaced == 1
    file = tmp_path / "torch.yaml"
    file.write_text(with_image)
    check_training(logged_in(tmp_path / "home", docker_server.url), file)
