"""What a gang that nobody has submitted would wait for: the same as if it had been."""

from __future__ import annotations

import random

import pytest

from openpai.scheduler.config.planning import plan
from openpai.scheduler.config.promises import read_promises
from openpai.scheduler.model import Ask, Gang, Limit, Node, Place, Why
from openpai.scheduler.queue.scheduler import HivedScheduler


def cluster(promises: str = "a: 1 node, b: 1 node, default: rest", nodes: int = 3) -> HivedScheduler:
    """Return a scheduler of 8-GPU nodes."""
    fleet = [Node(f"n{number}", cpus=32, memory_mb=262_144, gpus=8) for number in range(nodes)]
    scheduler = HivedScheduler(plan([(node, "V100") for node in fleet], read_promises(promises)))
    for node in fleet:
        scheduler.set_node(node)
    return scheduler


def gang(name: str, vc: str, *gpus: int, priority: int = 0, user: str = "ann", is_interruptible: bool = False) -> Gang:
    return Gang(
        name, tuple(Ask(1, 1024, each) for each in gpus), vc, priority, user=user, is_interruptible=is_interruptible,
        job=f"{user}~{name}",
    )  # fmt: skip


def run(scheduler: HivedScheduler, *gangs: Gang, now_ms: int = 0) -> list[str]:
    """Add gangs, and return which of them were placed."""
    for each in gangs:
        scheduler.add(each)
    placed = [each.gang for each in scheduler.decide(now_ms, 100) if isinstance(each, Place)]
    for name in placed:
        scheduler.commit(name)
    return placed


def test_what_fits_would_start_and_what_does_not_says_why() -> None:
    scheduler = cluster()
    assert scheduler.preview([gang("new", "a", 8)], 0) is None
    run(scheduler, gang("first", "a", 8))
    found = scheduler.preview([gang("new", "a", 4)], 1)
    assert found is not None
    assert found.code is Why.NOT_ENOUGH_FREE
    assert "virtual cluster a" in found.message
    assert found.position == 1
    run(scheduler, gang("second", "a", 4, user="bob"))
    found = scheduler.preview([gang("new", "a", 4)], 2)
    assert found is not None
    assert (found.ahead, found.position) == (("bob~second",), 2)


def test_what_never_fits_is_said_so() -> None:
    found = cluster().preview([gang("new", "a", 4), gang("other", "a", 16)], 0)
    assert found is not None
    assert (found.code, found.gang, found.position) == (Why.NO_NODE, "other", 0)


def test_tasks_that_start_one_by_one_share_what_is_free() -> None:
    scheduler = cluster()
    found = scheduler.preview([gang(f"t{number}", "a", 3) for number in range(5)], 0)
    assert found is not None
    assert (found.gang, found.more) == ("t2", 2)


def test_the_limit_of_a_user_counts_what_the_job_itself_would_run() -> None:
    scheduler = cluster()
    scheduler.set_limits([Limit(4, "a", "ann")])
    assert scheduler.preview([gang("t0", "a", 2), gang("t1", "a", 2)], 0) is None
    found = scheduler.preview([gang(f"t{number}", "a", 2) for number in range(3)], 0)
    assert found is not None
    assert (found.code, found.gang) == (Why.USER_LIMIT, "t2")
    assert scheduler.preview([gang(f"t{number}", "a", 2, user="bob") for number in range(3)], 0) is None


def test_an_interruptible_gang_would_borrow() -> None:
    scheduler = cluster()
    run(scheduler, gang("first", "a", 8))
    assert scheduler.preview([gang("new", "a", 8)], 0) is not None
    assert scheduler.preview([gang("new", "a", 8, is_interruptible=True)], 0) is None


def test_what_others_must_leave_first_is_not_free() -> None:
    scheduler = cluster()
    assert run(scheduler, gang("guest", "b", 8, 8, 8, priority=-1)) == ["guest"]
    found = scheduler.preview([gang("new", "a", 8)], 0)
    assert found is not None
    assert "1 other job leaves" in found.message
    assert "guest" not in found.message


@pytest.mark.parametrize("seed", range(12))
def test_a_preview_agrees_with_the_decision_and_leaves_no_trace(seed: int) -> None:
    chance, scheduler = random.Random(seed), cluster("a: 1 node, b: 4 GPUs, default: rest", 4)
    running: list[str] = []
    for number in range(40):
        sizes = [chance.choice((1, 2, 4, 8)) for _ in range(chance.choice((1, 1, 2)))]
        new = gang(
            f"g{number}", chance.choice("ab"), *sizes, priority=chance.choice((-1, 0, 0, 5)),
            is_interruptible=chance.random() < 0.3,
        )  # fmt: skip
        before = scheduler.inspect()
        found = scheduler.preview([new], number)
        assert scheduler.inspect() == before
        placed = run(scheduler, new, now_ms=number)
        assert (found is None) == (new.id in placed), (new, found)
        running += placed
        if chance.random() < 0.5 and running:
            scheduler.release(running.pop(chance.randrange(len(running))))
            running += run(scheduler, now_ms=number)
        if found is not None:
            scheduler.cancel(new.id)
