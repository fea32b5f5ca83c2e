"""What an alert may do: which actions there are, what each needs of an alert, and how often a rule may act.

An action has a key, under which it is recorded before it is carried out, so that it happens once however often the
server is restarted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
ALL_PER_HOUR: Final = 100
"""How many actions all rules together may carry out in an hour."""
SAME_PER_DAY: Final = 3
"""How often a rule may do the same to the same thing in a day: more is a loop of an action that causes its alert."""


@dataclass(frozen=True, slots=True)
class ActionKind:
    """An action: the labels that name its target, and its argument."""

    needs: tuple[str, ...]
    argument: str = ""
    """What its argument is; empty if it takes none."""
    pattern: str = ""
    example: str = ""


ACTIONS: Final[Mapping[str, ActionKind]] = {
    "tag": ActionKind(("job_name",), "a tag", r"[\w.:/ -]{1,64}", "low-use"),
    "stop": ActionKind(("job_name",)),
    "requeue": ActionKind(("job_name",)),
    "exclude": ActionKind(("job_name", "node_name")),
    "cordon": ActionKind(("node_name",)),
    "mark-bad": ActionKind(("node_name", "minor_number")),
    "command": ActionKind((), "the name of a command of the server's configuration", r"[a-z0-9][a-z0-9._-]{0,63}",
                          "page-me"),
    "webhook": ActionKind((), "the name of a channel", r"[a-z0-9][a-z0-9._-]{0,63}", "robot"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """An action of a rule."""

    kind: str
    argument: str = ""

    @classmethod
    def read(cls, text: str) -> ActionSpec:
        """Return the action that `str` wrote."""
        kind, _, argument = text.partition(" ")
        return cls(kind, argument)

    def __str__(self) -> str:
        return f"{self.kind} {self.argument}".rstrip()

    @property
    def is_on_job(self) -> bool:
        """Return whether its target is a job, as `owner~name`."""
        return self.kind in ACTIONS and "job_name" in ACTIONS[self.kind].needs


@dataclass(frozen=True, slots=True)
class ActionCause:
    """The alert that leads to an action, and the job that it was about when the action was planned."""

    labels: Mapping[str, str] = field(default_factory=dict)
    summary: str = ""
    job: str = ""
    """The id of the job; empty if the alert is about none that runs."""
    attempt: int | None = None

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> ActionCause:
        """Return the cause that `as_dict` wrote."""
        return cls(**document)

    def as_dict(self) -> dict[str, Any]:
        """Return it as data for JSON, without a job if there is none."""
        job = {"job": self.job, "attempt": self.attempt} if self.job else {}
        return {"labels": dict(self.labels), "summary": self.summary, **job}


@dataclass(frozen=True, slots=True)
class Done:
    """An action of the past, as far as limits need it."""

    rule: str
    action: ActionSpec
    target: str
    at_ms: int


def target_of(spec: ActionSpec, labels: Mapping[str, str]) -> str:
    """Return what an action is about; raise ValueError with the label that the alert lacks."""
    found = []
    for label in ACTIONS[spec.kind].needs:
        if not labels.get(label):
            raise ValueError(f"the alert has no label {label!r}, which {spec.kind} needs; keep it in `by (...)`")
        found.append(labels[label])
    return "/".join(found)


def limit(rule: str, spec: ActionSpec, target: str, per_hour: int, done: Iterable[Done], now_ms: int) -> str:
    """Return why an action may not be carried out now; empty if it may."""
    recent = [each for each in done if abs(now_ms - each.at_ms) < DAY_MS]
    same = sum((each.rule, each.action, each.target) == (rule, spec, target) for each in recent)
    if same >= SAME_PER_DAY:
        return f"rule {rule} did this to {target or 'the platform'} {same} times within a day: it seems to be a loop"
    last_hour = [each for each in recent if abs(now_ms - each.at_ms) < HOUR_MS]
    own = sum(each.rule == rule for each in last_hour)
    if own >= per_hour:
        return f"rule {rule} acted {own} times within an hour, and actionsPerHour is {per_hour}"
    if len(last_hour) >= ALL_PER_HOUR:
        return f"all rules together acted {len(last_hour)} times within an hour; {ALL_PER_HOUR} are allowed"
    return ""
