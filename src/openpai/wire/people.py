"""Documents of users and groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from openpai.wire.answers import GroupName, Ms, StorageName, UserName, VcName
from openpai.wire.doc import Doc, Document, open_ended


class User(Document):
    """A user in full."""

    username: UserName
    email: Annotated[str, Doc(example="ann@example.org")]
    grouplist: Sequence[GroupName]
    extension: Annotated[Mapping[str, Any], Doc("what clients keep with the user", example={})]
    admin: Annotated[bool, Doc(example=False)]
    viewer: Annotated[bool, Doc(example=False)]
    virtualCluster: Sequence[VcName]
    storageConfig: Sequence[StorageName]
    source: Annotated[str, Doc("who vouches: local, oidc or ldap", example="local")]
    createdTime: Ms


class PublicUser(Document):
    """What everybody may know of a user."""

    username: UserName


class Member(Document):
    """A member of a group."""

    username: UserName
    clusterAdmin: Annotated[bool, Doc(example=False)]


class GroupAcls(Document):
    """What a group grants."""

    admin: Annotated[bool, Doc(example=False)]
    virtualClusters: Sequence[VcName]
    managedVirtualClusters: Sequence[VcName]
    storageConfigs: Sequence[StorageName]


@open_ended
class GroupExtension(Document):
    """What a group grants, and what clients keep with it."""

    acls: GroupAcls


class Group(Document):
    """A group."""

    groupname: GroupName
    description: Annotated[str, Doc(example="people who look at pictures")]
    externalName: Annotated[str, Doc("what an identity provider calls it", example="vision@example.org")]
    extension: GroupExtension
