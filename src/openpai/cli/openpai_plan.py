"""Compares what an OpenPAI has with what is here, and lists what an import would do. Changes nothing by itself.

An import adds and never takes away: what exists here under the same name keeps its password, its definition and what
it grants, and gets what it lacks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from openpai.cli.openpai_source import Source, acls_of, listing, load_yaml, mapping, words

if TYPE_CHECKING:
    from openpai.client import Client
    from openpai.client.model import Group, StorageView, User

Work = Callable[["Client"], object]
USER_NAME: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,126}[A-Za-z0-9_-])?")
GROUP_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
ADMIN_GROUP: Final = "admingroup"
DEFAULT: Final = "default"
_SECRETS: Final = ("password", "accountKey", "accountSASToken")
_PRIVATE: Final = {
    "jobSSH": "private SSH key",
    "boundedClusters": "tokens of other clusters",
    "githubPAT": "GitHub token",
}


class Action(StrEnum):
    """What an import does with a thing."""

    ADD = "add"
    CHANGE = "change"
    KEEP = "keep"
    """It is here, and lacks nothing."""
    SKIP = "skip"
    """It cannot be imported; the detail says why."""


@dataclass(frozen=True, slots=True)
class Step:
    """What an import does with one thing."""

    kind: str
    name: str
    action: Action
    detail: str = ""
    work: Work | None = None
    needs_password: bool = False


@dataclass(frozen=True, slots=True)
class Present:
    """What is here."""

    users: Mapping[str, User]
    groups: Mapping[str, Group]
    storages: Mapping[str, StorageView]
    virtual_clusters: frozenset[str]
    nodes: frozenset[str]
    hived: str

    @classmethod
    def at(cls, pai: Client) -> Present:
        """Return what is at a platform, as an administrator sees it."""
        return cls(
            users={user.name: user for user in pai.users()},
            groups={group.name: group for group in pai.groups()},
            storages={one.name: pai.storage(one.name) for one in pai.storages()},
            virtual_clusters=frozenset(vc.name for vc in pai.virtual_clusters()),
            nodes=frozenset(node.name for node in pai.nodes()),
            hived=pai.cluster_config().hived,
        )


def plan(source: Source, present: Present, passwords: Mapping[str, str]) -> list[Step]:
    """Return what an import does, in the order in which it must be done. `passwords` are those of new users."""
    steps = [*_storages(source, present), *_virtual_clusters(source, present)]
    can_use = present.storages.keys() | {step.name for step in steps if step.kind == "storage" and step.work}
    exist = present.virtual_clusters | _configured(source.hived if any(step.work for step in steps) else "")
    steps += _groups(source, present, can_use, exist)
    steps += _users(source, present, {*present.groups, *source.groups, *exist}, passwords)
    steps += [Step(kind, name, Action.SKIP, reason) for kind, name, reason in source.unread]
    return steps


def _storages(source: Source, present: Present) -> Iterator[Step]:
    for name, document in sorted(source.storages.items()):
        found = _converted(document)
        if isinstance(found, str):
            yield Step("storage", name, Action.SKIP, found)
            continue
        kind, data = found
        visible = {key: value for key, value in data.items() if key not in _SECRETS}
        here = present.storages.get(name)
        if here is None:
            share, is_read_only = document.get("share") is not False, bool(document.get("readOnly"))
            detail = ", ".join([kind, *(f"{key}={value}" for key, value in visible.items())])
            detail += "" if share else ", personal"
            yield Step("storage", name, Action.ADD, detail, _adding_storage(name, kind, data, is_read_only, share))
        elif here.type in (kind, document.get("type")) and _agrees(here.data, visible):
            yield Step("storage", name, Action.KEEP)
        else:
            yield Step("storage", name, Action.SKIP, f"another storage of this name is here: {here.type}")


def _converted(document: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | str:
    """Return type and data of a storage as ours, or why it cannot be one of ours."""
    kind, data = document.get("type"), {key: value for key, value in mapping(document.get("data")).items() if value}
    if kind == "nfs":
        options = document.get("mountOptions")
        joined = ",".join(words(options)) if isinstance(options, list) else options
        return "nfs", {**data, **({"mountOptions": joined} if joined else {})}
    if kind == "samba":
        return "smb", data
    if kind == "azureFile":
        if not all(key in data for key in ("shareName", "accountName", "accountKey")):
            return "its account name and key are not known; export the secret of its volume, too"
        account = data["accountName"]
        address = f"//{account}.file.core.windows.net/{data['shareName']}"
        return "smb", {"address": address, "username": account, "password": data["accountKey"]}
    if kind == "azureBlob":
        if "accountName" not in data:
            return "its account name and key are not known; export the secret of its volume, too"
        return "azureBlob", data
    return f"OpenPAI does not say what it is (type {kind}); add it with: pai storage add NAME claim claim=VOLUME-CLAIM"


def _agrees(here: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether a storage here has the definition that is wanted; an SMB address is stored in its parts."""
    wanted = dict(wanted)
    if address := str(wanted.pop("address", "")):
        server, _, rest = address.removeprefix("//").partition("/")
        share, _, path = rest.partition("/")
        wanted |= {"server": server, "share": share, **({"path": path} if path.strip("/") else {})}
    return all(str(here.get(key, "")).strip("/") == str(value).strip("/") for key, value in wanted.items())


def _adding_storage(name: str, kind: str, data: Mapping[str, Any], is_read_only: bool, share: bool) -> Work:
    return lambda pai: pai.add_storage(name, kind, data, read_only=is_read_only, share=share)


def _virtual_clusters(source: Source, present: Present) -> Iterator[Step]:
    for machine in sorted({*source.machines} - present.nodes):
        yield Step("node", machine, Action.SKIP, "it is in layout.yaml and no node here; add it before the cells")
    if source.hived:
        yield _cells(source, present)
        return
    for name, document in sorted(source.virtual_clusters.items()):
        if name in present.virtual_clusters:
            yield Step("virtual cluster", name, Action.KEEP)
            continue
        gpus = mapping(mapping(document).get("resourcesTotal")).get("gpu")
        amount = f"{gpus:g} GPUs" if isinstance(gpus, int | float) and gpus else "1 node"
        detail = f'REST does not show its cells; give --config FILE, or: pai vc set {name} "{amount}"'
        yield Step("virtual cluster", name, Action.SKIP, detail)


def _cells(source: Source, present: Present) -> Step:
    name = ", ".join(sorted(_configured(source.hived))) or "none"
    try:
        wanted = _cells_of(source.hived)
    except ValueError as error:
        return Step("virtual clusters", name, Action.SKIP, f"HiveD's configuration cannot be read: {error}")
    if wanted == _cells_of(present.hived):
        return Step("virtual clusters", name, Action.KEEP)
    nodes = _nodes_of(wanted["physicalCluster"])
    missing = sorted(nodes - present.nodes)
    detail = "replaces the guarantees of all virtual clusters by HiveD's configuration"
    if missing:
        shown = f"{', '.join(missing[:5])}{' ...' if len(missing) > 5 else ''}"
        detail += f"; {len(missing)} of its {len(nodes)} nodes are not here: {shown}"
    return Step("virtual clusters", name, Action.CHANGE, detail, lambda pai: pai.configure(hived=source.hived))


def _cells_of(text: str) -> Any:
    document = mapping(load_yaml(text) if text else {})
    return {key: document.get(key) for key in ("physicalCluster", "virtualClusters")}


def _nodes_of(physical: Any) -> set[str]:
    """Return the names of the nodes of HiveD's cells, as far as they are given."""
    found: set[str] = set()
    types = mapping(mapping(physical).get("cellTypes"))
    left = [(mapping(cell), mapping(cell).get("cellType")) for cell in listing(mapping(physical).get("physicalCells"))]
    while left:
        cell, kind = left.pop()
        about = mapping(types.get(str(kind)))
        if about.get("isNodeLevel"):
            found.add(str(cell.get("cellAddress")))
        else:
            left += [(mapping(child), about.get("childCellType")) for child in listing(cell.get("cellChildren"))]
    return found


def _configured(hived: str) -> frozenset[str]:
    try:
        found = _cells_of(hived).get("virtualClusters")
    except ValueError:
        return frozenset()
    return frozenset(map(str, found)) if isinstance(found, Mapping) else frozenset()


def _groups(source: Source, present: Present, storages: set[str], clusters: frozenset[str]) -> Iterator[Step]:
    for name, document in sorted(source.groups.items()):
        acls = acls_of(document)
        granted, missing_vcs = _split(acls.get("virtualClusters"), clusters)
        mounted, missing_storages = _split(acls.get("storageConfigs"), storages)
        lost = [f"virtual cluster {vc}" for vc in missing_vcs] + [f"storage {one}" for one in missing_storages]
        without = f"; without what is not here: {', '.join(lost)}" if lost else ""
        is_admin = bool(acls.get("admin"))
        here = present.groups.get(name)
        if not GROUP_NAME.fullmatch(name):
            yield Step("group", name, Action.SKIP, "its name has characters that names here may not have")
        elif here is None:
            grants = [*(["administrators"] if is_admin else []), *granted, *mounted]
            detail = f"grants {', '.join(grants) or 'nothing'}{without}"
            yield Step("group", name, Action.ADD, detail, _adding_group(name, document, is_admin, granted, mounted))
        else:
            yield _more_for_group(here, granted, mounted, is_admin, without)


def _split(names: Any, known: frozenset[str] | set[str]) -> tuple[list[str], list[str]]:
    found = words(names)
    return [name for name in found if name in known], [name for name in found if name not in known]


def _adding_group(
    name: str, document: Mapping[str, Any], is_admin: bool, clusters: Sequence[str], storages: Sequence[str]
) -> Work:
    description, external = str(document.get("description") or ""), str(document.get("externalName") or "")

    def add(pai: Client) -> None:
        # The group of a virtual cluster was created with it.
        is_here = name in {group.name for group in pai.groups()}
        write = pai.change_group if is_here else pai.add_group
        write(
            name,
            description=description,
            external_name=external,
            is_admin=is_admin,
            virtual_clusters=clusters,
            storages=storages,
        )

    return add


def _more_for_group(
    here: Group, clusters: Sequence[str], storages: Sequence[str], is_admin: bool, without: str
) -> Step:
    more_vcs = [vc for vc in clusters if vc not in here.virtual_clusters and not here.is_admin]
    more_storages = [name for name in storages if name not in here.storages]
    becomes_admin = is_admin and not here.is_admin
    if not (more_vcs or more_storages or becomes_admin):
        return Step("group", here.name, Action.KEEP, without.removeprefix("; "))
    grants = [*(["administrators"] if becomes_admin else []), *more_vcs, *more_storages]

    def change(pai: Client) -> None:
        pai.change_group(
            here.name,
            is_admin=True if becomes_admin else None,
            virtual_clusters=[*here.virtual_clusters, *more_vcs] if more_vcs else None,
            storages=[*here.storages, *more_storages] if more_storages else None,
        )

    return Step("group", here.name, Action.CHANGE, f"grants also {', '.join(grants)}{without}", change)


def _users(source: Source, present: Present, groups: set[str], passwords: Mapping[str, str]) -> Iterator[Step]:
    private: dict[str, int] = {}
    for name, document in sorted(source.users.items()):
        extension = mapping(document.get("extension"))
        for key in _PRIVATE:
            private[key] = private.get(key, 0) + bool(extension.get(key))
        admins = {ADMIN_GROUP, *(group for group, one in source.groups.items() if acls_of(one).get("admin"))}
        listed, unknown = _split(document.get("grouplist"), groups)
        is_admin = bool(document.get("admin")) or any(group in admins for group in listed)
        wanted = [group for group in listed if group not in (DEFAULT, ADMIN_GROUP)]
        without = f"; without groups that do not exist: {', '.join(unknown)}" if unknown else ""
        if not USER_NAME.fullmatch(name):
            yield Step("user", name, Action.SKIP, "names here are letters, digits, _ . - and do not end with a dot")
        elif (here := present.users.get(name)) is None:
            role = "administrator" if is_admin else "user"
            detail = f"{role}, groups {', '.join(wanted) or 'none'}{without}"
            work = _adding_user(name, document, extension, is_admin, wanted, passwords)
            yield Step("user", name, Action.ADD, detail, work, needs_password=True)
        else:
            yield _more_for_user(here, document, is_admin, wanted, without)
    for key, count in private.items():
        if count:
            reason = f"{_PRIVATE[key]} of {count} users: secrets that others could have read are not carried over"
            yield Step("secret", key, Action.SKIP, reason)
    if source.users:
        yield Step("secret", "passwords", Action.SKIP, "kept as hashes that cannot be read; new users get new ones")
        yield Step("secret", "tokens", Action.SKIP, "users create new ones: pai token create")


def _adding_user(
    name: str,
    document: Mapping[str, Any],
    extension: Mapping[str, Any],
    is_admin: bool,
    groups: Sequence[str],
    passwords: Mapping[str, str],
) -> Work:
    def add(pai: Client) -> None:
        pai.add_user(name, passwords[name], email=str(document.get("email") or ""), is_admin=is_admin, groups=groups)
        if keys := extension.get("sshKeys"):
            pai.change_user(name, extension={"sshKeys": keys})

    return add


def _more_for_user(
    here: User, document: Mapping[str, Any], is_admin: bool, wanted: Sequence[str], without: str
) -> Step:
    more = [group for group in wanted if group not in here.groups]
    email = "" if here.email else str(document.get("email") or "")
    becomes_admin = is_admin and not here.is_admin
    if not (more or email or becomes_admin):
        return Step("user", here.name, Action.KEEP, without.removeprefix("; "))

    def change(pai: Client) -> None:
        if email or becomes_admin:
            pai.change_user(here.name, email=email or None, is_admin=True if becomes_admin else None)
        for group in more:
            pai.add_member(group, here.name)

    parts = [*(["administrator"] if becomes_admin else []), *([f"e-mail {email}"] if email else [])]
    parts += [f"groups {', '.join(more)}"] if more else []
    return Step("user", here.name, Action.CHANGE, f"gets {'; '.join(parts)}{without}", change)
