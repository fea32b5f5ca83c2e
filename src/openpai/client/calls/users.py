"""Users: accounts that may log in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openpai.client import model
from openpai.client.calls.naming import segment
from openpai.client.calls_core import Call, asks, given, listed, nothing, whole


def _user(name: str) -> str:
    return f"/users/{segment(name, 'a user')}"


class Users:
    """The users of the platform."""

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
        body = given(
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
        """Change the given fields of a user; for administrators."""
        data = given(
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
        """Change the given fields of one's own account, whose name is `name`."""
        data = given(
            username=name, email=email, oldPassword=old_password, newPassword=new_password, extension=extension
        )
        # A repeated request would give the old password, which was changed.
        is_repeatable = new_password is None
        return Call("PUT", "/users/me", nothing, json={"patch": True, "data": data}, is_repeatable=is_repeatable)

    @asks
    def set_password(self, name: str, new_password: str, old_password: str | None = None) -> Call[None]:
        """Change a password, one's own with the old one; ends the user's logins."""
        body = given(newPassword=new_password, oldPassword=old_password)
        return Call("PUT", f"{_user(name)}/password", nothing, json=body, is_repeatable=False)

    @asks
    def remove_user(self, name: str) -> Call[None]:
        """Remove a user."""
        return Call("DELETE", _user(name), nothing)

    @asks
    def set_groups_of(self, name: str, groups: Sequence[str]) -> Call[None]:
        """Put a user into exactly these groups."""
        return Call("PUT", f"{_user(name)}/grouplist", nothing, json={"grouplist": list(groups)})
