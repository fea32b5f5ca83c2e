"""Keeps a group for each virtual cluster: members of the group of its name may use it.

OpenPAI's clients grant a virtual cluster by its name, and mean this group. The group is created with the first promise
to the virtual cluster, and removed with it unless it was given more to grant.
"""

from __future__ import annotations

from collections.abc import Iterable

from openpai.access.memberships import GRANTED_TO_ALL, is_spent, vc_group, without_clusters
from openpai.ports.accounts import AccountStore
from openpai.ports.platform import ClusterConfig, Platform
from openpai.protocol.errors import Refused


async def promise(platform: Platform, accounts: AccountStore, name: str, wanted: str, by: str) -> ClusterConfig:
    """Promise a virtual cluster machines or GPUs, and make sure that its group exists; see `Platform.promise`."""
    config = await platform.promise(name, wanted, by)
    await ensure_vc_groups(accounts, [name])
    return config


async def remove(platform: Platform, accounts: AccountStore, name: str, by: str) -> ClusterConfig:
    """Remove a virtual cluster and what groups grant of it; see `Platform.promise`."""
    config = await platform.promise(name, None, by)
    await forget_vc_groups(accounts, [name])
    # An administrator may have created it again meanwhile, and the new one would lack its group.
    await ensure_vc_groups(accounts, await _names(platform) & {name})
    return config


async def configure(
    platform: Platform,
    accounts: AccountStore,
    *,
    promises: str | None,
    hived: str | None,
    version: int | None,
    by: str,
) -> ClusterConfig:
    """Replace the whole configuration, and update the groups; see `Platform.configure`."""
    before = await _names(platform)
    config = await platform.configure(promises=promises, hived=hived, version=version, by=by)
    after = await _names(platform)
    await ensure_vc_groups(accounts, after)
    await forget_vc_groups(accounts, before - after)
    return config


async def _names(platform: Platform) -> set[str]:
    return {view.name for view in await platform.virtual_clusters()}


async def ensure_vc_groups(accounts: AccountStore, names: Iterable[str]) -> None:
    """Create a group for each virtual cluster that has none of its name. Idempotent.

    A group that exists stays as it is: an administrator decided what it grants.
    """
    known = {group.name for group in await accounts.groups()}
    for name in sorted(set(names) - known - GRANTED_TO_ALL):
        try:
            await accounts.add_group(vc_group(name))
        except Refused as error:
            # Another server created it first.
            if error.code != "ConflictGroupError":
                raise


async def forget_vc_groups(accounts: AccountStore, names: Iterable[str]) -> None:
    """Remove removed virtual clusters from all groups, and the group of their name if it grants nothing else.

    Otherwise a new virtual cluster of the same name would be open to the users of the old one.
    """
    removed = set(names) - GRANTED_TO_ALL
    for group in await accounts.groups():
        if removed.intersection(group.virtual_clusters) or removed.intersection(group.managed):
            left = await accounts.change_group(group.name, lambda before: without_clusters(before, removed))
            if left.name in removed and is_spent(left):
                await accounts.remove_group(left.name)
