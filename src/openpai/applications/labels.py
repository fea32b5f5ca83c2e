"""The label of an application: its name, its task's index and its job's id, in one label of the DNS.

It says which application is meant without any state, also after its job has ended, and is never another one's.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final, NamedTuple

from openpai.ports.applications import PlacedApplication

_LABEL: Final = re.compile(r"([a-z](?:[a-z0-9-]{0,18}[a-z0-9])?)-([0-9a-f]{32})")


class Named(NamedTuple):
    """What a label says."""

    application: str
    job: str


def label_of(place: PlacedApplication) -> str:
    """Return the label of an application."""
    return f"{place.application.name}-{place.job}"


def named(label: str) -> Named | None:
    """Return what a label says; None for text that is no label."""
    found = _LABEL.fullmatch(label)
    return Named(found[1], found[2]) if found else None


def short(label: str) -> str:
    """Return a short name for what belongs to one application, such as its cookies."""
    return sha256(label.encode()).hexdigest()[:16]
