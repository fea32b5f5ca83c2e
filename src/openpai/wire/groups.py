"""Documents of groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from openpai.wire.answers import GroupName, StorageName, UserName, VcName
from openpai.wire.doc import Doc, Document, open_ended


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
