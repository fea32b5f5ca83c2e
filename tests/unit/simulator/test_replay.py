"""Replays do what the scheduler says, in virtual time, and lose nothing on the way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openpai.protocol.errors import Refused
from openpai.scheduler.model import Accuracy, Decision, Gang, Order, Place, Spot
from openpai.scheduler.queue.scheduler import HivedScheduler
from openpai.simulator.cluster import nodes_of, quotas_of
from openpai.simulator.replay import Replay, Rules
from openpai.simulator.report import Report
from openpai.simulator.simulate import SCHEDULERS, matched, simulate
from openpai.simulator.synthetic import SyntheticSpec, generate
from openpai.simulator.tables import report_sentences
from openpai.simulator.tally import Tally
from tests.unit.simulator.clusters import cluster, job, trace

EXACT = Rules(grace_ms=30_000, round_ms=1)


def vc(report: Report, name: str = "a") -> tuple[float, float]:
    """Return the mean delay and the longest completion of a virtual cluster in minutes."""
    found = next(vc for vc in report.vcs if vc.name == name)
    return found.delay_s.mean / 60, found.completion_s.max / 60


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_job_waits_for_the_one_before_it(scheduler: str) -> None:
    jobs = trace(job("first", 0, 30, 8), job("second", 10, 5, 8))
    found = simulate(cluster(1), jobs, "one", scheduler, rules=EXACT)
    assert vc(found) == (10, 30)
    assert found.total.gpu_hours_done == pytest.approx(8 * 35 / 60, abs=0.1)
    assert found.total.utilisation == 1


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_every_job_runs_once_and_no_gpu_twice(scheduler: str) -> None:
    config = cluster(6, a=3, b=2, c=1)
    jobs = generate(SyntheticSpec(jobs=300, days=1, load=1.1, seed=5), quotas_of(config))
    deciding = SCHEDULERS[scheduler](config)
    taken: dict[str, tuple[Spot, ...]] = {}
    decide, release = deciding.decide, deciding.release

    def watched(now_ms: int, limit: int) -> tuple[Decision, ...]:
        decisions = decide(now_ms, limit)
        for decision in decisions:
            assert isinstance(decision, Place)
            used = {(spot.node, gpu) for spots in taken.values() for spot in spots for gpu in spot.devices}
            wanted = [(spot.node, gpu) for spot in decision.spots for gpu in spot.devices]
            assert len(set(wanted)) == len(wanted)
            assert not used & set(wanted)
            taken[decision.gang] = decision.spots
        return decisions

    def released(gang: str, members: Iterable[int] | None = None) -> None:
        del taken[gang]
        release(gang, members)

    deciding.decide, deciding.release = watched, released  # type: ignore[method-assign]
    for node in nodes_of(config):
        deciding.set_node(node)
    tally = Tally(jobs, nodes_of(config), quotas_of(config))
    replay = Replay(deciding, jobs, tally, 8)
    replay.play()
    assert sum(len(vc.completions_ms) for vc in tally.vcs.values()) == 300
    assert sum(vc.done_gpu_ms for vc in tally.vcs.values()) == sum(jobs.demand().values())
    assert not taken
    assert not replay.running
    assert not replay.waiting


@pytest.mark.slow
@settings(max_examples=min(settings.default.max_examples, 100))
@given(st.integers(0, 10_000), st.sampled_from([0, 30_000]), st.sampled_from([None, 600_000]))
def test_preempted_jobs_end_all_the_same(seed: int, grace_ms: int, checkpoint_ms: int | None) -> None:
    config = cluster(6, a=3, b=2, c=1)
    spec = SyntheticSpec(jobs=120, days=0.3, load=1.2, opportunistic=0.5, seed=seed)
    jobs = generate(spec, quotas_of(config))
    found = simulate(config, jobs, "x", rules=Rules(grace_ms, checkpoint_ms))
    total = found.total
    # The end is rounded to a thousandth of a day.
    assert total.completion_s.max <= (found.ended_days + 0.0005) * 86400 + 1
    assert (total.jobs, total.refused, total.never_started) == (120, 0, 0)
    assert total.gpu_hours_done == pytest.approx(sum(jobs.demand().values()) / 3_600_000, abs=0.5)
    assert (total.gpu_hours_lost > 0) <= (total.preemptions > 0)
    # What was done and what was lost is all that GPUs were used for, give or take the seconds of the rounds.
    most = total.gpu_hours_done + total.gpu_hours_lost + 64 * (120 + total.preemptions) / 3600
    assert found.total.gpus_used * found.days * 24 <= most + 0.1


def test_the_same_trace_gives_the_same_report() -> None:
    config = cluster(4, a=1, b=1)
    jobs = generate(SyntheticSpec(jobs=200, days=1, opportunistic=0.4), quotas_of(config))
    first, second = (simulate(config, jobs, "x").as_dict() for _ in range(2))
    assert {**first, "wall_s": 0} == {**second, "wall_s": 0}


CROWDED = trace(job("borrower", 0, 60, 8, "b", -1), job("owner", 10, 30, 8, "a"), job("other", 10, 20, 8, "b"))


def test_a_preempted_job_leaves_after_its_grace_and_starts_again() -> None:
    found = simulate(cluster(2, a=1, b=1), CROWDED, "one", rules=EXACT)
    b = next(vc for vc in found.vcs if vc.name == "b")
    assert b.preemptions == 1
    assert b.gpu_hours_lost == pytest.approx(8 * 10.5 / 60, abs=0.05)
    # Its preemptor waited for half a minute and ran for twenty; then it had its hour again.
    assert b.completion_s.max == (10 + 0.5 + 20 + 60) * 60
    assert max(vc.delay_s.max for vc in found.vcs) == 30


def test_a_checkpoint_saves_work() -> None:
    found = simulate(cluster(2, a=1, b=1), CROWDED, "one", rules=Rules(30_000, 4 * 60_000, 1))
    b = next(vc for vc in found.vcs if vc.name == "b")
    assert b.gpu_hours_lost == pytest.approx(8 * 2.5 / 60, abs=0.05)
    assert b.completion_s.max == (10 + 0.5 + 20 + 60 - 8) * 60


def test_without_grace_victims_leave_at_once() -> None:
    found = simulate(cluster(2, a=1, b=1), CROWDED, "one", rules=Rules(0, None, 1))
    assert max(vc.delay_s.max for vc in found.vcs) == 0
    assert found.total.preemptions == 1


def test_a_job_that_ends_within_its_grace_loses_nothing() -> None:
    jobs = trace(*CROWDED.jobs[1:], job("short", 0, 10.2, 8, "b", -1))
    found = simulate(cluster(2, a=1, b=1), jobs, "one", rules=EXACT)
    assert found.total.preemptions == 0
    assert max(vc.delay_s.max for vc in found.vcs) == pytest.approx(12)


def test_jobs_that_can_never_run_are_refused_with_a_reason() -> None:
    jobs = trace(job("large", 0, 1, 24), job("stranger", 0, 1, 1, "nobody"), job("fine", 0, 1, 8))
    found = simulate(cluster(2, a=1), jobs, "one", rules=EXACT)
    assert (found.total.jobs, found.total.refused, found.total.never_started) == (3, 2, 0)
    assert sum(found.refusals.values()) == 2
    assert any("nobody" in message for message in found.refusals)


def test_a_round_decides_together_what_happened_within_it() -> None:
    jobs = trace(job("a", 0, 1, 1), job("b", 0.1, 1, 1))
    found = simulate(cluster(1), jobs, "one", rules=Rules(round_ms=60_000))
    assert found.vcs[0].delay_s.max == 54
    assert found.ended_days * 24 * 60 == pytest.approx(2, abs=1)


def test_an_unknown_scheduler_and_an_empty_trace_are_refused() -> None:
    with pytest.raises(Refused, match="no scheduler is called 'lottery'"):
        simulate(cluster(1), CROWDED, "x", "lottery")
    with pytest.raises(Refused, match="no job that needs GPUs"):
        simulate(cluster(1), trace(), "x")


def test_strangers_are_given_to_the_virtual_clusters_by_size() -> None:
    jobs = trace(job("1", 0, 1, 1, "x"), job("2", 0, 9, 1, "y"), job("3", 0, 90, 1, "z"))
    found = matched(jobs, cluster(4, small=1, large=3))
    assert [found.jobs[at].virtual_cluster for at in range(3)] == ["small", "small", "large"]


def test_it_is_the_platforms_own_scheduler_that_decides() -> None:
    config = cluster(2, a=1, b=1)
    deciding = HivedScheduler(config)
    for node in nodes_of(config):
        deciding.set_node(node)
    jobs = trace(job("one", 0, 1, 8), job("two", 0, 1, 8))
    replay = Replay(deciding, jobs, Tally(jobs, nodes_of(config), quotas_of(config)), 8)
    replay.play()
    assert replay.now_ms == 120_000
    assert deciding.refusal(Gang("x", (), "nobody")) is not None


def test_the_configuration_says_in_which_order_and_which_jobs_may_be_interrupted() -> None:
    config = cluster(2, a=1, b=1)
    jobs = trace(
        *(job(f"{name}{at}", 0, minutes, 8) for name, minutes in (("long", 10), ("short", 1)) for at in range(4)),
        job("hold", 1, 60, 8), job("long4", 90, 10, 8), job("short4", 91, 1, 8),
    )  # fmt: skip
    own = config.virtual_clusters["a"]

    def delay(**changes: Any) -> float:
        clusters = {**config.virtual_clusters, "a": replace(own, **changes)}
        return vc(simulate(replace(config, virtual_clusters=clusters), jobs, "one", rules=EXACT))[0]

    alone = delay()
    assert delay(is_interruptible=True) < alone
    assert delay(order=Order.FIFO) == alone
    assert delay(order=Order.SHORTEST) != alone


@pytest.mark.slow
def test_the_report_says_how_good_guesses_are() -> None:
    config = cluster(6, a=3, b=2, c=1)
    jobs = generate(SyntheticSpec(jobs=400, days=1, load=1.5, seed=5), quotas_of(config))
    plain = simulate(config, jobs, "plain")
    asked = simulate(config, jobs, "asked", rules=Rules(estimate_every=2))
    assert plain.accuracy.starts == 0
    assert plain.accuracy.runs > 100
    assert asked.accuracy.starts > 10
    # Estimates change no decision.
    assert asked.vc_delays_ms == plain.vc_delays_ms
    assert any("starts that were estimated" in sentence for sentence in report_sentences(asked))
    assert any("within a factor of 2" in sentence for sentence in report_sentences(plain))
    assert simulate(config, jobs, "quota", "quota").accuracy == Accuracy()


def test_without_kept_cells_a_large_job_is_passed_for_ever() -> None:
    small = [job(f"s{at}", 30 * at, 60, 8) for at in range(60)]
    jobs = trace(job("large", 1, 60, 16), *small)
    found = {}
    for scheduler in ("hived", "hived-first-fit"):
        delays = simulate(cluster(2), jobs, "one", scheduler).vc_delays_ms["a"]
        found[scheduler] = max(delays) / 60_000
    assert found["hived"] < 600 < 1_700 < found["hived-first-fit"]


def test_first_fit_leaves_no_node_to_drain_for_a_large_job() -> None:
    jobs = trace(job("long", 0, 300, 5), job("short", 1, 30, 6), job("whole", 2, 60, 8), job("fills", 3, 200, 2))
    found = {}
    for scheduler in ("hived", "hived-first-fit"):
        delays = simulate(cluster(2), jobs, "one", scheduler).vc_delays_ms["a"]
        found[scheduler] = max(delays) // 60_000
    # The last job could share the node that is free soonest, or go to the other one.
    assert found == {"hived": 29, "hived-first-fit": 201}
