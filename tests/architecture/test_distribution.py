"""The processes of a run share out the tests so that some compute while others wait."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from tests.compiling import compile_share
from tests.distribution import Distribution, scope_of

WAITING: Final = ("tests/kube/test_cluster_commands.py::test_a", "tests/e2e/test_b.py::test_b")
COMPUTING: Final = (
    "tests/properties/test_c.py::test_c",
    "tests/integration/test_d.py::test_d",
    "tests/unit/test_e.py::test_e",
    "tests/unit/test_e.py::test_f",
)


class Process:
    """A process of a run, with the tests that it was given."""

    shutting_down = False

    def __init__(self, number: int) -> None:
        self.gateway = SimpleNamespace(id=f"gw{number}")
        self.given: list[int] = []

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def shared_out(tests: Sequence[str]) -> list[list[str]]:
    """Share out tests to two processes that take turns; return what each of them runs, in order."""
    option: Any = SimpleNamespace(loadscopereorder=True)
    config: Any = SimpleNamespace(option=option, getvalue=lambda _: ["popen", "popen"])
    distribution: Any = Distribution(config)
    processes = [Process(0), Process(1)]
    for process in processes:
        distribution.add_node(process)
        distribution.add_node_collection(process, tests)
    distribution.schedule()
    done = [0, 0]
    while distribution.has_pending:
        for at, process in enumerate(processes):
            if done[at] < len(process.given):
                distribution.mark_test_complete(process, process.given[done[at]])
                done[at] += 1
    return [[tests[index] for index in process.given] for process in processes]


def test_one_process_begins_with_what_waits_and_the_other_with_what_computes() -> None:
    waits, computes = shared_out([*reversed(COMPUTING), *reversed(WAITING)])
    assert waits[:2] == list(WAITING)
    assert computes[:2] == list(COMPUTING[:2])
    assert sorted(waits + computes) == sorted(WAITING + COMPUTING)


def test_when_nothing_is_left_to_compute_every_process_takes_what_waits() -> None:
    first, second = shared_out([f"tests/e2e/test_{letter}.py::test" for letter in "abcdef"])
    assert len(first) == len(second) == 3


@pytest.mark.parametrize(
    ("test", "scope"),
    [
        ("tests/unit/test_e.py::test_e", "tests/unit/test_e.py"),
        ("tests/e2e/applications/test_applications.py::test_a", "tests/e2e/applications/test_applications.py"),
        ("tests/contracts/test_backends.py::test_a[docker]", "an Engine"),
        ("tests/e2e/test_b.py::test_b", "tests/e2e/test_b.py::test_b"),
    ],
)
def test_what_is_costly_to_start_is_started_by_one_process(test: str, scope: str) -> None:
    assert scope_of(test) == scope


def test_each_process_compiles_its_share_of_the_modules_and_runs_none(
    pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    for name in ("test_a", "test_b", "test_c"):
        (tmp_path / f"{name}.py").write_text(f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n")
    config = SimpleNamespace(args=[str(tmp_path)], pluginmanager=pytestconfig.pluginmanager)
    compile_share(config, 1, 2)  # type: ignore[arg-type]
    assert [path.name.partition(".")[0] for path in tmp_path.glob("__pycache__/*.pyc")] == ["test_b"]
    compile_share(config, 0, 2)  # type: ignore[arg-type]
    assert len([*tmp_path.glob("__pycache__/*.pyc")]) == 3
    assert not (tmp_path / "ran").exists()
