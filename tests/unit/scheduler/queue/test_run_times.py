"""Which run time is expected of a gang, from those like it that finished or still run."""

from __future__ import annotations

from random import Random

from openpai.scheduler.model import Ask, Gang
from openpai.scheduler.queue.accuracy import LATEST
from openpai.scheduler.queue.run_times import COMPARED, REMEMBERED, RunTimes, kinds_of
from tests.unit.scheduler.queue.queues import HOUR_MS

MINUTE_MS = HOUR_MS // 60


def one(submitted_ms: int) -> Gang:
    """Return a gang about which only its time of submission is known."""
    return Gang("", (Ask(0, 0, 1),), "a", submitted_at_ms=submitted_ms)


def known(*ran: tuple[int, int]) -> RunTimes:
    """Return run times of gangs, each with its time of submission."""
    found = RunTimes()
    for submitted_ms, ran_ms in ran:
        found.note(one(submitted_ms), ran_ms)
    return found


def test_nothing_is_expected_until_four_have_finished_and_then_what_all_of_them_had_in_common() -> None:
    assert known(*[(at, MINUTE_MS) for at in range(3)]).expected(one(9), 9) is None
    assert known(*[(at, MINUTE_MS) for at in range(4)]).expected(one(9), 9) == MINUTE_MS


def test_gangs_submitted_at_the_same_time_count_more_than_those_of_another_day() -> None:
    day = 24 * HOUR_MS
    times = known(*[(at, MINUTE_MS) for at in range(8)], *[(day + at, 10 * HOUR_MS) for at in range(8)])
    early, late = times.expected(one(4), day), times.expected(one(day + 4), day)
    assert early is not None
    assert late is not None
    assert MINUTE_MS <= early < 2 * HOUR_MS
    assert 6 * HOUR_MS < late <= 10 * HOUR_MS


def test_one_gang_that_ran_for_weeks_neither_hides_the_others_nor_counts_for_nothing() -> None:
    alike = [(at, HOUR_MS) for at in range(15)]
    found = known(*alike, (15, 30 * 24 * HOUR_MS)).expected(one(12), 20)
    mean = (15 * HOUR_MS + 30 * 24 * HOUR_MS) // 16
    assert found is not None
    assert HOUR_MS < found < mean // 4


def test_gangs_that_run_longer_than_others_did_raise_what_is_expected_of_those_submitted_with_them() -> None:
    times = known(*[(at, MINUTE_MS * (1 + at % 4)) for at in range(40)])
    kinds = [times.begin(one(10 * HOUR_MS + at), 10 * HOUR_MS) for at in range(8)]
    found = [times.expected(one(10 * HOUR_MS + 9), 10 * HOUR_MS + passed_ms) for passed_ms in (0, HOUR_MS, 9 * HOUR_MS)]
    first, later, last = (each or 0 for each in found)
    assert 0 < first < later < last
    for at in range(8):
        times.end(one(10 * HOUR_MS + at), 10 * HOUR_MS, kinds[at])
    assert (times.expected(one(10 * HOUR_MS + 9), 19 * HOUR_MS) or 0) <= first


def test_a_clock_that_was_set_back_breaks_nothing() -> None:
    times = known(*[(at, MINUTE_MS) for at in range(4)])
    times.begin(one(5), HOUR_MS)
    assert times.expected(one(6), 0) is not None


def test_once_the_guesses_can_be_judged_only_some_gangs_are_compared() -> None:
    times = RunTimes()
    for at in range(LATEST + 10 * COMPARED + 4):
        times.note(one(at), MINUTE_MS)
    ratios = times.guesses.dump()["runs"]["a"]
    assert len(ratios) == LATEST
    judged = RunTimes()
    for at in range(LATEST):
        judged.note(one(at), MINUTE_MS)
    assert judged.guesses.of("a").runs == LATEST - 4
    for at in range(COMPARED):
        judged.note(one(LATEST + at), MINUTE_MS)
    assert judged.guesses.of("a").runs == LATEST - 3


def test_the_longest_run_time_counts_gangs_that_still_run() -> None:
    times = known((0, HOUR_MS))
    times.begin(one(0), 2 * HOUR_MS)
    times.begin(one(1), 2 * HOUR_MS)
    assert [times.longest("a", hour * HOUR_MS) for hour in (2, 3, 7)] == [HOUR_MS, HOUR_MS, 5 * HOUR_MS]
    times.end(one(0), 2 * HOUR_MS, kinds_of(one(0)))
    assert times.longest("a", 7 * HOUR_MS) == 5 * HOUR_MS
    times.end(one(1), 2 * HOUR_MS, kinds_of(one(1)))
    assert times.longest("a", 7 * HOUR_MS) == HOUR_MS


def test_a_service_that_never_ends_makes_others_wait_twice_as_long_at_most() -> None:
    times = known(*[(number, HOUR_MS) for number in range(4)])
    times.begin(one(9), 2 * HOUR_MS)
    assert [times.longest("a", hour * HOUR_MS) for hour in (3, 4, 5, 999)] == [HOUR_MS, *[2 * HOUR_MS] * 3]


def test_run_times_before_and_after_a_moment_add_up_and_a_time_limit_cuts_them() -> None:
    times = known(*[(at, hours * HOUR_MS) for at, hours in enumerate((1, 2, 3, 10))])
    assert times.before_and_after(one(9), 2 * HOUR_MS) == (7 * HOUR_MS, 9 * HOUR_MS)
    assert times.before_and_after(one(9), 2 * HOUR_MS, 4 * HOUR_MS) == (7 * HOUR_MS, 3 * HOUR_MS)
    assert known((0, HOUR_MS)).before_and_after(one(9), 0) is None


def test_run_times_are_the_same_whenever_they_are_asked() -> None:
    dice = Random(1)
    often, seldom, once = RunTimes(), RunTimes(), RunTimes()
    runs = [(dice.randrange(40 * HOUR_MS), dice.choice([0, dice.randrange(HOUR_MS)])) for _ in range(REMEMBERED + 300)]
    for number, (submitted_ms, ran_ms) in enumerate(runs):
        for times, each in ((often, 1), (seldom, 37), (once, len(runs))):
            times.note(one(submitted_ms), ran_ms)
            if number % 3 == 0:
                times.begin(one(submitted_ms + 1), submitted_ms + ran_ms)
            if number % 3 == 2:
                before = runs[number - 2]
                times.end(one(before[0] + 1), sum(before), kinds_of(one(before[0] + 1)))
            if number % each == 0:
                times.expected(one(submitted_ms), 50 * HOUR_MS)
    loaded = RunTimes()
    loaded.load(once.dump())
    for at in range(0, 40 * HOUR_MS, HOUR_MS // 2):
        answers = [
            (
                times.guess(one(at), 0.3, at // 100),
                times.before_and_after(one(at), at // 100),
                times.mean(one(at)),
                times.quartiles(one(at), 0),
                times.of_all("a"),
            )
            for times in (often, seldom, once, loaded)
        ]
        assert answers[0] == answers[1] == answers[2] == answers[3]
        assert often.expected(one(at), 50 * HOUR_MS) == seldom.expected(one(at), 50 * HOUR_MS)
        assert often.expected(one(at), 50 * HOUR_MS) == once.expected(one(at), 50 * HOUR_MS)
    latest = sorted(ran_ms for _, ran_ms in runs[-REMEMBERED:] if ran_ms)
    assert often.guess(one(0), 0.5) == latest[len(latest) // 2]
