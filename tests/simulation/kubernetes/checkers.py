"""What must be true of a cluster: asked of the store's tables and of the containers that really run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from sqlite3 import Connection
from typing import Any

from openpai.lifecycle.model import AttemptKey, ExitReport
from tests.simulation.checkers import Checkers
from tests.simulation.kubernetes.machines import Container, Machines

KILLED = frozenset({0, 137, 143})


@dataclass(frozen=True)
class Seen:
    """An attempt that is in the cluster."""

    key: AttemptKey
    exit: ExitReport | None


class KubeCheckers(Checkers):
    """Looks at everything after each step."""

    def __init__(self, connection: Connection, machines: Machines, *, proof_only: bool) -> None:
        """`proof_only` is whether no task starts again elsewhere before its first container is certainly gone."""
        super().__init__(connection, _Truth(self, machines), machines.starts)  # type: ignore[arg-type]
        self.proof_only = proof_only
        self._machines = machines

    def is_given_up(self, one: Container) -> bool:
        """Return whether a container may run on beside a later attempt: its node fell silent, and was given up."""
        if one.is_unique or self.proof_only:
            return False
        report = self.report(one.key)
        return report is not None and report[1] in ("node_lost", "lost")

    def report(self, key: AttemptKey) -> list[Any] | None:
        """Return what the store says of the end of an attempt; None before it has ended."""
        query = (
            "SELECT report FROM task_attempts WHERE job = ? AND job_attempt = ? AND role = ? AND task_index = ?"
            " AND attempt = ?"
        )
        rows = self._rows(query, (key.job, key.job_attempt, key.role, key.index, key.task_attempt))
        return json.loads(rows[0][0]) if rows and rows[0][0] else None

    def _outcomes(self) -> Iterator[str]:
        yield from super()._outcomes()
        yield from (f"{one.key.path()} still runs on {one.node}" for one in self._machines.running())
        query = "SELECT job, job_attempt, role, task_index, attempt, report FROM task_attempts WHERE report IS NOT NULL"
        for *parts, text in self._rows(query):
            key = AttemptKey(*parts)
            code, reason, message, *_ = json.loads(text)
            yield from self._diagnosis(key, code, reason, message)

    def _diagnosis(self, key: AttemptKey, code: int, reason: str, message: str) -> Iterator[str]:
        """Compare how the store says that an attempt ended with what happened to it."""
        causes = self._machines.causes.get(key, set())
        really = self._machines.codes.get(key)
        if reason == "exited":
            if really is None and code not in KILLED:
                yield f"{key.path()} is said to have exited with {code}, and never ran to its end"
            if really is not None and really != code and not (causes or code in KILLED):
                yield f"{key.path()} exited with {really}, and {code} is written down ({message})"
        elif reason in ("lost", "node_lost", "evicted", "out_of_resources", "port_taken", "image_missing"):
            if reason not in causes and not (reason == "lost" and "node_lost" in causes):
                yield f"{key.path()} ended as {reason} ({message}), and what happened was {causes or 'nothing'}"
        elif reason not in ("absent", "stale_grant", "node_failed"):
            yield f"{key.path()} ended as {reason}: {message}"


class _Truth:
    """The cluster as the checkers of any backend ask for it."""

    def __init__(self, checkers: KubeCheckers, machines: Machines) -> None:
        self._checkers = checkers
        self._machines = machines

    def running(self) -> tuple[Container, ...]:
        """Return the containers that run, without those that were given up."""
        return tuple(one for one in self._machines.running() if not self._checkers.is_given_up(one))

    def observe(self) -> tuple[Seen, ...]:
        """Return the attempts that have a pod; one is over when its container is."""
        found = []
        for key, pod in self._machines.pods():
            is_over = pod["status"].get("phase") in ("Succeeded", "Failed") or not pod["spec"].get("nodeName")
            found.append(Seen(key, ExitReport(0) if is_over else None))
        return tuple(found)
