"""Finds what keeps the matrix of a sweep from being carried out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from openpai.protocol.findings import Finding
from openpai.protocol.job import JobSpec
from openpai.protocol.spelling import nearest
from openpai.protocol.sweeps import SWEEP_JOBS_MAX, SWEEP_NAME_MAX, is_sweep
from openpai.protocol.wording import listed


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
