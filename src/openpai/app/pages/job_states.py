"""The page of job and task states, from the lifecycle's tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from openpai.app.pages.markdown import block, code, page, table
from openpai.lifecycle.model import JOB_FINAL, TASK_FINAL, JobPhase, TaskPhase
from openpai.lifecycle.states import JOB_STATES, TASK_STATES, State
from openpai.lifecycle.table import JOB_MOVES, TASK_MOVES, JobEvent, TaskEvent

_INTRO: Final = """\
A job, and each of its tasks, is in exactly one phase at any time. Phases change only along the arrows below: no
other code assigns one, and the database refuses other values. The REST API and the command line show a phase as the
state beside it, which is OpenPAI's word."""

_CHOICE: Final = """\
Where one row leads to several phases (a diamond in the picture), the verdict on the attempt decides: a job whose
attempt failed is tried again at once (queued), tried again later (backing_off), or has failed, as its retry counts and
the cause of the failure say."""

_Move = tuple[JobPhase | TaskPhase, JobEvent | TaskEvent, Sequence[JobPhase] | Sequence[TaskPhase]]


def job_states() -> str:
    """Return the page."""
    job_moves = [(phase, event, sorted(goals)) for (phase, event), goals in JOB_MOVES.items()]
    task_moves = [(phase, event, [goal]) for (phase, event), goal in TASK_MOVES.items()]
    task_rows = ([code(phase), event.value, code(goal)] for (phase, event), goal in TASK_MOVES.items())
    return page(
        "Job and task states",
        "`openpai/lifecycle/table.py`",
        _INTRO,
        "## A job",
        block(_diagram(JobPhase.QUEUED, job_moves, JOB_FINAL), "mermaid"),
        table(("Phase", "State in REST and CLI", "`subState`", "Final"), _phases(JOB_STATES.items(), JOB_FINAL)),
        table(("While it is", "and", "it becomes"), _job_rows()),
        _CHOICE,
        "## A task of the current job attempt",
        block(_diagram(TaskPhase.WAITING, task_moves, TASK_FINAL), "mermaid"),
        table(("Phase", "State in REST and CLI", "`subState`", "Final"), _phases(TASK_STATES.items(), TASK_FINAL)),
        table(("While it is", "and", "it becomes"), task_rows),
    )


def _diagram(first: str, moves: Iterable[_Move], final: frozenset[str]) -> str:
    """Return a state diagram; events between the same two phases share an arrow, goals to choose from a diamond."""
    message: dict[tuple[str, str], list[str]] = {}
    choices: dict[tuple[str, ...], str] = {}
    for phase, event, goals in moves:
        goal = goals[0] if len(goals) == 1 else choices.setdefault(tuple(goals), f"choice{len(choices) + 1}")
        message.setdefault((phase, goal), []).append(event.name.lower())
    lines = ["stateDiagram-v2", *(f"    state {name} <<choice>>" for name in choices.values())]
    lines += [f"    [*] --> {first}"]
    lines += [f"    {phase} --> {goal}: {', '.join(events)}" for (phase, goal), events in message.items()]
    lines += [f"    {name} --> {goal}" for goals, name in choices.items() for goal in goals]
    lines += [f"    {phase} --> [*]" for phase in sorted(final)]
    return "\n".join(lines)


def _phases(states: Iterable[tuple[JobPhase | TaskPhase, State]], final: frozenset[str]) -> Iterable[list[str]]:
    for phase, state in states:
        yield [code(phase), code(state.state), code(state.sub_state), "yes" if phase in final else ""]


def _job_rows() -> Iterable[list[str]]:
    for (phase, event), goals in JOB_MOVES.items():
        yield [code(phase), event.value, " or ".join(code(goal) for goal in JobPhase if goal in goals)]
