"""Measured values have the labels that recorded ones and actions have, so that a rule may join and act on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from openpai.alerts.evaluating import evaluate
from openpai.alerts.expressions import ExpressionError, parse, selectors
from openpai.alerts.series import as_labels, matching
from openpai.backends.host.machine_checks import DISK
from openpai.backends.kubernetes.node_health import PRESSURE
from openpai.orchestrator.alert_facts import NAMES, gather
from openpai.orchestrator.alert_input import fetch, misnamed
from openpai.ports.backend import DISK_CHECKS, NodeCheck
from openpai.protocol.errors import Unavailable
from openpai.series.labels import Labels, Matcher
from openpai.series.model import Answer, Query, Sample
from openpai.store.alerts import SqlAlertStore

from .servers import Servers, live


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


class ManySeries(Measures):
    """Measures of which so many match that nobody reads them."""

    async def range(self, query: Query) -> Answer:
        """Return their number."""
        return Answer((), query.step_ms, 1_000_000)


async def test_a_rule_that_matches_a_million_series_fails_and_says_what_to_do() -> None:
    rule = parse("avg_over_time(node_cpu_seconds_total[10m]) > 0")
    data = await fetch(selectors(rule), {}, ManySeries(), 600_000)  # type: ignore[arg-type]
    with pytest.raises(ExpressionError, match="matches more than 10,000 series; narrow it by labels"):
        evaluate(rule, data)


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


@pytest.mark.parametrize("name", ["disk", "DiskPressure"])
def test_a_node_is_short_of_disk_space_when_the_check_of_its_disk_failed(name: str) -> None:
    async def tell(servers: Servers) -> None:
        nodes = servers.leader.nodes
        for node, check in {"node-01": name, "node-02": "clock"}.items():
            nodes[node] = replace(nodes[node], checks=(NodeCheck(check, "failed", "no space"),))
        nodes["node-03"] = replace(nodes["node-03"], checks=(NodeCheck(name, "passed"),))
        parts: Any = SimpleNamespace(store=SqlAlertStore(servers.database), readiness=None, disk_free=None)
        facts = await gather(servers.leader, parts, ["pai_node_disk_pressure"])
        pressed = {dict(labels)["node_name"]: value for labels, value in facts["pai_node_disk_pressure"].items()}
        assert pressed == {"node-01": 1.0, "node-02": 0.0, "node-03": 0.0, "node-04": 0.0}

    live(tell)


def test_a_gpu_is_held_by_the_task_that_has_it() -> None:
    async def tell(servers: Servers) -> None:
        await servers.submit("train", gpus=2)
        await servers.in_phase("train", "running")
        parts: Any = SimpleNamespace(store=SqlAlertStore(servers.database), readiness=None, disk_free=None)
        facts = await gather(servers.leader, parts, ["pai_gpu_held"])
        found = [dict(labels) for labels in facts["pai_gpu_held"]]
        [(node, devices)] = {(task.node, task.devices) for task in servers.cluster.running()}
        assert {(one["node_name"], int(one["minor_number"])) for one in found} == {(node, each) for each in devices}
        rule = parse("DCGM_FI_DEV_FB_USED > 1024 unless on (node_name, minor_number) pai_gpu_held")
        used = as_labels({"node_name": node, "minor_number": str(devices[0])}), as_labels({"node_name": "elsewhere"})
        values = {"DCGM_FI_DEV_FB_USED": dict.fromkeys(used, 9000.0), **facts}
        data = {one: matching(values[one.name], one.matchers) for one in selectors(rule)}
        assert list(evaluate(rule, data).vector) == [used[1]]

    live(tell)


def test_the_checks_of_disks_have_the_names_that_a_rule_knows() -> None:
    assert {DISK, *(PRESSURE & DISK_CHECKS)} == DISK_CHECKS


def test_each_recorded_value_is_described() -> None:
    page = (Path(__file__).parents[3] / "docs/alerts.md").read_text("utf-8")
    assert [name for name in NAMES if f"`{name}`" not in page] == []
