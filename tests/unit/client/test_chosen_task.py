"""A task is named as every list shows it, and a role whose name looks like that keeps its own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from openpai.client.shells import _chosen
from openpai.protocol.errors import InvalidParameters


def job(*tasks: tuple[str, int]) -> Any:
    return SimpleNamespace(
        full_name="ann~train", tasks=[SimpleNamespace(role=role, index=index, is_final=False) for role, index in tasks]
    )


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("worker-1", ("worker", 1)),
        ("worker/1", ("worker", 1)),
        ("worker", ("worker", 0)),
        ("gpu-8", ("gpu-8", 0)),
        ("gpu-8-0", ("gpu-8", 0)),
        ("nobody", ("nobody", 0)),
    ],
)
def test_a_task_is_named_as_lists_show_it(given: str, found: tuple[str, int]) -> None:
    assert _chosen(job(("worker", 0), ("worker", 1), ("gpu-8", 0)), given) == found


@pytest.mark.parametrize("given", ["worker-x", "worker/", "worker/-1", "worker-٣"])
def test_what_names_no_task_is_refused_with_an_example(given: str) -> None:
    with pytest.raises(InvalidParameters, match="is not a task"):
        _chosen(job(("worker", 0)), given)


def test_one_of_several_tasks_has_to_be_named() -> None:
    with pytest.raises(InvalidParameters, match="2 tasks: worker-0, worker-1") as refused:
        _chosen(job(("worker", 0), ("worker", 1)), None)
    assert refused.value.advice == "choose one: --task worker-0"
