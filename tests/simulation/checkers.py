"""What must be true after every single step, asked of the store's tables and of the simulated cluster themselves.

Nothing here uses the code it judges: tables are read with plain SQL, and the cluster says what really runs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from sqlite3 import Connection
from typing import Any, Final

from openpai.lifecycle.model import AttemptKey
from openpai.ports.backend import Action, ForgetTask, LaunchTask
from tests.faulty_cluster import FaultyCluster

FREE_RETRIES_MAX: Final = 10
FINAL: Final = ("succeeded", "failed", "stopped")
MEETS: Final = {"succeeded": ("succeeded",), "failed": ("failed",), "ended": FINAL}
"""How a job may have ended for one that waits for it."""
TIME_LIMIT: Final = -1004
"""How a job ends that ran for as long as its time limit allows: it failed, whatever its tasks did."""


class Violation(AssertionError):
    """A promise does not hold."""


@dataclass(slots=True)
class Promises:
    """Answers to users: jobs that exist, and jobs that will end because a stop was accepted."""

    submitted: set[str] = field(default_factory=set)
    stopped: dict[str, bool] = field(default_factory=dict)
    """Jobs whose stop was acknowledged and that nobody started again, and whether their attempt was still undecided."""


class Checkers:
    """Looks at everything after each step."""

    def __init__(self, connection: Connection, cluster: FaultyCluster, starts: dict[AttemptKey, int]) -> None:
        self._connection = connection
        self._cluster = cluster
        self._starts = starts
        self.seen_changes = -1
        self._plans: dict[str, Any] = {}
        self._live: dict[AttemptKey, int] = {}
        self._granted: dict[tuple[str, int], int] = {}
        self._after: dict[str, list[tuple[str, str]]] = {}
        """The jobs that each job waits for, by id, and how they have to end."""
        self._ended: set[tuple[str, str]] = set()
        """Every end that a job ever had: a job that others have waited for may be started again."""
        self._released: set[str] = set()
        self.promises = Promises()

    def look(self, *, is_lease: bool = False) -> None:
        """Raise Violation for the first promise that does not hold now. A lease changes nothing of any job."""
        changes = self._connection.total_changes
        if is_lease:
            self.seen_changes = changes
        if changes != self.seen_changes:
            self.seen_changes = changes
            for message in self._store():
                raise Violation(message)
        for message in self._world():
            raise Violation(message)

    def judge(self, action: Action) -> None:
        """Raise Violation for an action that harms a task attempt which the store wants alive."""
        if isinstance(action, LaunchTask):
            return
        where = "t.job = ? AND t.job_attempt = ? AND t.role = ? AND t.task_index = ? AND t.attempt = ?"
        query = f"SELECT t.phase, j.phase FROM task_attempts t JOIN jobs j ON j.id = t.job WHERE {where}"
        key = action.key
        for task, job in self._rows(query, (key.job, key.job_attempt, key.role, key.index, key.task_attempt)):
            if task not in ("starting", "running"):
                continue
            if isinstance(action, ForgetTask):
                raise Violation(f"the end of {key.path()} is forgotten and was not recorded")
            if job != "ending":
                raise Violation(f"{key.path()} is killed, and its job is {job}")

    def look_at_the_end(self) -> None:
        """Raise Violation unless every job ended as it should and nothing of any job is left."""
        self.look()
        for message in (*self._outcomes(), *self._stops_kept(), *self._left()):
            raise Violation(message)

    def job(self, name: str) -> dict[str, Any] | None:
        """Return a job's row, with its details."""
        cursor = self._connection.execute("SELECT * FROM jobs JOIN job_details ON job = id WHERE name = ?", (name,))
        columns = [column[0] for column in cursor.description]
        row = cursor.fetchone()
        return dict(zip(columns, row, strict=True)) if row else None

    def unfinished(self) -> list[str]:
        """Return the names of jobs that have not ended."""
        return [row[0] for row in self._rows("SELECT name FROM jobs WHERE phase NOT IN (?, ?, ?)", FINAL)]

    def _rows(self, query: str, parameters: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(query, tuple(parameters)).fetchall()

    def _store(self) -> Iterator[str]:
        live = self._rows(
            "SELECT job, job_attempt, role, task_index, attempt, grant_number, node, address, devices, ports"
            " FROM task_attempts WHERE phase IN ('starting', 'running')"
        )
        self._live = {AttemptKey(*row[:5]): row[5] for row in live}
        tasks = Counter(row[:1] + row[2:4] for row in live)
        yield from (f"two attempts of {task} are alive in the store" for task, count in tasks.items() if count > 1)
        held = [((row[6], device), row[5]) for row in live for device in json.loads(row[8] or "[]")]
        self._granted = {
            (node, device): grant for node, device, grant in self._rows("SELECT node, device, grant_number FROM grants")
        }
        if dict(held) != self._granted or len(held) != len(self._granted):
            yield f"grants {self._granted} are not what live tasks hold: {held}"
        # What is over in the world may be handed out again before its end is written down.
        over = {task.key for task in self._cluster.observe() if task.exit is not None}
        using = [row for row in live if AttemptKey(*row[:5]) not in over]
        ports = Counter(
            (row[7], port) for row in using for label in json.loads(row[9] or "{}").values() for port in label
        )
        yield from (f"port {port} is handed out {count} times" for port, count in ports.items() if count > 1)
        yield from self._jobs()

    def _jobs(self) -> Iterator[str]:
        attempts = dict(self._rows("SELECT id, attempt FROM jobs"))
        for key in self._live:
            if attempts.get(key.job) != key.job_attempt:
                yield f"{key.path()} is alive in the store, its job is at attempt {attempts.get(key.job)}"
        names = {row[0] for row in self._rows("SELECT name FROM jobs")}
        yield from (f"job {name} was acknowledged and is gone" for name in self.promises.submitted - names)
        strangers = self._rows("SELECT job FROM events WHERE job NOT IN (SELECT id FROM jobs)")
        yield from (f"an event speaks of job {row[0]}, which does not exist" for row in strangers)
        for name, phase, is_asked in self._rows("SELECT name, phase, is_stop_requested FROM jobs"):
            if name in self.promises.stopped and phase not in FINAL and not is_asked:
                yield f"the stop of job {name} was acknowledged and forgotten"
        yield from self._dependencies()
        yield from self._retries()
        yield from self._gangs()

    def _dependencies(self) -> Iterator[str]:
        """Compare the jobs that wait for others with how those have ended."""
        for id_, spec in self._rows("SELECT job, spec FROM job_details WHERE spec LIKE '%\"until\"%'"):
            if id_ not in self._after:
                after = json.loads(spec)["extras"]["after"]
                self._after[id_] = [(entry["id"], entry["until"]) for entry in after]
        # A job that is held backs off until no certain time.
        held = "CASE WHEN phase = 'backing_off' AND retry_at_ms IS NULL THEN 'held' ELSE phase END"
        phases = dict(self._rows(f"SELECT id, {held} FROM jobs"))
        self._ended |= {(id_, phase) for id_, phase in phases.items() if phase in FINAL}
        for id_, after in self._after.items():
            waits = [other for other, until in after if not any((other, end) in self._ended for end in MEETS[until])]
            if phases[id_] not in ("held", "stopped") and id_ not in self._released:
                self._released.add(id_)
                yield from (f"{id_} is {phases[id_]} and waits for {other}, {phases[other]}" for other in waits)

    def _retries(self) -> Iterator[str]:
        plans = self._plans
        query = "SELECT id, plan, retries_counted, retries_free FROM jobs JOIN job_details ON job = id"
        for id_, plan, counted, free in self._rows(query):
            if id_ not in plans:
                plans[id_] = json.loads(plan)
            if counted > plans[id_]["jobRetryCount"] or free > FREE_RETRIES_MAX:
                yield f"job {id_} was retried {counted} times and {free} times free"
        query = "SELECT job, role, task_index, retries_counted, retries_free, attempt FROM task_attempts"
        for id_, role, index, counted, free, attempt in self._rows(query):
            allowed = next(each[4] for each in plans[id_]["roles"] if each[0] == role)
            if counted > allowed or free > FREE_RETRIES_MAX or attempt != counted + free:
                yield f"task {id_}/{role}/{index} is at attempt {attempt} with {counted} retries and {free} free ones"

    def _gangs(self) -> Iterator[str]:
        query = (
            "SELECT t.job, t.job_attempt, j.tasks_total, COUNT(*) FROM task_attempts t JOIN jobs j ON j.id = t.job"
            " JOIN job_details d ON d.job = t.job"
            " WHERE t.attempt = 0 AND t.granted_at_ms IS NOT NULL AND d.plan LIKE '%\"gang\":true%'"
            " GROUP BY t.job, t.job_attempt HAVING COUNT(*) <> j.tasks_total"
        )
        for id_, attempt, total, count in self._rows(query):
            yield f"{count} of {total} members of gang {id_}/{attempt} were granted"

    def _world(self) -> Iterator[str]:
        devices: dict[tuple[str, int], AttemptKey] = {}
        tasks: dict[tuple[str, str, int], AttemptKey] = {}
        for task in self._cluster.running():
            who = task.key.job, task.key.role, task.key.index
            if who in tasks:
                yield f"{task.key.path()} and {tasks[who].path()} run at once"
            tasks[who] = task.key
            if self._live.get(task.key) != task.grant:
                yield f"{task.key.path()} runs by grant {task.grant}, the store says {self._live.get(task.key)}"
            for device in task.devices:
                other = devices.setdefault((task.node, device), task.key)
                if other != task.key:
                    yield f"{task.key.path()} and {other.path()} run on device {device} of {task.node}"
        for key, count in self._starts.items():
            if count > 1:
                yield f"{key.path()} was started {count} times"

    def _outcomes(self) -> Iterator[str]:
        """Compare each attempt's verdict with what its tasks did."""
        ends: dict[tuple[str, int, str], Counter[str]] = {}
        newest = (
            "SELECT job, job_attempt, role, phase FROM task_attempts t WHERE attempt = (SELECT MAX(attempt) FROM"
            " task_attempts o WHERE o.job = t.job AND o.job_attempt = t.job_attempt AND o.role = t.role"
            " AND o.task_index = t.task_index)"
        )
        for job, attempt, role, phase in self._rows(newest):
            ends.setdefault((job, attempt, role), Counter())[phase] += 1
        query = "SELECT a.job, a.attempt, a.outcome, d.plan FROM job_attempts a JOIN job_details d ON d.job = a.job"
        for job, attempt, outcome, plan in self._rows(query):
            verdict, code = json.loads(outcome)[:2]
            if code == TIME_LIMIT:
                continue
            roles = json.loads(plan)["roles"]
            counts = [ends.get((job, attempt, role[0]), Counter()) for role in roles]
            may_fail = any(1 <= role[2] <= each["failed"] for role, each in zip(roles, counts, strict=True))
            may_succeed = any(1 <= role[3] <= each["succeeded"] for role, each in zip(roles, counts, strict=True))
            over = sum(each["failed"] + each["succeeded"] for each in counts)
            is_all_over = over == sum(role[1] for role in roles)
            if (verdict == "failed" and not may_fail) or (
                verdict == "succeeded" and not may_succeed and not is_all_over
            ):
                yield f"attempt {attempt} of {job} {verdict}, but its tasks are {counts} by {roles}"

    def _stops_kept(self) -> Iterator[str]:
        for name, was_undecided in self.promises.stopped.items():
            row = self.job(name)
            if row and was_undecided and row["phase"] != "stopped":
                yield f"the stop of job {name} was acknowledged and it {row['phase']}"

    def _left(self) -> Iterator[str]:
        yield from (f"job {name} has not ended" for name in self.unfinished())
        yield from (f"{task.key.path()} is left in the cluster" for task in self._cluster.observe())
        if self._granted:
            yield f"grants are left: {self._granted}"
        yield from (f"job {row[0]} is left in the inbox" for row in self._rows("SELECT job FROM inbox"))
