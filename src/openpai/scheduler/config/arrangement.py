"""Derives the scheduler's configuration from the promises and the nodes that exist.

Promises are planned over the nodes that the backend reports. If these are too few, absent nodes count too, as bad
hardware: a promise survives a broken node. A promise that cannot be kept even so is dropped, the latest first, and
reported as a problem. A whole configuration in HiveD's format is used as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from openpai.protocol.errors import Refused
from openpai.protocol.job import DEFAULT_VIRTUAL_CLUSTER, VIRTUAL_CLUSTER_NAME
from openpai.protocol.wording import cut
from openpai.scheduler.config.model import HivedConfig
from openpai.scheduler.config.planning import Nodes, plan
from openpai.scheduler.config.promises import Promise, promises_in
from openpai.scheduler.config.reading import read_config

LISTED_MAX: Final = 10
NAME_SHOWN_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Guarantees:
    """What administrators set: promises, or a whole configuration in HiveD's format."""

    promises: tuple[Promise, ...] = ()
    config: HivedConfig | None = None
    text: str | None = ""
    """The promises as they were written; None for a whole configuration."""

    @property
    def virtual_clusters(self) -> frozenset[str]:
        """Return the virtual clusters that are named, and `default`."""
        named = (
            self.config.virtual_clusters if self.config is not None else [one.virtual_cluster for one in self.promises]
        )
        return frozenset({DEFAULT_VIRTUAL_CLUSTER, *named})


def guarantees_in(body: Mapping[str, Any] | None) -> Guarantees:
    """Read a stored setting. Raises Refused BadConfigurationError."""
    text = promised_text(body)
    if body is not None and text is None:
        return Guarantees(config=read_config(body["hived"]), text=None)
    return Guarantees(promises_in(text), text=text)


def promised_text(body: Mapping[str, Any] | None) -> str | None:
    """Return the promises of a stored setting as they were written; None for a whole configuration."""
    if body is None or body.get("hived") is not None:
        return "" if body is None else None
    # Version 0.1 stored them under another key.
    text: str | None = body.get("promises", body.get("wishes"))
    return text or ""


def stored(wanted: Guarantees) -> dict[str, Any]:
    """Return the setting that `guarantees_in` reads."""
    return {"promises": wanted.text} if wanted.config is None else {"hived": wanted.config.text}


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The configuration in force, and which promises it keeps."""

    config: HivedConfig | None = None
    """None while there is no node, so nothing can be promised."""
    virtual_clusters: frozenset[str] = frozenset()
    unkept: frozenset[str] = frozenset()
    """Virtual clusters that have less than they were promised, or nothing."""
    needed: frozenset[str] = frozenset()
    """Absent nodes that promises count on."""
    problems: tuple[str, ...] = ()
    demoted: tuple[str, ...] = ()
    """Gangs that lost their guarantee when this came into force."""

    @property
    def text(self) -> str:
        """Return the configuration in HiveD's format; empty when there is none."""
        return self.config.text if self.config is not None else ""

    def pins_of(self, virtual_cluster: str) -> tuple[str, ...]:
        """Return the names of a virtual cluster's pinned cells."""
        spec = self.config.virtual_clusters.get(virtual_cluster) if self.config is not None else None
        return spec.pinned if spec is not None else ()


def check(wanted: Guarantees, nodes: Nodes) -> None:
    """Raise Refused BadConfigurationError, with every fault, for a setting that these nodes cannot keep."""
    _check_names(wanted)
    if wanted.config is None and nodes:
        plan(nodes, _with_rest(wanted.promises))


def _check_names(wanted: Guarantees) -> None:
    """Refuse names of virtual clusters that URLs and groups cannot use."""
    for name in sorted(wanted.virtual_clusters):
        if not re.fullmatch(VIRTUAL_CLUSTER_NAME, name):
            message = f"{cut(name, NAME_SHOWN_MAX)!r} cannot be the name of a virtual cluster"
            advice = "use up to 64 letters, digits, dots, dashes, blanks or _, starting with a letter or a digit"
            raise Refused("BadConfigurationError", message, advice)


def arrange(wanted: Guarantees, seen: Nodes, absent: Nodes) -> Arrangement:
    """Return the configuration that follows from what is guaranteed and the nodes."""
    if wanted.config is not None:
        return _as_written(wanted.config, seen)
    promises = _with_rest(wanted.promises)
    if not seen and not absent:
        return Arrangement(virtual_clusters=frozenset(promise.virtual_cluster for promise in promises))
    planned = _planned(seen, promises) if seen else None
    if planned is not None:
        return planned
    if absent and (planned := _planned([*seen, *absent], promises)) is not None:
        names = [node.name for node, _ in absent]
        message = f"promises count on absent nodes, which are treated as bad hardware: {_listed(names)}"
        return replace(planned, needed=frozenset(names), problems=(message,))
    return _what_can_be_kept([*seen, *absent], promises, frozenset(node.name for node, _ in absent))


def _as_written(config: HivedConfig, seen: Nodes) -> Arrangement:
    named = {name for chain in config.chains.values() for name in chain.nodes}
    present = [node.name for node, _ in seen]
    unused = [name for name in present if name not in named]
    away = sorted(named.difference(present))
    problems = list(config.warnings)
    if unused:
        problems.append(f"the configuration does not name these nodes, so nothing runs on them: {_listed(unused)}")
    if away:
        problems.append(f"the configuration names absent nodes, which are treated as bad hardware: {_listed(away)}")
    return _arrangement(config, needed=frozenset(away), problems=tuple(problems))


def _planned(nodes: Nodes, promises: Sequence[Promise]) -> Arrangement | None:
    try:
        return _arrangement(plan(nodes, promises))
    except Refused:
        return None


def _what_can_be_kept(nodes: Nodes, promises: Sequence[Promise], absent: frozenset[str]) -> Arrangement:
    kept: list[Promise] = []
    problems: list[str] = []
    unkept: set[str] = set()
    for promise in promises:
        try:
            plan(nodes, [*kept, promise])
        except Refused as error:
            problems.append(f"a promise is not kept: {error.message}")
            unkept.add(promise.virtual_cluster)
        else:
            kept.append(promise)
    config = plan(nodes, kept, empty=unkept)
    return _arrangement(config, needed=absent, problems=tuple(problems), unkept=frozenset(unkept))


def _with_rest(promises: tuple[Promise, ...]) -> tuple[Promise, ...]:
    """Promise the rest to `default` unless it is promised already."""
    if any(promise.is_rest for promise in promises):
        return promises
    return (*promises, Promise(DEFAULT_VIRTUAL_CLUSTER, is_rest=True))


def _arrangement(config: HivedConfig, **more: Any) -> Arrangement:
    return Arrangement(config, frozenset(config.virtual_clusters), **more)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - LISTED_MAX
    return ", ".join([*names[:LISTED_MAX], *([f"and {more} more"] if more > 0 else [])])
