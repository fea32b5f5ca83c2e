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

from openpai.orchestrator.leader import Arrangement
from openpai.ports.backend import NodeSeen
from openpai.ports.settings import NodeNote
from openpai.protocol.errors import Refused
from openpai.protocol.job import DEFAULT_VIRTUAL_CLUSTER, VIRTUAL_CLUSTER_NAME
from openpai.protocol.parsing import cut
from openpai.scheduler.config.model import HivedConfig
from openpai.scheduler.config.planning import Promise, plan, read_promises
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
        names |= {promise.virtual_cluster for promise in promises_in(promised_text(body))}
    return frozenset(names)


def promised_text(body: Mapping[str, Any] | None) -> str | None:
    """Return what a stored configuration promises, in words; version 0.1 had another key for it."""
    return None if body is None else body.get("promises", body.get("wishes"))


def promises_in(text: str | None) -> tuple[Promise, ...]:
    """Return the wishes of a text, none for an empty one. Raises Refused BadConfigurationError."""
    if not (text or "").strip(" ,"):
        return ()
    try:
        return read_promises(text or "")
    except Refused as error:
        raise Refused("BadConfigurationError", error.message, error.advice) from error


def check(body: Mapping[str, Any], machines: Machines) -> None:
    """Raise Refused BadConfigurationError, with every fault, for a setting that cannot be kept by these machines."""
    _check_names(body)
    if body.get("hived") is not None:
        return
    promises = _with_rest(promises_in(promised_text(body)))
    if machines:
        read_config(plan(machines, promises))


def _check_names(body: Mapping[str, Any]) -> None:
    """Raise for a virtual cluster that no address could name, and no group could be called after."""
    for name in sorted(names_in(body)):
        if not re.fullmatch(VIRTUAL_CLUSTER_NAME, name):
            message = f"{cut(name, NAME_SHOWN_MAX)!r} cannot be the name of a virtual cluster"
            advice = "use up to 64 letters, digits, dots, dashes, blanks or _, beginning with a letter or a digit"
            raise Refused("BadConfigurationError", message, advice)


def arrange(body: Mapping[str, Any] | None, seen: Machines, absent: Machines) -> Arrangement:
    """Return the configuration that follows from a setting and the nodes there are."""
    if body is not None and body.get("hived") is not None:
        return _as_written(body["hived"], seen)
    promises = _with_rest(promises_in(promised_text(body)))
    if not seen and not absent:
        return Arrangement(virtual_clusters=frozenset(promise.virtual_cluster for promise in promises))
    planned = _planned(seen, promises) if seen else None
    if planned is not None:
        return planned
    if absent and (planned := _planned([*seen, *absent], promises)) is not None:
        names = [node.name for node, _ in absent]
        message = f"promises count on nodes that are away and stand for bad hardware: {_listed(names)}"
        return replace(planned, needed=frozenset(names), problems=(message,))
    return _what_can_be_kept([*seen, *absent], promises, frozenset(node.name for node, _ in absent))


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


def _planned(machines: Machines, promises: Sequence[Promise]) -> Arrangement | None:
    try:
        text = plan(machines, promises)
    except Refused:
        return None
    return _arrangement(read_config(text), text)


def _what_can_be_kept(machines: Machines, promises: Sequence[Promise], absent: frozenset[str]) -> Arrangement:
    kept: list[Promise] = []
    problems: list[str] = []
    unkept: set[str] = set()
    for promise in promises:
        try:
            plan(machines, [*kept, promise])
        except Refused as error:
            problems.append(f"a promise is not kept: {error.message}")
            unkept.add(promise.virtual_cluster)
        else:
            kept.append(promise)
    text = _with_names(plan(machines, kept), unkept)
    return _arrangement(
        read_config(text), text, needed=absent, problems=tuple(problems), unkept=frozenset(unkept)
    )  # fmt: skip


def _with_rest(promises: tuple[Promise, ...]) -> tuple[Promise, ...]:
    """Return the wishes with everything left for `default`, unless they say who gets it."""
    if any(promise.is_rest for promise in promises):
        return promises
    return (*promises, Promise(DEFAULT_VIRTUAL_CLUSTER, is_rest=True))


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
