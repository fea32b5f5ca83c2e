"""What a container answers about its devices is read without being believed."""

from __future__ import annotations

import subprocess

import pytest

from openpai.backends.kubernetes import received
from openpai.backends.kubernetes.received import named_in

ONE = "GPU-11111111-2222-3333-4444-555555555555"
MIG = "MIG-aaaaaaaa-2222-3333-4444-555555555555"


@pytest.mark.parametrize(
    ("resource", "answer", "found"),
    [
        ("nvidia.com/gpu", f"{ONE},{MIG}\n*\nrenderD*\ndavinci[0-9]*\n", {ONE, MIG}),
        ("nvidia.com/gpu", f"void\n{ONE}\n", {ONE}),
        ("nvidia.com/gpu", "all\n", set()),
        ("nvidia.com/gpu", f"{ONE}6, GPU-1\n", set()),
        ("amd.com/gpu", "\n*\nrenderD128\nrenderD129\n", {"renderD128", "renderD129"}),
        ("huawei.com/Ascend910", "\n*\nrenderD*\ndavinci3\ndavinci99999\n", {"davinci3"}),
        ("example.com/gpu", f"{ONE}\n", set()),
    ],
)
def test_devices_that_an_answer_names(resource: str, answer: str, found: set[str]) -> None:
    assert named_in(answer, resource) == found


def test_any_shell_answers_the_question() -> None:
    message = subprocess.run(
        ["/bin/sh", "-c", received._ASK], env={"NVIDIA_VISIBLE_DEVICES": f"{ONE},{MIG}"}, capture_output=True, text=True
    )
    assert (message.returncode, message.stderr) == (0, "")
    assert named_in(message.stdout, "nvidia.com/gpu") == {ONE, MIG}


@pytest.mark.parametrize(
    ("version", "says"),
    [
        ("v1.36.2", True),
        ("v1.37.0-rc.1+k3s1", True),
        ("v1.35.9", False),
        ("v1.9", False),
        ("v2.0.0", True),
        ("", False),
    ],
)
def test_kubelets_that_say_it_themselves(version: str, says: bool) -> None:
    assert received._says_it(version) is says
