"""From what administrators wish and the nodes there are to the configuration that the scheduler goes by.

Wishes are planned over the nodes that the backend sees. If these are too few, nodes that are away count too, as bad
hardware: a promise survives a broken node. What cannot be kept even so is dropped, the first wishes last, and told. A
whole configuration in HiveD's format is taken as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import yaml

from openpai.orchestrator.office import Arrangement
from openpai.ports.backend import NodeSeen
from openpai.ports.settings import NodeNote
from openpai.protocol.errors import Refused
from openpai.protocol.job import DEFAULT_VIRTUAL_CLUSTER, VIRTUAL_CLUSTER_NAME
from openpai.protocol.parsing import cut
from openpai.scheduler.config.model import HivedConfig
from openpai.scheduler.config.planning import Wish, plan, read_wishes
from openpai.scheduler.config.reading import read_config
from openpai.scheduler.model import Node

Machines = Sequence[tuple[Node, str]]
"""Nodes, each with its GPU model."""
LISTED_MAX: Final = 10
NAME_SHOWN_MAX: Final = 100


def seen_machines(nodes: Iterable[NodeSeen]) -> Machines:
    """Return the nodes that are there, by name, for planning."""
    found = sorted(nodes, key=lambda node: node.name)
    return [(Node(node.name, node.cpus, node.memory_mb, node.gpus), node.gpu_model) for node in found]


def absent_machines(notes: Iterable[NodeNote], there: Mapping[str, NodeSeen]) -> Machines:
    """Return the nodes that are remembered and not there, by name."""
    found = sorted((note for note in notes if note.name not in there), key=lambda note: note.name)
    return [(Node(note.name, note.cpus, note.memory_mb, note.gpus), note.gpu_model) for note in found]


def names_in(body: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the virtual clusters that a setting speaks of; `default` is always one."""
    names: set[str] = {DEFAULT_VIRTUAL_CLUSTER}
    if body is not None and body.get("hived") is not None:
        names |= set(read_config(body["hived"]).virtual_clusters)
    elif body is not None:
        names |= {wish.virtual_cluster for wish in wishes_in(body.get("wishes"))}
    return frozenset(names)


def wishes_in(text: str | None) -> tuple[Wish, ...]:
    """Return the wishes of a text, none for an empty one. Raises Refused BadConfigurationError."""
    if not (text or "").strip(" ,"):
        return ()
    try:
        return read_wishes(text or "")
    except Refused as error:
        raise Refused("BadConfigurationError", error.message, error.advice) from error


def check(body: Mapping[str, Any], machines: Machines) -> None:
    """Raise Refused BadConfigurationError, with every fault, for a setting that cannot be kept by these machines."""
    _check_names(body)
    if body.get("hived") is not None:
        return
    wishes = _with_rest(wishes_in(body.get("wishes")))
    if machines:
        read_config(plan(machines, wishes))


def _check_names(body: Mapping[str, Any]) -> None:
    """Raise for a virtual cluster that no address could name, and no group could be called after."""
    for name in sorted(names_in(body)):
        if not re.fullmatch(VIRTUAL_CLUSTER_NAME, name):
            told = f"{cut(name, NAME_SHOWN_MAX)!r} cannot be the name of a virtual cluster"
            advice = "use up to 64 letters, digits, dots, dashes, blanks or _, beginning with a letter or a digit"
            raise Refused("BadConfigurationError", told, advice)


def arrange(body: Mapping[str, Any] | None, seen: Machines, absent: Machines) -> Arrangement:
    """Return the configuration that follows from a setting and the nodes there are."""
    if body is not None and body.get("hived") is not None:
        return _as_written(body["hived"], seen)
    wishes = _with_rest(wishes_in(body.get("wishes") if body is not None else None))
    if not seen and not absent:
        return Arrangement(virtual_clusters=frozenset(wish.virtual_cluster for wish in wishes))
    planned = _planned(seen, wishes) if seen else None
    if planned is not None:
        return planned
    if absent and (planned := _planned([*seen, *absent], wishes)) is not None:
        names = [node.name for node, _ in absent]
        told = f"promises count on nodes that are away and stand for bad hardware: {_listed(names)}"
        return replace(planned, needed=frozenset(names), problems=(told,))
    return _what_can_be_kept([*seen, *absent], wishes, frozenset(node.name for node, _ in absent))


def _as_written(text: str, seen: Machines) -> Arrangement:
    config = read_config(text)
    named = {name for chain in config.chains.values() for name in chain.nodes}
    there = [node.name for node, _ in seen]
    unused = [name for name in there if name not in named]
    away = sorted(named.difference(there))
    problems = list(config.warnings)
    if unused:
        problems.append(f"the configuration does not name these nodes, and nothing runs on them: {_listed(unused)}")
    if away:
        problems.append(f"the configuration names nodes that are away and count as bad: {_listed(away)}")
    return _arrangement(config, text, needed=frozenset(away), problems=tuple(problems))


def _planned(machines: Machines, wishes: Sequence[Wish]) -> Arrangement | None:
    try:
        text = plan(machines, wishes)
    except Refused:
        return None
    return _arrangement(read_config(text), text)


def _what_can_be_kept(machines: Machines, wishes: Sequence[Wish], absent: frozenset[str]) -> Arrangement:
    kept: list[Wish] = []
    problems: list[str] = []
    unkept: set[str] = set()
    for wish in wishes:
        try:
            plan(machines, [*kept, wish])
        except Refused as error:
            problems.append(f"a promise is not kept: {error.message}")
            unkept.add(wish.virtual_cluster)
        else:
            kept.append(wish)
    text = _with_names(plan(machines, kept), unkept)
    return _arrangement(
        read_config(text), text, needed=absent, problems=tuple(problems), unkept=frozenset(unkept)
    )  # fmt: skip


def _with_rest(wishes: tuple[Wish, ...]) -> tuple[Wish, ...]:
    """Return the wishes with everything left for `default`, unless they say who gets it."""
    if any(wish.is_rest for wish in wishes):
        return wishes
    return (*wishes, Wish(DEFAULT_VIRTUAL_CLUSTER, is_rest=True))


def _with_names(text: str, names: Iterable[str]) -> str:
    document = yaml.safe_load(text)
    for name in sorted(names):
        document["virtualClusters"].setdefault(name, {"virtualCells": []})
    return yaml.safe_dump(document, sort_keys=False)


def _arrangement(config: HivedConfig, text: str, **more: Any) -> Arrangement:
    pins = {name: frozenset(cluster.pinned) for name, cluster in config.virtual_clusters.items()}
    return Arrangement(text, frozenset(config.virtual_clusters), pins, **more)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - LISTED_MAX
    return ", ".join([*names[:LISTED_MAX], *([f"and {more} more"] if more > 0 else [])])
