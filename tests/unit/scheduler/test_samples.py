"""Configurations and requests that other people wrote for the original, where they are at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from openpai.scheduler.cells.model import Bind, GangRequest, NodeHealth
from openpai.scheduler.config.model import InvalidConfig
from openpai.scheduler.config.reading import read_config
from tests.scheduling.history import core_of
from tests.scheduling.invariants import audit

SAMPLES = Path(__file__).parents[4] / "shared" / "samples" / "hived"

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"there are no sample configurations at {SAMPLES}")


def files() -> list[Path]:
    if not SAMPLES.is_dir():
        return []
    return sorted(path for path in SAMPLES.glob("**/*.yaml") if path.read_text().count("physicalCells:") == 1)


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_each_configuration_is_read_or_refused_for_what_is_wrong_with_it(path: Path) -> None:
    if "invalid" in path.name:
        with pytest.raises(InvalidConfig, match="too few for what is promised"):
            read_config(path.read_text())
    else:
        assert audit(core_of(path.read_text()).cluster) == []


REQUESTS = (
    GangRequest("ABC", "VC1", ((1, 16), (3, 8), (1, 4)), 1000, "DGX2-V100"),
    GangRequest("D", "VC1", ((2, 3),), 1000),
    GangRequest("E0", "VC1", ((1, 16),), 1000, "DGX2-V100"),
    GangRequest("E1", "VC1", ((1, 16),), 1000, "DGX2-V100"),
    GangRequest("F", "VC1", ((2, 3),), 1000, None, "VC1-YQW-IB-DGX2"),
)


def test_the_documented_requests_run_together() -> None:
    core = core_of((SAMPLES / "design.yaml").read_text())
    placed = {}
    for request in REQUESTS:
        decision = core.schedule(request)
        assert isinstance(decision, Bind), decision
        core.commit(request.id)
        placed[request.id] = decision
        assert audit(core.cluster) == []
    assert len({spot.node for spot in placed["ABC"].spots}) == 3
    assert len({spot.node for spot in placed["D"].spots}) == 1
    assert {spot.node for spot in placed["F"].spots} <= {"0.1.0.0", "0.1.0.1"}


def test_bad_nodes_are_avoided_by_splitting_cells_that_are_not_needed_whole() -> None:
    core = core_of((SAMPLES / "configs" / "design-relaxed.yaml").read_text())
    core.set_nodes({"0.0.3.2": NodeHealth(is_healthy=False), "0.0.3.3": NodeHealth(is_healthy=False)})
    decision = core.schedule(GangRequest("four", "VC1", ((4, 16),), 0, "DGX2-V100"))
    assert isinstance(decision, Bind), decision
    core.commit("four")
    assert audit(core.cluster) == []
    assert {spot.node for spot in decision.spots} == {"0.0.4.0", "0.0.4.1", "0.0.4.2", "0.0.4.3"}


def test_a_new_configuration_stops_no_job() -> None:
    core = core_of((SAMPLES / "design.yaml").read_text())
    for request in REQUESTS:
        core.schedule(request)
        core.commit(request.id)
    before = {request.id: core.spots_held(request.id) for request in REQUESTS}
    report = core.reconfigure(read_config((SAMPLES / "configs" / "design-reconfig.yaml").read_text()))
    assert audit(core.cluster) == []
    assert sorted([*report.kept, *report.demoted]) == sorted(before)
    assert {gang: core.spots_held(gang) for gang in before} == before
