"""Turns a gang into requests for the core: one, or one for each of its groups that need different hardware.

The parts of such a gang are called `gang#0`, `gang#1` and so on inside the scheduler only.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from openpai.scheduler.cells.model import GangRequest, Uncountable
from openpai.scheduler.model import Gang, Group
from openpai.scheduler.queue.skus import Skus

GangRequests = tuple[GangRequest, ...]


def requests_of(gang: Gang, skus: Skus) -> GangRequests | Uncountable:
    """Return the requests of a gang, or why they cannot be counted in devices."""
    if skus.latest is None or skus.latest[0] is not gang:
        skus.latest = gang, _requests(gang, skus)
    return skus.latest[1]


def _requests(gang: Gang, skus: Skus) -> GangRequests | Uncountable:
    groups = _groups(gang)
    if isinstance(groups, Uncountable):
        return groups
    found = []
    for number, group in enumerate(groups):
        name = gang.id if len(groups) == 1 else f"{gang.id}#{number}"
        request = skus.request(gang, name, group)
        if isinstance(request, Uncountable):
            return request
        found.append(request)
    return tuple(found)


def rough_requests_of(gang: Gang) -> GangRequests:
    """Return a guess at the requests of a gang where they cannot be counted: a device for each GPU."""
    members = tuple([(1, max(1, ask.gpus)) for ask in gang.asks])
    positions = tuple(range(len(gang.asks)))
    return (GangRequest(gang.id, gang.virtual_cluster, members, gang.priority, gang.sku_type, positions=positions),)


@lru_cache(maxsize=1_000)
def _plain(members: int, sku_type: str | None, pinned_cell: str | None) -> Sequence[Group]:
    return (Group(tuple(range(members)), sku_type, pinned_cell),)


def _groups(gang: Gang) -> Sequence[Group] | Uncountable:
    if not gang.groups:
        return _plain(len(gang.asks), gang.sku_type, gang.pinned_cell)
    all_members = range(len(gang.asks))
    named: set[int] = set()
    for group in gang.groups:
        for member in group.members:
            if member in named or member not in all_members:
                message = f"member {member} is in two of its groups, or does not exist; put each member in one group"
                return Uncountable(message)
            named.add(member)
    rest = tuple([member for member in all_members if member not in named])
    groups = [group for group in gang.groups if group.members]
    return [*groups, Group(rest, gang.sku_type, gang.pinned_cell)] if rest else groups
