"""Which use of resources an actor may see in reports, and the groups that it counts for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from openpai.access.accounts import Group, User
from openpai.access.deciding import check, refusal
from openpai.access.memberships import granting_groups
from openpai.access.model import Principal, Thing
from openpai.ports.usage import UsageStore, UseRow


async def use_for(
    who: Principal,
    usage: UsageStore,
    period: tuple[int, int],
    *,
    users: Sequence[str],
    virtual_clusters: Sequence[str],
) -> tuple[UseRow, ...]:
    """Return the requested rows that an actor may see; raise ForbiddenUserError if they may see none."""
    if period[0] >= period[1]:
        return ()
    if refusal(who, "report.read") is None:
        return await usage.use(*period, users=users, virtual_clusters=virtual_clusters)
    managed = [name for name in sorted(who.managed) if not virtual_clusters or name in virtual_clusters]
    others = [name for name in users if name != who.name]
    if others and not managed:
        check(who, "report.read", Thing(label=f"what {others[0]} used"))
    found: dict[tuple[str, str, str], UseRow] = {}
    # Use before their account was created belongs to an earlier user of the same name.
    own = max(period[0], who.since_ms), period[1]
    if own[0] < own[1] and (not users or who.name in users):
        for row in await usage.use(*own, users=[who.name], virtual_clusters=virtual_clusters):
            found[row.day, row.user, row.virtual_cluster] = row
    if managed:
        for row in await usage.use(*period, users=users, virtual_clusters=managed):
            found[row.day, row.user, row.virtual_cluster] = row
    return tuple(found[key] for key in sorted(found))


def groups_for(who: Principal, users: Iterable[User]) -> Callable[[UseRow], Sequence[str]]:
    """Return which groups of its user a row counts for, of those that an actor may see; '' for use outside any."""
    of = {user.name: user.groups for user in users}
    sees_all = refusal(who, "group.members") is None

    def groups(row: UseRow) -> Sequence[str]:
        mine: Iterable[Group] = of.get(row.user, ())
        if not sees_all and row.user != who.name:
            # A manager may see only those groups that grant one of their virtual clusters.
            mine = granting_groups(mine, row.virtual_cluster)
        return [group.name for group in mine] or [""]

    return groups
