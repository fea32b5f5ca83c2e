"""Which groups somebody is in after a wish: pure rules over groups, with OpenPAI's words for them.

OpenPAI speaks of a user's virtual clusters where it means groups: a virtual cluster stands for the group of its name.
Everybody is in the group `default`, and administrators are whoever is in a group that makes them so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from openpai.ports.accounts import ADMIN_GROUP, DEFAULT_GROUP, Group
from openpai.protocol.errors import Refused
from openpai.protocol.job import DEFAULT_VIRTUAL_CLUSTER

EVERYWHERE = frozenset({DEFAULT_VIRTUAL_CLUSTER})
"""What is granted to everybody."""

Groups = Mapping[str, Group]


def named(groups: Groups, names: Iterable[str]) -> tuple[Group, ...]:
    """Return the groups of these names after the default group; raise NoGroupError."""
    found = [DEFAULT_GROUP, *names]
    missing = [name for name in found if name not in groups]
    if missing:
        raise Refused(
            "NoGroupError", f"there is no group {missing[0]!r}", "`pai group list` shows the groups there are"
        )
    return tuple(groups[name] for name in dict.fromkeys(found))


def with_clusters(groups: Groups, held: Collection[Group], wished: Collection[str]) -> tuple[Group, ...]:
    """Return the groups of somebody who shall be granted these virtual clusters and no others.

    Groups that grant nothing else stay. Raises NoVirtualClusterError for one that no group stands for.
    """
    allowed = {*wished, *EVERYWHERE}
    kept = [group for group in held if group.is_admin or granted([group]) <= allowed]
    lacking = [name for name in wished if name not in granted(kept) | EVERYWHERE]
    return named(groups, [*(group.name for group in kept), *(_standing_for(groups, name).name for name in lacking)])


def with_admin(groups: Groups, held: Collection[Group], is_admin: bool) -> tuple[Group, ...]:
    """Return the groups of somebody who shall, or shall not, be an administrator."""
    if not is_admin:
        return tuple(group for group in held if not group.is_admin)
    if any(group.is_admin for group in held):
        return tuple(held)
    return (*held, *named(groups, [ADMIN_GROUP])[1:])


def vouched(groups: Groups, held: Collection[Group], external: Collection[str]) -> tuple[Group, ...]:
    """Return the groups of somebody after their identity provider told which ones they are in.

    Groups that the provider does not know are kept: they were given here.
    """
    kept = [group.name for group in held if not group.external_name]
    message = [group.name for group in groups.values() if group.external_name and group.external_name in external]
    return named(groups, [*kept, *message])


def granted(groups: Iterable[Group]) -> set[str]:
    """Return the virtual clusters that groups grant; whoever manages one may use it too."""
    return {name for group in groups for name in (*group.virtual_clusters, *group.managed)}


def _standing_for(groups: Groups, virtual_cluster: str) -> Group:
    group = groups.get(virtual_cluster)
    if group is None:
        message = f"there is no virtual cluster {virtual_cluster!r}"
        raise Refused("NoVirtualClusterError", message, "`pai vc list` shows those there are")
    if virtual_cluster not in granted([group]):
        raise Refused(
            "ConflictGroupError",
            f"group {group.name!r} does not grant the virtual cluster of its name",
            "let the group grant it, or add the user to another group that does",
        )
    return group
