"""Sweeps: `extras.sweep` of a job file has a matrix of parameters, and makes a job for each combination.

The file is submitted once. Each of its jobs is named NAME-1, NAME-2 and so on, has its combination as `parameters`, and
in `extras.sweep` the sweep it belongs to, its number and its combination.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from openpai.protocol.errors import Fault, InvalidProtocol
from openpai.protocol.findings import Finding
from openpai.protocol.job import JobSpec
from openpai.protocol.spelling import nearest
from openpai.protocol.wording import listed

SWEEP_JOBS_MAX: Final = 1000
SWEEP_NAME_MAX: Final = 240
MARKET_TAG: Final = "market:"
"""How the tag of a job begins that was submitted from an item of the marketplace; the item's name follows."""
SWEEP_TAG: Final = "sweep:"
"""Jobs of a sweep have a tag with this and the name of the sweep; users cannot set or remove such tags."""
LATER_TAG: Final = "sweep-job"
"""All jobs of a sweep but the first have this tag, so that a list can show each sweep once."""


@dataclass(frozen=True, slots=True)
class Membership:
    """What a job of a sweep says of it."""

    sweep: str
    number: int
    count: int
    parameters: Mapping[str, Any]
    max_running: int = 0
    """0 for no limit."""
    digest: str = ""
    """The digest of the submitted file, by which a repeated submission is recognised."""

    def as_extra(self) -> dict[str, Any]:
        """Return it as `extras.sweep`."""
        return {
            "name": self.sweep,
            "number": self.number,
            "count": self.count,
            "parameters": dict(self.parameters),
            **({"maxRunning": self.max_running} if self.max_running else {}),
            "digest": self.digest,
        }


def membership_of(extras: Mapping[str, Any]) -> Membership | None:
    """Return the sweep that a stored job belongs to."""
    found = extras.get("sweep")
    if not isinstance(found, Mapping) or not isinstance(found.get("name"), str):
        return None
    parameters = found.get("parameters")
    return Membership(
        found["name"],
        int(found.get("number") or 0),
        int(found.get("count") or 0),
        parameters if isinstance(parameters, Mapping) else {},
        int(found.get("maxRunning") or 0),
        str(found.get("digest") or ""),
    )


def tags_of(membership: Membership) -> tuple[str, ...]:
    """Return the tags of a job of a sweep."""
    return (f"{SWEEP_TAG}{membership.sweep}", *((LATER_TAG,) if membership.number > 1 else ()))


def sweep_in(tags: Iterable[str]) -> str:
    """Return the name of the sweep that a job with these tags belongs to, empty for a job of its own."""
    return next((tag.removeprefix(SWEEP_TAG) for tag in tags if tag.startswith(SWEEP_TAG)), "")


def is_reserved(tag: str) -> bool:
    """Return whether a tag says that a job belongs to a sweep, or what it was made from."""
    return tag.startswith((SWEEP_TAG, MARKET_TAG)) or tag == LATER_TAG


def is_sweep(spec: JobSpec) -> bool:
    """Return whether a file describes a sweep, not one job."""
    found = spec.extras.get("sweep")
    return isinstance(found, Mapping) and "matrix" in found


def without_sweep(spec: JobSpec) -> JobSpec:
    """Return a job that belongs to no sweep, such as a clone of one that does."""
    if "sweep" not in spec.extras:
        return spec
    return replace(spec, extras={key: value for key, value in spec.extras.items() if key != "sweep"})


def as_sent(spec: JobSpec, as_sweep: str | None) -> JobSpec:
    """Return a sweep with its digest, or a job that belongs to none; raise InvalidProtocol for the other kind."""
    if as_sweep is None:
        if is_sweep(spec):
            message = "makes this file a sweep, not one job"
            raise InvalidProtocol((Fault("extras.sweep.matrix", message, None, "send it to /api/v2/sweeps"),))
        return without_sweep(spec)
    if not is_sweep(spec):
        raise InvalidProtocol((Fault("extras.sweep", "has no matrix", None, "values of each parameter"),))
    return replace(spec, extras={**spec.extras, "sweep": {**spec.extras["sweep"], "digest": as_sweep}})


def sweep_faults(spec: JobSpec) -> Iterator[Finding]:
    """Yield why the matrix of a sweep cannot be carried out; nothing for a job."""
    if not is_sweep(spec):
        found = spec.extras.get("sweep")
        # A stored job of a sweep has the name of it.
        if isinstance(found, Mapping) and not isinstance(found.get("name"), str):
            yield Finding(("extras", "sweep"), "has no matrix", "values of each parameter, as in matrix: {lr: [1, 2]}")
        return
    where = ("extras", "sweep", "matrix")
    matrix: Mapping[str, Any] = spec.extras["sweep"]["matrix"]
    if len(spec.name) > SWEEP_NAME_MAX:
        message = "is too long for a sweep, whose jobs add a number"
        yield Finding(("name",), message, f"{SWEEP_NAME_MAX} characters")
    count = math.prod(map(len, matrix.values()))
    if count > SWEEP_JOBS_MAX:
        sizes = " x ".join(f"{len(values)} {name}" for name, values in list(matrix.items())[:10])
        yield Finding(where, f"makes {count:,} jobs ({sizes})", f"at most {SWEEP_JOBS_MAX:,} jobs in a sweep")
    for name, values in matrix.items():
        if name not in spec.parameters:
            near = nearest(name, spec.parameters)
            yield Finding((*where, name), "is no parameter of the job", listed(spec.parameters) or "none", near or "")
        seen = {(type(value), value) for value in values}
        if len(seen) < len(values):
            yield Finding((*where, name), "has the same value twice", "different values")


def jobs_of(spec: JobSpec) -> Iterator[JobSpec]:
    """Yield the jobs of a sweep, in which `sweep_faults` finds none."""
    about = spec.extras["sweep"]
    matrix: Mapping[str, Any] = about["matrix"]
    count, digest = math.prod(map(len, matrix.values())), str(about.get("digest") or "")
    for number, values in enumerate(itertools.product(*matrix.values()), 1):
        chosen = dict(zip(matrix, values, strict=True))
        member = Membership(spec.name, number, count, chosen, int(about.get("maxRunning") or 0), digest)
        yield replace(
            spec,
            name=f"{spec.name}-{number}",
            parameters={**spec.parameters, **chosen},
            extras={**spec.extras, "sweep": member.as_extra()},
        )
