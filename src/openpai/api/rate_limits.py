"""Rate limits per client: token buckets for requests, and counts of failed logins.

Each remembers a bounded number of clients and forgets the least recent one.
"""

from __future__ import annotations

import ipaddress
from collections import deque
from collections.abc import Hashable
from math import ceil
from typing import Final, NamedTuple

from openpai.api.services import Rate
from openpai.ports.clock import Clock
from openpai.protocol.errors import Refused

CLIENTS_MAX: Final = 20_000
_MINUTE_MS: Final = 60_000


def network_of(address: str) -> str:
    """Return the address of a client, or the /64 network of an IPv6 address: its owner has 2^64 addresses."""
    if ":" not in address:
        return address
    try:
        found = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((found, 64), strict=False))


class TooManyRequests(Refused):
    """A client exceeded a limit; `retry_after_s` says when it may retry."""

    def __init__(self, message: str, retry_after_s: float, limit: int) -> None:
        self.retry_after_s = max(ceil(retry_after_s), 1)
        self.limit = limit
        super().__init__("TooManyRequestsError", message, f"wait {self.retry_after_s} s and try again")

    def headers(self) -> dict[str, str]:
        """Return the headers that say when to retry."""
        return {
            "Retry-After": str(self.retry_after_s),
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": "0",
            "X-RateLimit-Reset": str(self.retry_after_s),
        }


class _Bucket(NamedTuple):
    left: float
    at_ms: int


class RateLimiter:
    """One token bucket per client: it fills at a steady rate, and each request takes one token."""

    def __init__(self, rate: Rate, clock: Clock, message: str) -> None:
        self.rate = rate
        self._clock = clock
        self._describe = message
        self._buckets: dict[Hashable, _Bucket] = {}

    def take(self, client: Hashable) -> int:
        """Count one request and return how many more may follow at once; raise TooMany when there is none left."""
        now_ms = self._clock.now_ms()
        bucket = self._buckets.pop(client, None)
        left = float(self.rate.burst)
        if bucket is not None:
            # A clock that was set back neither adds nor removes tokens.
            since_s = max(now_ms - bucket.at_ms, 0) / 1000
            left = min(bucket.left + since_s * self.rate.per_s, left)
        elif len(self._buckets) >= CLIENTS_MAX:
            del self._buckets[next(iter(self._buckets))]
        if left < 1:
            self._buckets[client] = _Bucket(left, now_ms)
            raise TooManyRequests(self._describe, (1 - left) / self.rate.per_s, self.rate.burst)
        self._buckets[client] = _Bucket(left - 1, now_ms)
        return int(left - 1)


class FailureLimiter:
    """Failed attempts of the last minute, per client."""

    def __init__(self, per_min: int, clock: Clock) -> None:
        self._per_min = per_min
        self._clock = clock
        self._failed: dict[Hashable, deque[int]] = {}

    def begin(self, client: Hashable) -> None:
        """Count an attempt as failed until `succeeded` says otherwise; raise TooMany after too many failures."""
        self.check(client)
        failed = self._failed.pop(client, None)
        if failed is None:
            failed = deque()
            if len(self._failed) >= CLIENTS_MAX:
                del self._failed[next(iter(self._failed))]
        self._failed[client] = failed
        failed.append(self._clock.now_ms())

    def check(self, client: Hashable) -> None:
        """Raise TooMany after too many failures of a client; nothing is counted."""
        failed, now_ms = self._failed.get(client, deque()), self._clock.now_ms()
        # A clock that was set back must not lock a user out until it has caught up.
        while failed and not 0 <= now_ms - failed[0] < _MINUTE_MS:
            failed.popleft()
        if len(failed) >= self._per_min:
            wait_s = (failed[0] + _MINUTE_MS - now_ms) / 1000
            raise TooManyRequests("too many failed logins", wait_s, self._per_min)

    def succeeded(self, client: Hashable) -> None:
        """Remove the latest attempt of a client: it did not fail."""
        failed = self._failed.get(client)
        if failed:
            failed.pop()


class LoginLimiter:
    """Limits failed logins in three ways, so that guessing is slow from one address or from many.

    Attempts for one user from one address are limited, and attempts from one address for any user. Attempts for one
    user from all addresses together are limited too, except from addresses where this user has logged in before, so
    that guesses from a thousand addresses cannot lock the user out.

    User names are compared without case: a directory finds ERIN where it knows erin.
    """

    def __init__(self, clock: Clock, *, per_min: int, per_min_of_address: int, per_min_of_user: int) -> None:
        self._pairs = FailureLimiter(per_min, clock)
        self._addresses = FailureLimiter(per_min_of_address, clock)
        self._users = FailureLimiter(per_min_of_user, clock)
        self._known: dict[tuple[str, str], None] = {}

    def begin(self, user: str, address: str) -> None:
        """Count an attempt as failed until `succeeded` says otherwise; raise TooMany after too many failures."""
        counts = self._counts(user, address)
        # A refused attempt counts nowhere, and pushes no other client out of the memory.
        for failures, client in counts:
            failures.check(client)
        for failures, client in counts:
            failures.begin(client)

    def undecided(self, user: str, address: str) -> None:
        """Remove the latest attempt: it is unknown whether it failed."""
        for failures, client in self._counts(user, address):
            failures.succeeded(client)

    def succeeded(self, user: str, address: str) -> None:
        """Remove the latest attempt: it did not fail. The user is known at this address from now on."""
        self.undecided(user, address)
        pair = user.lower(), network_of(address)
        self._known.pop(pair, None)
        if len(self._known) >= CLIENTS_MAX:
            del self._known[next(iter(self._known))]
        self._known[pair] = None

    def _counts(self, user: str, address: str) -> list[tuple[FailureLimiter, Hashable]]:
        pair = user.lower(), network_of(address)
        counts: list[tuple[FailureLimiter, Hashable]] = [(self._pairs, pair), (self._addresses, pair[1])]
        return counts if pair in self._known else [*counts, (self._users, pair[0])]
