"""Sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openpai.client.model import reading as field
from openpai.client.model.reading import Answer, Document
from openpai.client.model.tasks import TaskProgress, as_progress


@dataclass(frozen=True, slots=True)
class SubmittedSweep(Answer):
    """A sweep whose jobs were all stored durably."""

    user: str = field.text("user")
    name: str = field.text("name")
    jobs: tuple[str, ...] = field.texts("jobs")
    warnings: tuple[str, ...] = field.texts("warnings")
    document: Document = field.whole()


@dataclass(frozen=True, slots=True)
class SweepJob(Answer):
    """A job of a sweep."""

    number: int = field.amount("number")
    name: str = field.text("name")
    state: str = field.text("state")
    parameters: Mapping[str, Any] = field.mapping("parameters")
    """Empty if one may not read the job file."""
    progress: TaskProgress | None = field.value("progress", convert=as_progress)
    document: Document = field.whole()


@dataclass(frozen=True, slots=True)
class Sweep(Answer):
    """A sweep with its jobs."""

    user: str = field.text("user")
    name: str = field.text("name")
    states: Mapping[str, Any] = field.mapping("states")
    """The number of jobs in each state."""
    max_running: int | None = field.number("maxRunning")
    jobs: tuple[SweepJob, ...] = field.parts(SweepJob, "jobs")
    document: Document = field.whole()
