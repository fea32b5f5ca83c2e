"""Groups in OpenPAI's shape, and back: what a group grants is under `extension.acls`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, cast

from pydantic import ConfigDict, Field, ValidationError

from openpai.access.accounts import Group, check_extension
from openpai.access.memberships import check_admins
from openpai.api.bodies import Body, describe, invalid
from openpai.wire import groups

Name = Annotated[str, Field(min_length=1, max_length=255)]


class Acls(Body):
    """The rights that a group grants its members."""

    # Clients of OpenPAI send back every key that they received, so an unknown key is not a fault.
    model_config = ConfigDict(extra="ignore", frozen=True)

    admin: bool = Field(False, strict=True)
    virtualClusters: list[Name] = Field(default_factory=list, max_length=1000)
    managedVirtualClusters: list[Name] = Field(default_factory=list, max_length=1000)
    storageConfigs: list[Name] = Field(default_factory=list, max_length=1000)


def group(found: Group) -> groups.Group:
    return {
        "groupname": found.name,
        "description": found.description,
        "externalName": found.external_name,
        "extension": extension(found),
    }


def extension(found: Group) -> groups.GroupExtension:
    """Return what a group grants, and the other values that clients store with it."""
    acls: groups.GroupAcls = {
        "admin": found.is_admin,
        "virtualClusters": list(found.virtual_clusters),
        "managedVirtualClusters": list(found.managed),
        "storageConfigs": list(found.storages),
    }
    return cast("groups.GroupExtension", {**found.extension, "acls": acls})


def with_extension(found: Group, document: Mapping[str, Any]) -> Group:
    """Return the group with another extension; raise InvalidParametersError, or ReadOnlyGroupError for fixed values."""
    check_extension(document)
    try:
        acls = Acls.model_validate(document.get("acls", {}))
    except ValidationError as error:
        raise invalid("extension.acls: " + describe(error.errors(include_url=False, include_input=False))) from None
    check_admins(found.name, acls.admin)
    return replace(
        found,
        is_admin=acls.admin,
        virtual_clusters=_once(acls.virtualClusters),
        managed=_once(acls.managedVirtualClusters),
        storages=_once(acls.storageConfigs),
        extension={key: value for key, value in document.items() if key != "acls"},
    )


def merged(found: Group, document: Mapping[str, Any]) -> Group:
    """Return the group with the given keys of its extension and of its acls replaced, and the others kept."""
    now = extension(found)
    acls = document.get("acls", {})
    if not isinstance(acls, Mapping):
        raise invalid("extension.acls: input should be a valid dictionary")
    return with_extension(found, {**now, **document, "acls": {**now["acls"], **acls}})


def with_value(found: Group, path: Sequence[str], value: Any) -> Group:
    """Return the group with one value of its extension replaced, named by the keys that lead to it."""
    document = dict[str, Any](extension(found))
    inner = document
    for key in path[:-1]:
        step = inner.get(key)
        # Copy: the values are shared with the old group, which must not change.
        inner[key] = dict(step) if isinstance(step, Mapping) else {}
        inner = inner[key]
    inner[path[-1]] = value
    return with_extension(found, document)


def _once(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
