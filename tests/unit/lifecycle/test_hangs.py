"""Which tasks hang, and that none is blamed that does something."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openpai.lifecycle.hangs import Activity, Sign, find_hang, find_spinning, may_spin, watched
from openpai.lifecycle.model import TaskId

MIN_MS = 60_000
PERIOD_MS = 5_000
A, B, C = (TaskId("worker", index) for index in range(3))


def lived(*signs: Sign) -> Activity:
    """Return the activity of a task that showed these signs, five seconds apart."""
    activity = None
    for number, sign in enumerate(signs):
        activity = watched(activity, replace(sign, at_ms=number * PERIOD_MS))
    assert activity is not None
    return activity


def for_a_while(sign: Sign, times: int = 13) -> Activity:
    return lived(*[sign] * times)


QUIET = for_a_while(Sign(0))


def test_a_job_with_idle_tasks_hangs_after_its_time() -> None:
    assert find_hang({A: for_a_while(Sign(0), 12)}, MIN_MS) is None
    hang = find_hang({A: QUIET}, MIN_MS)
    assert hang is not None
    assert (hang.blamed, hang.for_ms) == ((A,), MIN_MS)
    assert find_hang({}, MIN_MS) is None


@pytest.mark.parametrize(
    "signs",
    [
        [Sign(0, log_bytes=number) for number in range(13)],
        [Sign(0, step=float(number)) for number in range(13)],
        # The same step, reported again.
        [Sign(0, step=1.0, progress_at_ms=number) for number in range(13)],
        [Sign(0, cpu_s=number * 0.1) for number in range(13)],
        [Sign(0, power_share=0.5)] * 13,
        [Sign(0, tensor_percent=20.0)] * 13,
    ],
)
def test_a_task_that_does_anything_keeps_the_whole_job_from_blame(signs: list[Sign]) -> None:
    assert find_hang({A: lived(*signs), B: QUIET}, MIN_MS) is None


@pytest.mark.parametrize(
    "idle", [Sign(0, power_share=0.2), Sign(0, tensor_percent=0.5), Sign(0, step=5.0), Sign(0, log_bytes=9)]
)
def test_what_does_not_change_is_no_activity(idle: Sign) -> None:
    assert find_hang({A: for_a_while(idle), B: QUIET}, MIN_MS) is not None


def test_a_stopped_rank_is_blamed_while_the_others_spin() -> None:
    spinning = lived(*[Sign(0, cpu_s=number * 5.0) for number in range(13)])
    stopped = for_a_while(Sign(0, is_stopped=True))
    hang = find_hang({A: spinning, B: stopped, C: QUIET}, MIN_MS)
    assert hang is not None
    assert hang.blamed == (B,)
    assert "stopped" in hang.reason
    # Stopped a moment ago, and one with a stopped helper that works on.
    assert find_hang({A: spinning, B: lived(*[Sign(0)] * 12, Sign(0, is_stopped=True))}, MIN_MS) is None
    helped = lived(*[Sign(0, cpu_s=number * 5.0, is_stopped=True) for number in range(13)])
    assert find_hang({A: helped}, MIN_MS) is None
    # One that was continued.
    assert lived(Sign(0, is_stopped=True), Sign(0)).stopped_at_ms is None


def test_the_one_that_is_behind_or_was_first_is_blamed() -> None:
    behind = {A: for_a_while(Sign(0, step=7.0)), B: for_a_while(Sign(0, step=6.0)), C: for_a_while(Sign(0, step=7.0))}
    hang = find_hang(behind, MIN_MS)
    assert hang is not None
    assert (hang.blamed, "step 6" in hang.reason) == ((B,), True)
    worked = lived(*[Sign(0, log_bytes=min(number, 4)) for number in range(30)])
    hang = find_hang({A: worked, B: worked, C: for_a_while(Sign(0), 30)}, MIN_MS)
    assert hang is not None
    assert hang.blamed == (C,)
    hang = find_hang({A: QUIET, B: QUIET}, MIN_MS)
    assert hang is not None
    assert (hang.blamed, hang.reason) == ((), "all became quiet at the same time")


def test_tasks_that_are_looked_at_in_turns_are_quiet_only_while_all_are_known_to_be() -> None:
    def looked(*at_ms: int) -> Activity:
        activity = None
        for at in at_ms:
            activity = watched(activity, Sign(at))
        assert activity is not None
        return activity

    first, second = looked(0, 100_000), looked(50_000, 150_000)
    # Until 100 s for the one, from 50 s on for the other.
    assert find_hang({A: first, B: second}, MIN_MS) is None
    hang = find_hang({A: looked(0, 100_000, 200_000), B: second}, MIN_MS)
    assert hang is not None
    assert hang.for_ms == 100_000
    # What it used in between is activity, whenever that was.
    busy = watched(looked(0, 100_000), Sign(200_000, cpu_s=30.0))
    assert find_hang({A: busy, B: looked(0, 200_000)}, MIN_MS) is None


def spinning_after(lines: int) -> Activity:
    """Return a task that wrote so many lines and only uses a processor since."""
    return lived(*[Sign(0, cpu_s=number * 5.0, log_bytes=min(number, lines)) for number in range(30)])


def test_a_job_that_wrote_regularly_and_only_uses_processors_may_spin() -> None:
    busy = spinning_after(5)
    assert may_spin({A: busy, B: busy}, MIN_MS)
    assert find_hang({A: busy, B: busy}, MIN_MS) is None
    # It may never write, is alone, or wrote a moment ago.
    assert not may_spin({A: spinning_after(0), B: spinning_after(0)}, MIN_MS)
    assert not may_spin({A: busy}, MIN_MS)
    assert not may_spin({A: busy, B: spinning_after(28)}, MIN_MS)


def test_what_the_ranks_wait_in_decides() -> None:
    busy = spinning_after(5)
    idle = lived(*[Sign(0, cpu_s=min(number, 5), log_bytes=min(number, 5)) for number in range(30)])
    ranks = {A: busy, B: idle, C: busy}
    hang = find_spinning(ranks, {A: "all_reduce", C: "all_reduce"}, "")
    assert hang is not None
    assert (hang.blamed, hang.spins) == ((B,), True)
    assert "all others wait in all_reduce" in hang.reason
    # The one that does not wait works, and nothing is known of two.
    assert find_spinning({**ranks, B: busy}, {A: "all_reduce", C: "all_reduce"}, "") is None
    assert find_spinning(ranks, {A: "all_reduce"}, "") is None
    every = find_spinning(ranks, dict.fromkeys(ranks, "barrier"), "")
    assert every is not None
    assert every.blamed == ()
    assert find_spinning(ranks, {}, "2 ranks are behind") is not None
