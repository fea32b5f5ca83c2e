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
    """The rights that a group grants."""

    admin: Annotated[bool, Doc(example=False)]
    virtualClusters: Sequence[VcName]
    managedVirtualClusters: Sequence[VcName]
    storageConfigs: Sequence[StorageName]


@open_ended
class GroupExtension(Document):
    """The rights that a group grants, and values that clients store with it."""

    acls: GroupAcls


class Group(Document):
    """A group."""

    groupname: GroupName
    description: Annotated[str, Doc(example="the computer vision team")]
    externalName: Annotated[str, Doc("its name at the identity provider", example="vision@example.org")]
    extension: GroupExtension
