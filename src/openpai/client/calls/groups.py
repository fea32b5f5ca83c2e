"""Groups: users with the same rights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openpai.client import model
from openpai.client.calls.naming import segment
from openpai.client.calls_core import Call, asks, given, listed, nothing, whole


def _group(name: str) -> str:
    return f"/groups/{segment(name, 'a group')}"


class Groups:
    """The groups of the platform."""

    @asks
    def groups(self) -> Call[tuple[model.Group, ...]]:
        """Return every group, by name."""
        return Call("GET", "/groups", listed(model.Group.read))

    @asks
    def group(self, name: str) -> Call[model.Group]:
        """Return one group."""
        return Call("GET", _group(name), whole(model.Group.read))

    @asks
    def members(self, name: str) -> Call[tuple[str, ...]]:
        """Return the names of a group's members."""
        return Call("GET", f"{_group(name)}/userlist", listed(lambda document: str(document["username"])))

    @asks
    def add_group(
        self,
        name: str,
        *,
        description: str = "",
        external_name: str = "",
        is_admin: bool = False,
        virtual_clusters: Sequence[str] = (),
        managed: Sequence[str] = (),
        storages: Sequence[str] = (),
    ) -> Call[None]:
        """Add a group that grants these virtual clusters and storages."""
        body = {
            "groupname": name,
            "description": description,
            "externalName": external_name,
            "extension": {"acls": _acls(is_admin, virtual_clusters, managed, storages)},
        }
        return Call("POST", "/groups", nothing, json=body)

    @asks
    def change_group(
        self,
        name: str,
        *,
        description: str | None = None,
        external_name: str | None = None,
        is_admin: bool | None = None,
        virtual_clusters: Sequence[str] | None = None,
        managed: Sequence[str] | None = None,
        storages: Sequence[str] | None = None,
    ) -> Call[None]:
        """Change the given fields of a group."""
        acls = _acls(is_admin, virtual_clusters, managed, storages)
        data = given(
            groupname=name,
            description=description,
            externalName=external_name,
            extension={"acls": acls} if acls else None,
        )
        return Call("PUT", "/groups", nothing, json={"patch": True, "data": data})

    @asks
    def remove_group(self, name: str) -> Call[None]:
        """Remove a group; its members keep their accounts."""
        return Call("DELETE", _group(name), nothing)

    @asks
    def add_member(self, group: str, user: str) -> Call[None]:
        """Add a user to a group."""
        return Call("PUT", f"/users/{segment(user, 'a user')}/group", nothing, json={"groupname": group})

    @asks
    def remove_member(self, group: str, user: str) -> Call[None]:
        """Remove a user from a group."""
        return Call(
            "DELETE", f"/users/{segment(user, 'a user')}/group", nothing, json={"groupname": group}, is_repeatable=True
        )


def _acls(
    is_admin: bool | None,
    virtual_clusters: Sequence[str] | None,
    managed: Sequence[str] | None,
    storages: Sequence[str] | None,
) -> dict[str, Any]:
    return given(
        admin=is_admin, virtualClusters=virtual_clusters, managedVirtualClusters=managed, storageConfigs=storages
    )
