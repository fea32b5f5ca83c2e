"""Measured values have the labels that recorded ones and actions have, so that a rule may join and act on them."""

from __future__ import annotations

from pathlib import Path

from openpai.alerts.expressions import parse, selectors
from openpai.alerts.series import as_labels
from openpai.orchestrator.alert_facts import NAMES
from openpai.orchestrator.alert_input import fetch
from openpai.series.labels import Labels, Matcher
from openpai.series.model import Sample


class Measures:
    """Values of two nodes."""

    def latest(self, name: str, matchers: tuple[Matcher, ...] = ()) -> tuple[Sample, ...]:
        """Return one value of each node that fits."""
        found = [Sample(name, Labels.of({"node": f"n{number}", "gpu": "3"}), float(number), 0) for number in (1, 2)]
        return tuple(each for each in found if all(one.accepts(each.labels) for one in matchers))


async def test_a_rule_finds_a_node_by_the_name_that_actions_know() -> None:
    [wanted] = selectors(parse('DCGM_FI_DEV_GPU_TEMP{node_name="n2"} > 1'))
    data = await fetch([wanted], {}, Measures(), 0)  # type: ignore[arg-type]
    labels = as_labels({"node": "n2", "node_name": "n2", "gpu": "3", "minor_number": "3"})
    assert data[wanted].newest == {labels: 2.0}


def test_each_recorded_value_is_described() -> None:
    page = (Path(__file__).parents[3] / "docs/alerts.md").read_text("utf-8")
    assert [name for name in NAMES if f"`{name}`" not in page] == []
