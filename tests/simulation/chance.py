"""What one seed decides: how large the cluster is, how bad its luck, and which jobs people send."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from openpai.backends.simulated.cluster import AT_ONCE, Faults
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport
from openpai.ports.backend import Action, LaunchTask, TaskSeen

FAILURES: Final = (ExitReason.LAUNCH_FAILED, ExitReason.IMAGE_MISSING, ExitReason.PORT_TAKEN)
LATE_MS: Final = (100, 1_000, 5_000, 20_000)
UNTIL: Final = ("succeeded", "failed", "ended", "ended")
CLUSTERS: Final = ("vision", "speech")
URGENCIES: Final = ("crit", "prod", "test", "oppo", "oppo")
COMMANDS: Final = (
    ("true", 3),
    ("sleep 0.2", 3),
    ("sleep 2", 5),
    ("sleep 9", 3),
    ("sleep 45", 1),
    ("sleep 1; exit 1", 2),
    ("sleep 3; exit 137", 0.2),
    ("sleep 0.5; exit $PAI_TASK_INDEX", 1),
    ("trap '' TERM; sleep 20", 1),
    ("trap 'sleep 4; exit 0' TERM; sleep 15", 1),
)


@dataclass(frozen=True, slots=True)
class Luck:
    """How likely each kind of trouble is in this seed; a kind that is switched off has weight 0."""

    servers: int
    nodes: int
    gpus: int
    jobs: int
    steps: int
    weights: dict[str, float]
    lost: float
    late: float
    double: float
    launch_failed: float
    virtual_clusters: int
    """How many there are beside `default`, at first and perhaps again later."""
    unique: float = 0.0
    """How likely a job says that none of its tasks may run twice at a time."""
    after: float = 0.0
    """How likely a job waits for others."""

    @classmethod
    def draw(cls, chance: Random) -> Luck:
        """Return the luck of a seed."""

        def often(weight: float) -> float:
            return weight if chance.random() < 0.6 else 0.0

        weights = {
            "kill a server": often(1.5),
            "freeze a server": often(1.5),
            "no answer": often(1.5),
            "kill a node": often(1.0),
            "break devices": often(0.5),
            "lose a task": often(1.0),
            "stop": often(3.0),
            "start": often(2.0),
            "change a node": often(1.0),
            "promise": often(1.0),
            "urgency": often(1.5),
            "limit": often(0.5),
        }
        return cls(
            servers=chance.choice((1, 2, 2)),
            nodes=chance.randint(1, 4),
            gpus=chance.choice((1, 2, 4)),
            jobs=chance.randint(3, 14),
            steps=chance.randint(120, 420),
            weights=weights,
            lost=often(0.08),
            late=often(0.15),
            double=often(0.1),
            launch_failed=often(0.05),
            virtual_clusters=chance.choice((0, 0, 1, 2)),
            after=often(0.4),
        )


class ChanceFaults(Faults):
    """A network that loses, delays and repeats messages, and nodes that fail to start tasks, until `is_calm`.

    It also keeps the book of starts, which nobody else writes.
    """

    def __init__(self, chance: Random, luck: Luck) -> None:
        self._chance = chance
        self._luck = luck
        self.is_calm = False
        self.starts: dict[AttemptKey, int] = {}
        self.judge: Callable[[Action], None] = lambda action: None
        """Hears every action that a server sends."""

    def delays_of_action(self, action: Action) -> Sequence[int]:
        """Return after how long, and how often, an action arrives."""
        self.judge(action)
        return self._delays()

    def delays_of_news(self, seen: TaskSeen) -> Sequence[int]:
        """Return after how long, and how often, news arrives."""
        return self._delays()

    def launch_failure(self, launch: LaunchTask) -> ExitReport | None:
        """Return how this launch fails; remember it if it does not."""
        if not self.is_calm and self._chance.random() < self._luck.launch_failed:
            # A conflict waits for minutes, so it is rare here.
            reason = self._chance.choices(FAILURES, (6, 3, 1))[0]
            return ExitReport(1, reason, "bad luck")
        self.starts[launch.key] = self.starts.get(launch.key, 0) + 1
        return None

    def _delays(self) -> Sequence[int]:
        if self.is_calm:
            return AT_ONCE
        dice = self._chance.random()
        if dice < self._luck.lost:
            return ()
        dice -= self._luck.lost
        if dice < self._luck.late:
            return (self._chance.randint(1, self._chance.choice(LATE_MS)),)
        dice -= self._luck.late
        if dice < self._luck.double:
            return (0, self._chance.randint(1, self._chance.choice(LATE_MS)))
        return AT_ONCE


def job_file(chance: Random, name: str, luck: Luck, others: Sequence[str] = ()) -> bytes:
    """Return a job file: one to three roles with their own sizes, policies and programs, perhaps after other jobs."""
    roles: dict[str, Any] = {f"r{number}": _role(chance, luck) for number in range(chance.choice((1, 1, 2, 3)))}
    document: dict[str, Any] = {
        "protocolVersion": 2,
        "name": name,
        "type": "job",
        "jobRetryCount": chance.choice((0, 0, 1, 2)),
        "prerequisites": [{"type": "dockerimage", "name": "i", "uri": "busybox"}],
        "taskRoles": roles,
    }
    if chance.random() < 0.4:
        document["extras"] = {"gangAllocation": False}
    if luck.virtual_clusters:
        _share(chance, document, luck)
    if luck.unique and chance.random() < luck.unique:
        document.setdefault("extras", {})["uniqueTasks"] = True
    if others and luck.after and chance.random() < luck.after:
        wanted = chance.sample(others, min(len(others), chance.choice((1, 1, 2))))
        after = [{"job": other, "until": chance.choice(UNTIL)} for other in wanted]
        document.setdefault("extras", {})["after"] = after
    if chance.random() < 0.1:
        document["secrets"] = {"key": "value"}
    return json.dumps(document).encode()


def _share(chance: Random, document: dict[str, Any], luck: Luck) -> None:
    """Give a job a virtual cluster, a priority, and perhaps a time limit."""
    extras = document.setdefault("extras", {})
    document["defaults"] = {"virtualCluster": chance.choice(("default", *CLUSTERS[: luck.virtual_clusters]))}
    if chance.random() < 0.6:
        hived: dict[str, Any] = {"jobPriorityClass": chance.choice(URGENCIES)}
        hived["lazyPreemptionEnable"] = chance.random() < 0.3
        extras["hivedScheduler"] = hived
    if chance.random() < 0.2:
        extras["timeLimitMinutes"] = chance.choice((1, 2, 60))


def promises_text(chance: Random, luck: Luck) -> str:
    """Return who is to be promised what; often more than there is."""
    promises = []
    for name in CLUSTERS[: luck.virtual_clusters]:
        nodes, gpus = chance.randint(0, luck.nodes), chance.randint(1, luck.gpus * 2)
        promises.append(f"{name}: {nodes} nodes" if chance.random() < 0.5 else f"{name}: {gpus} GPUs")
    return ", ".join(promises)


def _role(chance: Random, luck: Luck) -> dict[str, Any]:
    instances = chance.choice((1, 1, 2, 3))
    commands, weights = zip(*COMMANDS, strict=True)
    role: dict[str, Any] = {
        "instances": instances,
        "dockerImage": "i",
        "taskRetryCount": chance.choice((0, 0, 1, 2)),
        "resourcePerInstance": {
            "cpu": chance.choice((1, 8)),
            "memoryMB": chance.choice((64, 4096)),
            "gpu": chance.randint(0, min(2, luck.gpus)),
        },
        "commands": [chance.choices(commands, weights)[0]],
    }
    if chance.random() < 0.5:
        role["resourcePerInstance"]["ports"] = {"ssh": 1, "http": chance.randint(1, 2)}
    if chance.random() < 0.5:
        completion = {"minFailedInstances": chance.choice((-1, 1, instances))}
        completion["minSucceededInstances"] = chance.choice((-1, 1, instances))
        role["completion"] = completion
    return role
