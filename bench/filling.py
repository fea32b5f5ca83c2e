"""Fills a store with jobs as if a platform had run for years: many people, virtual clusters, ends and tags.

Rows are inserted directly, since submitting a million jobs would take an hour. All are over but some thousands that
wait in virtual clusters without a guarantee, so that a server over the store has a queue and nothing to start.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

import sqlalchemy as sa

from bench.server import job
from openpai.lifecycle.completion import plan_of
from openpai.lifecycle.model import Behavior, Diagnosis, Outcome, TaskId, Verdict
from openpai.protocol.reading import read_job
from openpai.protocol.writing import dump_masked, dump_spec
from openpai.store import rows
from openpai.store.database import Database
from openpai.store.opening import migrate
from openpai.store.schema import events, job_details, jobs, tags, task_attempts

USERS = 500
CLUSTERS = ("vision", "nlp", "speech", "rl", "bio")
WORDS = ("train", "eval", "bert", "resnet", "llama", "sweep", "tune", "debug", "export", "data", "prep", "finetune")
WAITING = 5_000
WITH_HISTORY = 10_000
BEGAN_MS = 1_700_000_000_000
APART_MS = 900
_AT_ONCE = 5_000
_PHASES = ("succeeded",) * 70 + ("failed",) * 20 + ("stopped",) * 10


def fill(url: str, count: int, seed: int = 1) -> None:
    """Put this many jobs into an empty database."""
    database = Database(url)
    try:
        migrate(database)
        for start in range(0, count, _AT_ONCE):
            made = list(_made(start, min(start + _AT_ONCE, count), count, random.Random(seed + start)))
            with database.engine.connect().execution_options(writes=True) as connection, connection.begin():
                _insert(connection, made, count)
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            # What a database does by itself sooner or later.
            connection.exec_driver_sql("PRAGMA wal_checkpoint" if database.is_sqlite else "VACUUM ANALYZE")
    finally:
        database.close()


def name_of(number: int) -> str:
    """Return the full name of a job that was filled in."""
    chance = random.Random(number)
    return f"{owner_of(number)}~{chance.choice(WORDS)}-{chance.choice(WORDS)}-{number:07d}"


def owner_of(number: int) -> str:
    """Return whose job it is: few people have most of the jobs."""
    return f"user{int(random.Random(-number).paretovariate(0.9)) % USERS:03d}"


def _made(start: int, end: int, count: int, chance: random.Random) -> Iterator[dict[str, Any]]:
    for number in range(start, end):
        owner, _, name = name_of(number).partition("~")
        at_ms = BEGAN_MS + number * APART_MS
        is_waiting = number >= count - WAITING
        ended_ms = None if is_waiting else at_ms + 60_000 + chance.randrange(10_000_000)
        id_ = f"{at_ms * 1_000_000:016x}{number:016x}"
        is_archived = number < count - WAITING - WITH_HISTORY and chance.random() < 0.02
        phase = "queued" if is_waiting else chance.choice(_PHASES)
        retries = chance.choice((0, 0, 0, 1, 2))
        yield {
            "id": id_,
            "owner": owner,
            "name": name,
            "version": 3,
            "phase": phase,
            "virtual_cluster": chance.choice(CLUSTERS),
            "priority": 0,
            "priority_class": chance.choice((None, None, "prod", "test", "oppo")),
            "is_stop_requested": False,
            "attempt": retries,
            "retries_counted": retries,
            "retries_free": 0,
            "submitted_at_ms": at_ms,
            "attempt_at_ms": None if is_waiting else at_ms,
            "started_at_ms": None if is_waiting else at_ms + 5_000,
            "ended_at_ms": ended_ms,
            "gpus_total": chance.choice((0, 1, 1, 2, 4, 8, 8, 64)),
            "tasks_total": chance.choice((1, 1, 1, 2, 8)),
            "roles_total": 1,
            "archive_key": id_ if is_archived else "",
            "archived_at_ms": ended_ms if is_archived else None,
            "is_tagged": chance.random() < 0.1,
        }


def _insert(connection: sa.Connection, made: list[dict[str, Any]], count: int) -> None:
    connection.execute(jobs.insert(), made)
    spec = read_job(job("filled")).spec
    texts = {"spec": dump_spec(spec), "config": dump_masked(spec), "plan": rows.plan_text(plan_of(spec))}
    connection.execute(
        job_details.insert(), [{**texts, "job": row["id"], "outcome": _OUTCOMES.get(row["phase"])} for row in made]
    )
    words = [{"job": row["id"], "tag": tag} for row in made if row["is_tagged"] for tag in _tags(row)]
    connection.execute(tags.insert(), words)
    recent = [row for row in made if int(row["id"][16:], 16) >= count - WAITING - WITH_HISTORY]
    ended = [row for row in recent if row["ended_at_ms"] is not None]
    if recent:
        connection.execute(events.insert(), [_event(row, reason) for row in recent for reason in _REASONS])
    if ended:
        connection.execute(task_attempts.insert(), [_task_attempt(row) for row in ended])


_FAILED = Diagnosis(
    1, "ApplicationFailed", "UNKNOWN_FAILURE", Behavior.UNKNOWN, "the program ended with exit code 1",
    ("look at the last lines of the log", "run the command by hand"), "RuntimeError: CUDA out of memory " * 20,
)  # fmt: skip
_OUTCOMES: Final = {
    "succeeded": rows.outcome_text(Outcome(Verdict.SUCCEEDED, 0, None, TaskId("worker", 0), "every task succeeded")),
    "failed": rows.outcome_text(Outcome(Verdict.FAILED, 1, _FAILED, TaskId("worker", 0), "task worker-0 failed")),
    "stopped": rows.outcome_text(Outcome(Verdict.STOPPED, -210, None, None, "stopped by its owner")),
}
_REASONS = ("Submitted", "Granted", "Started", "TaskSucceeded", "Succeeded")


def _tags(row: dict[str, Any]) -> set[str]:
    chance = random.Random(row["id"])
    return {f"sweep-{chance.randrange(500)}", chance.choice(("paper", "baseline", "keep"))}


def _event(row: dict[str, Any], reason: str) -> dict[str, Any]:
    message = f"the job was {reason.lower()}, as its events say"
    return {
        "job": row["id"],
        "at_ms": row["submitted_at_ms"],
        "is_warning": False,
        "reason": reason,
        "message": message,
        "job_attempt": row["attempt"],
    }


def _task_attempt(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "job": row["id"],
        "job_attempt": row["attempt"],
        "role": "worker",
        "task_index": 0,
        "attempt": 0,
        "phase": row["phase"],
        "retries_counted": 0,
        "retries_free": 0,
        "granted_at_ms": row["submitted_at_ms"],
        "started_at_ms": row["started_at_ms"],
        "ended_at_ms": row["ended_at_ms"],
        "grant_number": 1,
        "node": "node-0001",
        "address": "10.0.0.1",
        "devices": "[0]",
        "ports": "{}",
        "seat": "",
        "gpus": 1,
        "cpus": 1,
        "memory_mb": 64,
    }
