"""Limits on connections, in total and per address, and the open files that they need.

Clients that open connections and send nothing would take all of them, so one address may hold only a part. An IPv6
network counts as one address. Connections of a trusted proxy, which stand for many clients, count in the total only.
"""

from __future__ import annotations

import ipaddress
import resource
from collections import Counter
from collections.abc import Iterable
from typing import Final

from openpai.api.rate_limits import network_of
from openpai.protocol.errors import BadConfiguration, Refused

PER_ADDRESS: Final = 1000
TOTAL_MAX: Final = 30_000
"""A silent connection costs some 15 KB of memory."""
_FILES_MAX: Final = 1 << 20
_SHARE_OF_ONE: Final = 4
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def raise_file_limit() -> int:
    """Raise the limit on open files of this process to its maximum; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, _FILES_MAX)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return _FILES_MAX if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        return soft
    return wanted


def networks(named: Iterable[str]) -> tuple[Network, ...]:
    """Return the networks that addresses or networks name. Raises Refused for anything else."""
    try:
        return tuple(ipaddress.ip_network(name, strict=False) for name in named)
    except ValueError as error:
        raise BadConfiguration(
            f"names no network: {error}", "give addresses or networks, such as 127.0.0.1,10.0.0.0/8"
        ) from error


class Connections:
    """Counts connections, and refuses those beyond the limits."""

    def __init__(self, *, files: int, per_address: int = PER_ADDRESS, trusted: Iterable[Network] = ()) -> None:
        # The rest is for the server's own files: the database, logs, tasks.
        self.total_max = min(files * 3 // 4, TOTAL_MAX)
        self.per_address = min(per_address, max(self.total_max // _SHARE_OF_ONE, 1))
        self._trusted = tuple(trusted)
        self._places: Counter[str] = Counter()
        self._total = 0

    def enter(self, address: str) -> Refused | None:
        """Count a connection; return why it is refused, None if it is not. In both cases it must `leave`."""
        place = network_of(address)
        self._total += 1
        self._places[place] += 1
        if self._total > self.total_max:
            return Refused("UnavailableError", "the server has as many connections as it can hold")
        if self._places[place] > self.per_address and not self._is_trusted(address):
            return Refused(
                "TooManyRequestsError",
                f"there are {self.per_address} connections from {place} already",
                "close some; for a proxy in front of the platform there is --trusted-proxies",
            )
        return None

    def leave(self, address: str) -> None:
        """Stop counting a connection."""
        place = network_of(address)
        self._total -= 1
        self._places[place] -= 1
        if not self._places[place]:
            del self._places[place]

    def _is_trusted(self, address: str) -> bool:
        try:
            found = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
        return any((mapped or found) in network for network in self._trusted)
