"""Which namespaces are served: as which users of the platform, and in which virtual clusters.

What the file does not allow is refused. An annotation of a Framework only chooses among what its namespace is allowed,
so the right to create Frameworks in a namespace is the right to submit jobs as each of its users.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from openpai.frameworks.objects import Framework
from openpai.protocol.errors import BadConfiguration, Refused

USER: Final = "openpai/user"
VIRTUAL_CLUSTER: Final = "openpai/virtual-cluster"
GANG: Final = "openpai/gang-allocation"


@dataclass(frozen=True, slots=True)
class Grant:
    """What Frameworks of one namespace may use."""

    users: Mapping[str, Path]
    """Users, with the file that holds a token of each; the first is the default."""
    virtual_clusters: tuple[str, ...]
    """The first is the default."""

    def user_of(self, framework: Framework) -> str:
        """Return the user whose job a Framework becomes; raise Refused for one that is not allowed."""
        return _chosen(framework, USER, tuple(self.users), "user")

    def virtual_cluster_of(self, framework: Framework) -> str:
        """Return the virtual cluster of a Framework's job; raise Refused for one that is not allowed."""
        return _chosen(framework, VIRTUAL_CLUSTER, self.virtual_clusters, "virtual cluster")


def _chosen(framework: Framework, annotation: str, allowed: tuple[str, ...], noun: str) -> str:
    chosen = framework.metadata.annotation(annotation) or allowed[0]
    if chosen in allowed:
        return chosen
    raise Refused(
        "ForbiddenUserError",
        f"annotation {annotation}: {noun} {chosen[:63]!r} is not allowed in namespace {framework.namespace}",
        f"choose {' or '.join(allowed)}, or ask an administrator of the platform to allow it",
    )


def read_settings(text: str, place: Path) -> dict[str, Grant]:
    """Return what each namespace may use. Files are relative to `place`."""
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise BadConfiguration(f"the file is not YAML: {error}", "correct it") from error
    namespaces = _mapping(document, "the file", {"namespaces"}).get("namespaces")
    found = {
        str(name): _grant(value, f"namespaces.{name}", place)
        for name, value in _mapping(namespaces, "namespaces").items()
    }
    _check_tokens(found)
    return found


def _grant(value: Any, path: str, place: Path) -> Grant:
    keys = _mapping(value, path, {"users", "virtualClusters"})
    users = _mapping(keys.get("users"), f"{path}.users")
    clusters = keys.get("virtualClusters", ["default"])
    if not isinstance(clusters, list) or not clusters or not all(isinstance(name, str) for name in clusters):
        raise BadConfiguration(f"{path}.virtualClusters is not a list of names", "list at least one virtual cluster")
    for user, file in users.items():
        if not isinstance(user, str) or not isinstance(file, str):
            raise BadConfiguration(f"{path}.users.{user} is not a file name", "name the file that holds a token")
    return Grant({user: place / file for user, file in users.items()}, tuple(clusters))


def _check_tokens(grants: Mapping[str, Grant]) -> None:
    files: dict[str, Path] = {}
    for name, grant in grants.items():
        for user, file in grant.users.items():
            if files.setdefault(user, file) != file:
                message = f"namespaces.{name}.users.{user}: {file} is not the token of namespaces before"
                raise BadConfiguration(message, "give each user one token file")


def _mapping(value: Any, path: str, known: set[str] | None = None) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping) or not value:
        raise BadConfiguration(f"{path} is not a mapping, or is empty", "docs/frameworks.md shows an example")
    if known is not None and (unknown := sorted(map(str, value.keys() - known))):
        raise BadConfiguration(f"{path}: unknown key {unknown[0]!r}", f"keys are {', '.join(sorted(known))}")
    return value
