"""Nodes that fail many users: their score, what one user can do about it, and three lemons among 63 nodes."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from openpai.lifecycle.lemons import (
    HALF_LIFE_MS,
    INCIDENT_MS,
    KEPT_MS,
    Population,
    Strike,
    excluded_nodes,
    find_lemon,
    may_drain,
    score,
)

DAY_MS = 86_400_000


def strike(user: str, day: float, node: str = "n1", devices: tuple[int, ...] = (0, 1)) -> Strike:
    return Strike(node, user, f"{user}-job", "xid_hardware", int(day * DAY_MS), devices)


def test_three_users_in_three_incidents_make_a_lemon_and_its_reason_is_said() -> None:
    strikes = [strike("ann", 0), strike("bob", 0.5), strike("eve", 1)]
    lemon = find_lemon("n1", strikes, DAY_MS)
    assert lemon is not None
    assert (lemon.node, lemon.device) == ("n1", None)
    assert lemon.reason == "jobs of 3 users failed for its hardware: xid_hardware (3); score 2.9 of 2.5"
    assert find_lemon("n2", strikes, DAY_MS) is None
    assert find_lemon("n1", strikes, DAY_MS, threshold=0) is None


def test_an_alert_rule_that_keeps_jobs_from_a_node_makes_no_lemon_of_it() -> None:
    strikes = [replace(strike(user, at), rule="Hot") for at, user in enumerate(("ann", "bob", "eve"))]
    assert excluded_nodes(strikes, "eve-job", 2 * DAY_MS, 4) == {"n1"}
    assert score(strikes, 2 * DAY_MS) == 0
    assert find_lemon("n1", strikes, 2 * DAY_MS) is None


def test_a_job_that_imitates_a_broken_node_counts_once_however_often_its_user_repeats_it() -> None:
    strikes = [strike("eve", hour / 24) for hour in range(24 * 30)]
    assert score(strikes, 30 * DAY_MS) <= 1
    assert find_lemon("n1", [*strikes, strike("ann", 29)], 30 * DAY_MS) is None


def test_jobs_of_several_users_lost_at_the_same_moment_are_one_incident() -> None:
    strikes = [replace(strike(f"user{at}", 1), at_ms=DAY_MS + at * (INCIDENT_MS // 20)) for at in range(20)]
    assert score(strikes, 2 * DAY_MS) <= 1


def test_a_score_decays_and_is_forgotten() -> None:
    strikes = [strike("ann", 0)]
    assert score(strikes, 0) == 1
    assert score(strikes, HALF_LIFE_MS) == pytest.approx(0.5)
    assert score(strikes, KEPT_MS) == 0


def test_a_device_is_marked_when_every_failure_held_it_alone() -> None:
    strikes = [strike(user, at, devices=(3,)) for at, user in enumerate(("ann", "bob", "eve"))]
    lemon = find_lemon("n1", strikes, 2 * DAY_MS)
    assert lemon is not None
    assert lemon.device == 3
    spread = find_lemon("n1", [*strikes[:2], strike("eve", 2, devices=(4,))], 2 * DAY_MS)
    assert spread is not None
    assert spread.device is None


def test_few_of_the_nodes_are_drained_even_if_users_agree() -> None:
    assert [may_drain(drained, 63) for drained in (0, 5, 6)] == [True, True, False]
    assert [may_drain(drained, 1) for drained in (0, 1)] == [True, False]


def test_a_job_avoids_the_nodes_that_failed_it_but_never_more_than_half() -> None:
    strikes = [replace(strike("ann", at / 100, node=f"n{at}"), job="j") for at in range(10)]
    assert excluded_nodes(strikes, "j", DAY_MS // 5, 4) == {"n9", "n8"}
    assert excluded_nodes(strikes, "j", DAY_MS // 5, 1) == frozenset()
    assert excluded_nodes(strikes, "other", DAY_MS // 5, 40) == frozenset()
    assert excluded_nodes(strikes, "j", 3 * DAY_MS, 40) == frozenset()


@pytest.mark.parametrize("seed", range(10))
def test_three_lemons_among_63_nodes_are_drained_before_four_fifths_of_their_faults(seed: int) -> None:
    """60 days of 60 jobs a day of 8 users; a job on a lemon fails in every second case, elsewhere in one of 1,000."""
    chance = random.Random(seed)
    nodes = [f"n{at}" for at in range(63)]
    lemons = set(chance.sample(nodes, 3))
    strikes: list[Strike] = []
    drained: set[str] = set()
    avoided = happened = 0
    for number in range(60 * 60):
        now_ms = number * DAY_MS // 60
        node = chance.choice(nodes)
        if chance.random() >= (0.5 if node in lemons else 0.001):
            continue
        if node in drained:
            avoided += node in lemons
            continue
        happened += node in lemons
        strikes.append(Strike(node, f"user{chance.randrange(8)}", f"job{number}", "xid_hardware", now_ms, (0, 1)))
        if find_lemon(node, strikes, now_ms) and may_drain(len(drained), len(nodes)):
            drained.add(node)
    assert drained == lemons
    assert avoided / (avoided + happened) > 0.8


def test_users_of_one_virtual_cluster_count_less_beside_others() -> None:
    team = [replace(strike(user, day), virtual_cluster="v") for day, user in enumerate(("ann", "bob", "eve"))]
    several, one = Population(20, 4), Population(20, 1)
    assert find_lemon("n1", team, 2 * DAY_MS, population=several) is None
    assert find_lemon("n1", team, 2 * DAY_MS, population=one) is not None
    other = replace(strike("kim", 2.5), virtual_cluster="w")
    assert find_lemon("n1", [*team, other], int(2.5 * DAY_MS), population=several) is not None


def test_where_few_users_have_the_cluster_their_failures_of_several_days_count() -> None:
    def of(user: str, *days: float) -> list[Strike]:
        return [replace(strike(user, day), job=f"{user}-{day}") for day in days]

    alone, two = Population(1), Population(2)
    assert find_lemon("n1", of("ann", 0, 1.1, 2.2), 3 * DAY_MS, population=alone) is not None
    # All on one day, or the same job again, is one failure.
    assert find_lemon("n1", of("ann", 0, 0.2, 0.4), DAY_MS, population=alone) is None
    again = [replace(each, job="j") for each in of("ann", 0, 1.1, 2.2)]
    assert find_lemon("n1", again, 3 * DAY_MS, population=alone) is None
    # One of two users cannot drain a node, nor with a single failure of the other one.
    assert find_lemon("n1", of("ann", *range(30)), 30 * DAY_MS, population=two) is None
    assert find_lemon("n1", [*of("ann", *range(30)), *of("bob", 28.5)], 30 * DAY_MS, population=two) is None
    both = [*of("ann", 0, 1.1), *of("bob", 0.5, 1.6)]
    assert find_lemon("n1", both, 2 * DAY_MS, population=two) is not None


def test_failures_of_unknown_cause_count_for_less() -> None:
    unsure = [replace(strike(f"u{day}", day), is_sure=False) for day in range(4)]
    assert 2 < score(unsure, 3 * DAY_MS) < 2.5
    assert find_lemon("n1", unsure, 3 * DAY_MS) is None
    assert excluded_nodes(unsure, "u0-job", DAY_MS // 2, 10) == frozenset()
    lemon = find_lemon("n1", [*unsure, strike("ann", 4), strike("bob", 4.5)], int(4.5 * DAY_MS))
    assert lemon is not None
    assert "unknown cause, succeeded elsewhere (4)" in lemon.reason
