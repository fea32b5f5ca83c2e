"""Tests of the times at which queues must be looked through though nothing was freed."""

from __future__ import annotations

from openpai.scheduler.queue.look_times import LookTimes


def test_only_an_earlier_time_replaces_a_known_one() -> None:
    times = LookTimes()
    assert times.first_ms is None
    assert times.take_due(1 << 60) == []
    times.add("vision", 500)
    times.add("vision", 900)
    assert times.first_ms == 500
    times.add("vision", 300)
    assert times.first_ms == 300


def test_each_time_is_taken_once_and_the_next_one_is_known() -> None:
    times = LookTimes({"vision": 300, "speech": 700})
    times.add("text", 300)
    assert times.take_due(299) == []
    assert times.take_due(300) == ["vision", "text"]
    assert times.take_due(300) == []
    assert times.first_ms == 700
    assert LookTimes(times.dump()).first_ms == 700
    assert times.take_due(700) == ["speech"]
    assert times.first_ms is None
