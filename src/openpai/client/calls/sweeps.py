"""Sweeps: many jobs of one file."""

from __future__ import annotations

from uuid import uuid4

from openpai.client import model
from openpai.client.calls.naming import Naming, segment
from openpai.client.calls_core import Call, asks, whole


class Sweeps(Naming):
    """Sweeps. `name` is `user~sweep`, or `sweep` for one's own."""

    @asks
    def submit_sweep(self, text: bytes | str, *, key: str | None = None) -> Call[model.SubmittedSweep]:
        """Submit a job for each combination in a file's `extras.sweep.matrix`: all of them, or none.

        A request that is sent several times because answers were lost makes one sweep; `key` names the request.
        """
        headers = {"Content-Type": "text/yaml", "Idempotency-Key": key or uuid4().hex}
        content = text.encode() if isinstance(text, str) else text
        read = whole(model.SubmittedSweep.read)
        return Call("POST", "/sweeps", read, content=content, headers=headers, is_repeatable=True)

    @asks
    def sweep(self, name: str) -> Call[model.Sweep]:
        """Return a sweep with its jobs, their parameters and progress."""
        return Call("GET", f"/sweeps/{segment(name, 'a sweep')}", whole(model.Sweep.read))
