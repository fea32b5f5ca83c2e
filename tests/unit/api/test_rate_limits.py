"""Buckets that fill with time, and a short memory of failures."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openpai.api import rate_limits
from openpai.api.rate_limits import FailureLimiter, LoginLimiter, RateLimiter, TooManyRequests, network_of
from openpai.api.services import Rate
from tests.clocks import HandClock


@given(st.lists(st.integers(-500, 2000), max_size=200), st.integers(1, 20), st.integers(1, 50))
def test_no_client_gets_more_than_its_rate_and_burst(waits_ms: list[int], burst: int, per_s: int) -> None:
    clock = HandClock(0)
    buckets = RateLimiter(Rate(per_s, burst), clock, "too fast")
    granted = forward_ms = 0
    for wait_ms in waits_ms:
        clock.at_ms += wait_ms
        forward_ms += max(wait_ms, 0)
        try:
            buckets.take("client")
            granted += 1
        except TooManyRequests:
            continue
    assert granted <= burst + forward_ms / 1000 * per_s


def test_a_client_that_keeps_to_its_rate_is_never_refused() -> None:
    clock = HandClock(0)
    buckets = RateLimiter(Rate(10, 1), clock, "too fast")
    for _ in range(100):
        assert buckets.take("client") == 0
        clock.at_ms += 100


def test_a_refusal_says_when_the_next_request_may_come() -> None:
    clock = HandClock(0)
    buckets = RateLimiter(Rate(0.25, 1), clock, "too fast")
    buckets.take("client")
    clock.at_ms += 2000
    with pytest.raises(TooManyRequests) as refused:
        buckets.take("client")
    clock.at_ms += refused.value.retry_after_s * 1000 - 1
    assert refused.value.retry_after_s == 2
    with pytest.raises(TooManyRequests):
        buckets.take("client")
    clock.at_ms += 1
    buckets.take("client")


def test_clients_do_not_share_and_the_least_recent_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limits, "CLIENTS_MAX", 2)
    buckets = RateLimiter(Rate(1, 2), HandClock(0), "too fast")
    assert [buckets.take(client) for client in ("a", "b", "a")] == [1, 1, 0]
    assert buckets.take("c") == 1
    with pytest.raises(TooManyRequests):
        buckets.take("a")
    assert buckets.take("b") == 1


def test_failures_are_remembered_for_a_minute_and_successes_not_at_all() -> None:
    clock = HandClock(0)
    failures = FailureLimiter(2, clock)
    for _ in range(10):
        failures.begin("ann")
        failures.succeeded("ann")
    failures.begin("ann")
    clock.at_ms += 10_000
    failures.begin("ann")
    with pytest.raises(TooManyRequests) as refused:
        failures.begin("ann")
    assert refused.value.headers()["Retry-After"] == "50"
    failures.begin("bob")
    clock.at_ms += 50_000
    failures.begin("ann")
    with pytest.raises(TooManyRequests):
        failures.begin("ann")


def test_of_clients_that_failed_the_least_recent_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limits, "CLIENTS_MAX", 2)
    failures = FailureLimiter(1, HandClock(0))
    for client in ("a", "b", "c"):
        failures.begin(client)
    with pytest.raises(TooManyRequests):
        failures.begin("b")
    failures.begin("a")


def test_a_clock_that_is_set_back_locks_no_user_out() -> None:
    clock = HandClock(0)
    clock.at_ms = 3_600_000
    failures = FailureLimiter(1, clock)
    failures.begin("ann")
    clock.at_ms = 0
    failures.begin("ann")
    with pytest.raises(TooManyRequests) as refused:
        failures.begin("ann")
    assert refused.value.retry_after_s == 60


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("local", "local"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("a:b", "a:b"),
    ],
)
def test_all_addresses_of_an_ipv6_network_count_as_one_client(address: str, place: str) -> None:
    assert network_of(address) == place


def guesses(clock: HandClock) -> LoginLimiter:
    return LoginLimiter(clock, per_min=5, per_min_of_address=8, per_min_of_user=10)


def test_guessing_is_bounded_for_a_pair_an_address_and_a_user() -> None:
    clock = HandClock(0)
    one = guesses(clock)
    for _ in range(5):
        one.begin("ann", "here")
    with pytest.raises(TooManyRequests):
        one.begin("ann", "here")
    for at in range(3):
        one.begin(f"user-{at}", "here")
    with pytest.raises(TooManyRequests):
        one.begin("another", "here")
    for at in range(5):
        one.begin("ann", f"there-{at}")
    with pytest.raises(TooManyRequests):
        one.begin("ann", "yonder")
    clock.at_ms += 60_000
    one.begin("ann", "yonder")


def test_where_a_user_has_logged_in_they_are_not_kept_waiting_by_others() -> None:
    one = guesses(HandClock(0))
    one.begin("ann", "home")
    one.succeeded("ann", "home")
    for at in range(10):
        one.begin("ann", f"there-{at}")
    with pytest.raises(TooManyRequests):
        one.begin("ann", "yonder")
    for _ in range(50):
        one.begin("ann", "home")
        one.succeeded("ann", "home")
    for _ in range(5):
        one.begin("ann", "home")
    with pytest.raises(TooManyRequests):
        one.begin("ann", "home")


def test_a_try_that_is_refused_counts_nowhere() -> None:
    one = guesses(HandClock(0))
    for at in range(10):
        one.begin("ann", f"there-{at}")
    for _ in range(20):
        with pytest.raises(TooManyRequests):
            one.begin("ann", "yonder")
    for at in range(8):
        one.begin(f"user-{at}", "yonder")


def test_a_refused_client_displaces_no_other_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limits, "CLIENTS_MAX", 20)
    one = guesses(HandClock(0))
    for _ in range(5):
        one.begin("ann", "here")
    for at in range(100):
        with contextlib.suppress(TooManyRequests):
            one.begin(f"user-{at}", "here")
    with pytest.raises(TooManyRequests) as refused:
        one.begin("ann", "here")
    assert refused.value.limit == 5


def test_an_attempt_of_unknown_result_is_taken_back() -> None:
    one = guesses(HandClock(0))
    for _ in range(20):
        one.begin("ann", "here")
        one.undecided("ann", "here")
    for at in range(10):
        one.begin("ann", f"there-{at}")
    with pytest.raises(TooManyRequests):
        one.begin("ann", "here")


def test_neither_capital_letters_nor_addresses_of_one_network_give_more_guesses() -> None:
    one = guesses(HandClock(0))
    for name, host in (("ann", 1), ("Ann", 2), ("aNN", 3), ("ANN", 4), ("anN", 5)):
        one.begin(name, f"2001:db8::{host}")
    with pytest.raises(TooManyRequests):
        one.begin("aNn", "2001:db8::6")


def test_logins_that_succeed_are_never_counted() -> None:
    one = guesses(HandClock(0))
    for at in range(100):
        one.begin("ann", f"place-{at}")
        one.succeeded("ann", f"place-{at}")
        one.begin(f"user-{at}", "192.0.2.1")
        one.succeeded(f"user-{at}", "192.0.2.1")


def test_the_oldest_known_addresses_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limits, "CLIENTS_MAX", 2)
    one = guesses(HandClock(0))
    for place in ("a", "b", "a", "c"):
        one.begin("ann", place)
        one.succeeded("ann", place)
    assert list(one._known) == [("ann", "a"), ("ann", "c")]
