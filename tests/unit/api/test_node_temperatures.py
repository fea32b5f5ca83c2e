"""The temperatures of a node's GPUs: of those of running tasks, and of those that this server measures itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from openpai.api.routes.nodes import temperatures
from openpai.api.shapes.nodes import node
from openpai.ports.platform import NodeView
from openpai.series.labels import Labels
from openpai.series.model import Sample

VIEW = NodeView("n1", "10.0.0.1", True, "", "A100", 8, 0, 1024, 0, 4, 1, (), 1, temperatures_c={2: 71.26, 10: 50})


@dataclass
class Measured:
    """What was measured last of each device."""

    samples: tuple[Sample, ...]

    def latest(self, name: str) -> tuple[Sample, ...]:
        return tuple(one for one in self.samples if one.name == name)


def sample(number: str, degrees: float, name: str = "DCGM_FI_DEV_GPU_TEMP", **labels: str) -> Sample:
    return Sample(name, Labels.of({"node": "n1", "gpu": number, **labels}), degrees, 0)


def test_a_running_task_s_temperature_goes_before_that_of_its_device() -> None:
    metrics: Any = Measured((sample("0", 31), sample("2", 70), sample("1", 90, "DCGM_FI_DEV_POWER_USAGE")))
    found = temperatures(metrics)
    assert found == {"n1": {0: 31, 2: 70}}
    assert node(VIEW, found["n1"])["temperatures"] == {"0": 31, "2": 71.3, "10": 50}


def test_what_is_not_measured_has_no_temperature() -> None:
    metrics: Any = Measured((sample("", 31), sample("GPU-1", 31)))
    assert temperatures(metrics) == {}
    assert temperatures(None) == {}
