"""Pods and nodes that fail are left alone for longer each time, and those measured the longest time ago come first."""

from __future__ import annotations

import asyncio

from openpai.backends.kubernetes.attempts import PodAttempt
from openpai.backends.kubernetes.measuring_turns import AGAIN_MAX_S, AGAIN_S, FIRST_MS, OPENED_MAX, Turns
from openpai.lifecycle.model import AttemptKey


def pod(name: str, node: str = "") -> PodAttempt:
    return PodAttempt(AttemptKey(name * 32, 0, "worker", 0, 0), name, node=node or f"node-{name}", started_at_ms=1)


def chosen(turns: Turns, *pods: PodAttempt, now_s: float = 0.0, room: int = 9, **at_ms: int) -> str:
    found = asyncio.run(turns.choose(pods, room, now_s, {"f" * 32}, lambda name: at_ms.get(name, 0)))
    return "".join(each.name for each in found)


def test_those_measured_the_longest_time_ago_come_first_and_jobs_in_a_hurry_before() -> None:
    turns = Turns()
    pods = pod("a"), pod("b"), pod("f")
    assert chosen(turns, *pods, room=2, a=5, b=4) == "fb"
    # The others wait longer, and not for ever.
    assert chosen(turns, *pods, a=5, b=4, f=FIRST_MS) == "fba"
    assert chosen(turns, *pods, a=5, b=4, f=FIRST_MS + 6) == "baf"


def test_a_node_on_which_nothing_opens_is_left_alone_with_all_its_pods() -> None:
    turns = Turns()
    pods = pod("a", "x"), pod("b", "x"), pod("c", "y")
    turns.failed(pods[0], 0.0, was_opened=False, was_measured=False)
    assert chosen(turns, *pods, now_s=AGAIN_S - 1) == "c"
    assert chosen(turns, *pods, now_s=AGAIN_S) == "abc"
    turns.failed(pods[1], AGAIN_S, was_opened=False, was_measured=False)
    assert chosen(turns, *pods, now_s=AGAIN_S * 3 - 1) == "c"
    # A success on the node is one for all its pods.
    turns.succeeded(pods[0])
    assert chosen(turns, *pods, now_s=AGAIN_S * 2) == "abc"
    # What fails within a container says nothing about its node.
    turns.failed(pods[1], 100.0, was_opened=True, was_measured=False)
    assert chosen(turns, *pods, now_s=100.0) == "ac"


def test_pauses_and_the_number_of_attempts_have_bounds() -> None:
    turns = Turns()
    one = pod("a")
    for _ in range(2000):
        turns.failed(one, 0.0, was_opened=True, was_measured=False)
    assert (turns.opened_max, chosen(turns, one, now_s=AGAIN_MAX_S - 1), chosen(turns, one, now_s=AGAIN_MAX_S)) == (
        1,
        "",
        "a",
    )
    for _ in range(200):
        turns.succeeded(one)
    assert turns.opened_max == OPENED_MAX
    # A turn that broke off after samples is no reason to try fewer.
    turns.failed(one, 0.0, was_opened=True, was_measured=True)
    assert turns.opened_max == OPENED_MAX
    turns.forget(["a"])
    assert chosen(turns, one) == "a"
