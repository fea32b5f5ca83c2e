"""Which jobs are meant by what a person writes."""

from __future__ import annotations

from datetime import datetime

import pytest

from openpai.cli.durations import seconds, whole_seconds
from openpai.cli.filters import conditions, moment_ms
from openpai.protocol.errors import Refused


def test_conditions_are_put_in_the_words_of_the_api():
    assert conditions(["user=ann,bob", "state=failed", "tag=a", "no-tag=b"]) == {
        "username": "ann,bob",
        "state": "FAILED",
        "tagsContain": "a",
        "tagsNotContain": "b",
    }


@pytest.mark.parametrize("text", ["state", "colour=red", "vc=", "=x"])
def test_a_condition_that_means_nothing_is_refused_with_those_that_do(text):
    with pytest.raises(Refused) as caught:
        conditions([text])
    assert "priority" in caught.value.advice


@pytest.mark.parametrize(("text", "known"), [("state=RUNING", "RUNNING"), ("priority=prod,urgent", "crit")])
def test_a_misspelt_word_is_refused_instead_of_matching_nothing(text, known):
    with pytest.raises(Refused) as caught:
        conditions([text])
    assert known in caught.value.advice


def test_moments_are_spans_ago_or_dates():
    assert moment_ms("2h", 10_000.0) == 2_800_000
    assert moment_ms("52w", 10_000.0) == 0
    assert moment_ms("2026-01-31", 0) == int(datetime(2026, 1, 31).astimezone().timestamp() * 1000)
    assert moment_ms("1970-01-01T00:00:01+00:00", 0) == 1000


@pytest.mark.parametrize("text", ["", "soon", "7", "d", "2026-13-01", "-1d"])
def test_what_is_no_moment_is_refused(text):
    with pytest.raises(Refused, match="not a time"):
        moment_ms(text, 0)


def test_spans():
    lengths = ("30s", "30m", "12h", "1d12h", "90d", "1w", "1.5h")
    assert [whole_seconds(text, "--t") for text in lengths] == [30, 1800, 43_200, 129_600, 7_776_000, 604_800, 5400]
    assert (seconds("3", "--t", bare="m"), seconds("3", "--t", bare="s"), seconds("0.2", "--t", bare="s")) == (
        180,
        3,
        0.2,
    )


@pytest.mark.parametrize("text", ["1 year", "3", "1h2h", "", "-1d", "h", "1h 30m", "\u0663m", "nan", "1e3s"])
def test_what_is_no_length_of_time_is_refused_with_one_advice(text):
    with pytest.raises(Refused, match=r"--t .* is not a duration") as caught:
        seconds(text, "--t")
    assert caught.value.advice == "write it like 30s, 10m, 2h or 1d12h"


@pytest.mark.parametrize(("text", "why"), [("0s", "too short"), ("0.4s", "too short"), ("99999999w", "hundred years")])
def test_a_length_of_time_has_bounds(text, why):
    with pytest.raises(Refused, match=why):
        whole_seconds(text, "--t")
