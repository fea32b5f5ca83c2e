"""Marks of bad devices stay with the devices, also where these change their indices.

On a node whose kubelet chooses devices, a task may get others than the scheduler chose; the backend then exchanges the
indices of the two. An administrator marks the device that has an index at the time, so a mark follows its identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import structlog

from openpai.orchestrator.leader import Leader
from openpai.ports.backend import NodeSeen
from openpai.ports.cluster_settings import MARKED, NodeNote

log: Final = structlog.get_logger(__name__)


async def follow_marks(leader: Leader, seen: Mapping[str, NodeSeen], notes: dict[str, NodeNote]) -> dict[str, NodeNote]:
    """Return the notes with each mark at the index that its device has now, after storing what changed."""
    here = [note for note in notes.values() if note.bad_devices and note.name in seen]
    marked = [note for note in here if any(seen[note.name].devices)]
    setting = await leader.settings.setting(MARKED)
    known = dict(setting.body.get("nodes", {})) if setting is not None else {}
    if not marked and not known:
        return notes
    found: dict[str, dict[str, str]] = {}
    moved: list[NodeNote] = []
    for note in marked:
        devices = seen[note.name].devices
        places = _places(note.bad_devices, known.get(note.name, {}), devices)
        if places.keys() != note.bad_devices:
            was, now = sorted(note.bad_devices), sorted(places)
            log.info("marks of bad devices follow them", node=note.name, was=was, now=now)
            moved.append(replace(note, bad_devices=frozenset(places)))
        found[note.name] = {str(index): identity for index, identity in sorted(places.items()) if identity}
    # A node that is away keeps its marks.
    kept = {name: was for name, was in known.items() if name not in seen and name in notes and notes[name].bad_devices}
    if moved:
        await leader.settings.set_node_notes(tuple(moved), leader.epoch)
    if (after := {**kept, **found}) != known:
        now_ms, body = leader.clock.now_ms(), {"nodes": after}
        await leader.settings.set_setting(MARKED, body, by="", at_ms=now_ms, epoch=leader.epoch)
    return {**notes, **{note.name: note for note in moved}}


def _places(marks: frozenset[int], known: Mapping[str, str], devices: tuple[str, ...]) -> dict[int, str]:
    """Return the identity of each marked device by its index now; a device that is not there keeps its index."""
    index_of = {identity: index for index, identity in enumerate(devices) if identity}
    places = {index_of[was]: was for mark in marks if (was := known.get(str(mark), "")) in index_of}
    for mark in sorted(marks):
        was = known.get(str(mark), "")
        if was not in index_of:
            # Where a marked device took its index, it took that device's.
            index = mark if mark not in places else min(marks - places.keys())
            places[index] = was or (devices[index] if index < len(devices) else "")
    return places
