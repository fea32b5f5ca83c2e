"""Measured values have the labels that recorded ones and actions have, so that a rule may join and act on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from openpai.alerts.evaluating import evaluate
from openpai.alerts.expressions import ExpressionError, parse, selectors
from openpai.alerts.series import as_labels
from openpai.orchestrator.alert_facts import NAMES
from openpai.orchestrator.alert_input import fetch, misnamed
from openpai.protocol.errors import Unavailable
from openpai.series.labels import Labels, Matcher
from openpai.series.model import Answer, Query, Sample


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


class AwayHistory(Measures):
    """Measures whose past is kept by a server that does not answer."""

    def __init__(self) -> None:
        self.tries = 0

    async def range(self, query: Query) -> Answer:
        """Refuse, after a wait that is counted."""
        self.tries += 1
        raise Unavailable("the server of metrics at mon does not answer: ConnectError")


async def test_rules_about_present_values_go_on_while_the_past_does_not_answer() -> None:
    texts = [
        "avg_over_time(DCGM_FI_DEV_GPU_TEMP[1h]) > 1",
        "max_over_time(pai_node_load1[5m]) > 1",
        "pai_node_load1 > 0",
    ]
    first, second, present = (parse(text) for text in texts)
    history = AwayHistory()
    wanted = [*selectors(first), *selectors(second), *selectors(present)]
    data = await fetch(wanted, {}, history, 0)  # type: ignore[arg-type]
    assert len(evaluate(present, data).vector) == 2
    for condition in (first, second):
        with pytest.raises(ExpressionError, match="server of metrics at mon does not answer"):
            evaluate(condition, data)
    assert history.tries == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "pai_node_laod1 > 1",
            "there is no metric pai_node_laod1; did you mean pai_node_load1? `pai metrics list` shows",
        ),
        ("pai_job_waitng_seconds > 1", "did you mean pai_job_waiting_seconds?"),
        ("xyzzy > 1", "there is no metric xyzzy. `pai metrics list` shows"),
        ("DCGM_FI_DEV_GPU_TEMP > 1", ""),
        ("pai_gpu_bad == 1", ""),
    ],
)
def test_a_name_that_nothing_has_is_named_with_the_nearest(text: str, message: str) -> None:
    found = misnamed(selectors(parse(text)), {})
    assert (message in found) if message else not found


def test_each_recorded_value_is_described() -> None:
    page = (Path(__file__).parents[3] / "docs/alerts.md").read_text("utf-8")
    assert [name for name in NAMES if f"`{name}`" not in page] == []
