"""How spans of time and states are put for people."""

from __future__ import annotations

import re
import time

import pytest

from openpai.cli.formatting import ago, clock_time, counts, memory, plural, ran_for, span


@pytest.mark.parametrize(
    ("seconds", "message"),
    [
        (-1, "0s"),
        (0, "0.0s"),
        (4.24, "4.2s"),
        (10, "10s"),
        (12, "12s"),
        (59.6, "1m 00s"),
        (185, "3m 05s"),
        (7300, "2h 01m"),
        (93600, "1d 02h"),
    ],
)
def test_a_span_has_at_most_two_units(seconds, message):
    assert span(seconds) == message


def test_what_never_was_is_a_dash():
    assert (ran_for(None, None, 0), ago(None, 0)) == ("-", "-")


def test_what_still_runs_has_run_until_now():
    assert (ran_for(1000, None, 5000), ran_for(1000, 3000, 5000)) == ("4.0s", "2.0s")


def test_a_clock_behind_the_servers_shows_no_time_in_the_future():
    assert ago(9000, 1000) == "0.0s ago"


def test_counts_begin_with_what_wants_attention():
    message = counts(["SUCCEEDED", "WAITING", "FAILED", "WAITING", "ODD"])
    assert [part.split()[0] for part in message.split(", ")] == ["1", "2", "1", "1"]
    assert message.index("FAILED") < message.index("WAITING") < message.index("SUCCEEDED") < message.index("ODD")


def test_one_is_not_plural():
    assert (plural(1, "node"), plural(0, "node"), memory(512), memory(4096)) == ("1 node", "0 nodes", "512 MB", "4 GB")


def test_a_time_of_another_day_comes_with_its_date():
    assert clock_time(None) == "-"
    assert re.fullmatch(r"2023-11-\d\d \d\d:\d\d", clock_time(1_700_000_000_000))
    assert re.fullmatch(r"\d\d:\d\d:\d\d", clock_time(time.time_ns() // 1_000_000))
