"""A group for each virtual cluster: whoever is in the group of its name may use it.

OpenPAI's clients grant somebody a virtual cluster by its name, and mean this group. It comes with the first promise,
and goes with the virtual cluster unless it was given more to grant.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from openpai.api.memberships import EVERYWHERE
from openpai.ports.accounts import ADMIN_GROUP, DEFAULT_GROUP, AccountStore, Group
from openpai.protocol.errors import Refused


async def ensure_vc_groups(accounts: AccountStore, names: Iterable[str]) -> None:
    """Make a group for each virtual cluster that has none of its name; asking twice is harmless.

    A group that exists stays as it is: what it grants was decided by somebody.
    """
    known = {group.name for group in await accounts.groups()}
    for name in sorted(set(names) - known - EVERYWHERE):
        try:
            await accounts.add_group(Group(name, f"may use virtual cluster {name}", virtual_clusters=(name,)))
        except Refused as error:
            # Another server was faster; there is one now, which is all that was wanted.
            if error.code != "ConflictGroupError":
                raise


async def forget_vc_groups(accounts: AccountStore, names: Iterable[str]) -> None:
    """Let no group grant virtual clusters that were removed; the group of their name goes, if it grants no more.

    Otherwise whoever makes another virtual cluster of that name would share it with people they never thought of.
    """
    gone = set(names) - EVERYWHERE
    for group in await accounts.groups():
        if gone.intersection(group.virtual_clusters) or gone.intersection(group.managed):
            left = await accounts.change_group(group.name, lambda before: _without(before, gone))
            if left.name in gone and _is_bare(left):
                await accounts.remove_group(left.name)


def _without(group: Group, gone: set[str]) -> Group:
    return replace(
        group,
        virtual_clusters=tuple(name for name in group.virtual_clusters if name not in gone),
        managed=tuple(name for name in group.managed if name not in gone),
    )


def _is_bare(group: Group) -> bool:
    is_needed = group.is_admin or group.external_name or group.name in (DEFAULT_GROUP, ADMIN_GROUP)
    return not (is_needed or group.virtual_clusters or group.managed or group.storages or group.extension)
