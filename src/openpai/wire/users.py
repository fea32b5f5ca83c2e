"""Documents of users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from openpai.wire.answers import GroupName, Ms, StorageName, UserName, VcName
from openpai.wire.doc import Doc, Document


class User(Document):
    """A user in full."""

    username: UserName
    email: Annotated[str, Doc(example="ann@example.org")]
    grouplist: Sequence[GroupName]
    extension: Annotated[Mapping[str, Any], Doc("values that clients store with the user", example={})]
    admin: Annotated[bool, Doc(example=False)]
    viewer: Annotated[bool, Doc(example=False)]
    virtualCluster: Sequence[VcName]
    storageConfig: Sequence[StorageName]
    source: Annotated[str, Doc("who checks the password: local, oidc or ldap", example="local")]
    createdTime: Ms


class PublicUser(Document):
    """The fields of a user that all users may see."""

    username: UserName
