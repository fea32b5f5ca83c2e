"""The states of jobs and tasks, as the REST API, its clients and the command line name them."""

from __future__ import annotations

from typing import Final, Literal, get_args

State = Literal["FAILED", "RUNNING", "STOPPING", "WAITING", "STOPPED", "SUCCEEDED"]
STATES: Final[tuple[State, ...]] = get_args(State)
"""In the order of counts of states: what needs attention first."""
FINAL_STATES: Final[frozenset[str]] = frozenset({"FAILED", "STOPPED", "SUCCEEDED"})
