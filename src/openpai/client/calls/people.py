"""Users and groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openpai.client import model
from openpai.client.calls.naming import segment
from openpai.client.calls_core import Call, asks, listed, nothing, whole


def _given(**fields: Any) -> dict[str, Any]:
    """Return the fields that were given."""
    return {
        key: list(value) if isinstance(value, tuple) else value for key, value in fields.items() if value is not None
    }


def _user(name: str) -> str:
    return f"/users/{segment(name, 'a user')}"


def _group(name: str) -> str:
    return f"/groups/{segment(name, 'a group')}"


class Users:
    """People who may log in."""

    @asks
    def users(self) -> Call[tuple[model.User, ...]]:
        """Return every user, by name."""
        return Call("GET", "/users", listed(model.User.read))

    @asks
    def user_details(self, name: str) -> Call[model.User]:
        """Return one user."""
        return Call("GET", _user(name), whole(model.User.read))

    @asks
    def add_user(
        self,
        name: str,
        password: str,
        *,
        email: str = "",
        is_admin: bool = False,
        is_viewer: bool = False,
        virtual_clusters: Sequence[str] = (),
        groups: Sequence[str] = (),
    ) -> Call[None]:
        """Create a user."""
        body = _given(
            username=name,
            password=password,
            email=email,
            admin=is_admin,
            viewer=is_viewer,
            virtualCluster=list(virtual_clusters),
            grouplist=list(groups),
        )
        return Call("POST", "/users", nothing, json=body)

    @asks
    def change_user(
        self,
        name: str,
        *,
        email: str | None = None,
        password: str | None = None,
        is_admin: bool | None = None,
        is_viewer: bool | None = None,
        virtual_clusters: Sequence[str] | None = None,
        extension: Mapping[str, Any] | None = None,
    ) -> Call[None]:
        """Change what is given of a user, and leave the rest; for administrators."""
        data = _given(
            username=name,
            email=email,
            password=password,
            admin=is_admin,
            viewer=is_viewer,
            virtualCluster=virtual_clusters,
            extension=extension,
        )
        return Call("PUT", "/users", nothing, json={"patch": True, "data": data})

    @asks
    def change_me(
        self,
        name: str,
        *,
        email: str | None = None,
        old_password: str | None = None,
        new_password: str | None = None,
        extension: Mapping[str, Any] | None = None,
    ) -> Call[None]:
        """Change what is given of oneself; `name` is one's own."""
        data = _given(
            username=name, email=email, oldPassword=old_password, newPassword=new_password, extension=extension
        )
        # A password that was changed is not the old one any more.
        is_repeatable = new_password is None
        return Call("PUT", "/users/me", nothing, json={"patch": True, "data": data}, is_repeatable=is_repeatable)

    @asks
    def set_password(self, name: str, new_password: str, old_password: str | None = None) -> Call[None]:
        """Change a password; one's own needs the old one. That user's logins end."""
        body = _given(newPassword=new_password, oldPassword=old_password)
        return Call("PUT", f"{_user(name)}/password", nothing, json=body, is_repeatable=False)

    @asks
    def remove_user(self, name: str) -> Call[None]:
        """Let a user in no more."""
        return Call("DELETE", _user(name), nothing)

    @asks
    def set_groups_of(self, name: str, groups: Sequence[str]) -> Call[None]:
        """Put a user into exactly these groups."""
        return Call("PUT", f"{_user(name)}/grouplist", nothing, json={"grouplist": list(groups)})


class Groups:
    """People who are granted the same."""

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
        """Change what is given of a group, and leave the rest."""
        acls = _acls(is_admin, virtual_clusters, managed, storages)
        data = _given(
            groupname=name,
            description=description,
            externalName=external_name,
            extension={"acls": acls} if acls else None,
        )
        return Call("PUT", "/groups", nothing, json={"patch": True, "data": data})

    @asks
    def remove_group(self, name: str) -> Call[None]:
        """Remove a group; its members are members no longer."""
        return Call("DELETE", _group(name), nothing)

    @asks
    def add_member(self, group: str, user: str) -> Call[None]:
        """Put a user into a group."""
        return Call("PUT", f"{_user(user)}/group", nothing, json={"groupname": group})

    @asks
    def remove_member(self, group: str, user: str) -> Call[None]:
        """Take a user out of a group."""
        return Call("DELETE", f"{_user(user)}/group", nothing, json={"groupname": group}, is_repeatable=True)


def _acls(
    is_admin: bool | None,
    virtual_clusters: Sequence[str] | None,
    managed: Sequence[str] | None,
    storages: Sequence[str] | None,
) -> dict[str, Any]:
    return _given(
        admin=is_admin, virtualClusters=virtual_clusters, managedVirtualClusters=managed, storageConfigs=storages
    )
