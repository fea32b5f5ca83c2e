"""How good guesses are is measured when they come true: run times at the end of a gang, starts at its start."""

from __future__ import annotations

import json

import pytest

from openpai.scheduler.model import Accuracy, Ask, Estimate, Gang
from openpai.scheduler.queue.accuracy import LATEST, NEAR_MS, SHOWN_MAX, Guesses
from openpai.scheduler.queue.replay import resume
from openpai.scheduler.queue.run_times import RunTimes
from openpai.scheduler.queue.scheduler import HivedScheduler
from tests.unit.scheduler.queue.queues import HOUR_MS, gang, placed


def test_run_times_are_compared_with_what_was_guessed_from_those_before() -> None:
    known = RunTimes()
    for number, ran_ms in enumerate((1000, 1000, 1000, 1000, 2000, 4000, 100)):
        known.note(Gang("", (Ask(0, 0, 1),), "a", submitted_at_ms=number, user="u"), ran_ms, number)
    # Four gangs must have finished before one is guessed.
    assert known.guesses.of("a") == Accuracy(0, 0, 3, 1, 3.565)
    assert known.guesses.of("b") == Accuracy()


@pytest.mark.parametrize(
    ("started_ms", "is_within"),
    [
        (HOUR_MS - NEAR_MS - 1, False),
        (HOUR_MS - NEAR_MS, True),
        (2 * HOUR_MS + NEAR_MS, True),
        (2 * HOUR_MS + NEAR_MS + 1, False),
    ],
)
def test_a_start_is_compared_with_the_first_estimate_that_was_shown(started_ms: int, is_within: bool) -> None:
    guesses = Guesses()
    guesses.note_shown("g", Estimate(None, None, "unknown"))
    guesses.note_shown("g", Estimate(5, None, "its end is unknown"))
    guesses.note_shown("g", Estimate(HOUR_MS, 2 * HOUR_MS, "the first"))
    guesses.note_shown("g", Estimate(0, 9 * HOUR_MS, "a later one"))
    for name in ("g", "g", "never-shown"):
        guesses.note_start(name, "a", started_ms)
    assert guesses.of("a") == Accuracy(1, is_within)


def test_only_the_latest_count_and_memory_is_bounded() -> None:
    guesses = Guesses()
    for number in range(SHOWN_MAX + LATEST):
        guesses.note_shown(f"g{number}", Estimate(0, 0, ""))
    for number in range(SHOWN_MAX + LATEST):
        guesses.note_start(f"g{number}", "a", 0 if number >= SHOWN_MAX else HOUR_MS)
        guesses.note_run("a", 10, 1 if number < SHOWN_MAX else 10)
    found = guesses.of("a")
    assert found == guesses.of_all() == Accuracy(LATEST, LATEST, LATEST, LATEST, 1.0)
    again = Guesses()
    again.load(json.loads(json.dumps(guesses.dump())))
    assert again.of("a") == found


def test_estimates_of_waiting_gangs_are_judged_when_they_start(scheduler: HivedScheduler) -> None:
    scheduler.add(gang("runs", 4, 4, time_limit_ms=2 * HOUR_MS))
    assert placed(scheduler) == ["runs"]
    for name in ("asked", "cancelled", "unasked"):
        scheduler.add(gang(name, 4, 4, time_limit_ms=HOUR_MS))
    assert placed(scheduler, 1) == []
    why = scheduler.why("asked")
    assert why is not None
    assert why.estimate is not None
    assert (why.estimate.latest_ms, why.estimate.judged) == (2 * HOUR_MS, 0)
    scheduler.why("cancelled")
    scheduler.cancel("cancelled")
    scheduler = resume(json.loads(json.dumps(scheduler.snapshot())))
    scheduler.release("runs")
    assert placed(scheduler, HOUR_MS) == ["asked"]
    (view,) = [each for each in scheduler.virtual_clusters() if each.name == "a"]
    assert (view.accuracy.starts, view.accuracy.starts_within) == (1, 1)
    why = scheduler.why("unasked")
    assert why is not None
    assert why.estimate is not None
    assert (why.estimate.judged, why.estimate.within) == (1, 1)
    scheduler.release("asked")
    assert placed(scheduler, 9 * HOUR_MS) == ["unasked"]
    (view,) = [each for each in scheduler.virtual_clusters() if each.name == "a"]
    assert (view.accuracy.starts, view.accuracy.starts_within) == (2, 1)
