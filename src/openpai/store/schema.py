"""The tables. One row per job, per finished job attempt, per task attempt, per event and per granted device.

Times are milliseconds since the epoch. Structured values that are never searched (outcomes, ports, diagnoses)
are JSON text. The check constraints on phases come from the lifecycle's own words, and the primary key of
`grants` is what refuses to give one device to two tasks.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from openpai.lifecycle.model import JobPhase, TaskPhase

metadata: Final = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

# SQLite numbers rows by itself only for INTEGER; PostgreSQL needs the larger type for a log that grows for years.
BIG_ID: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MS: Final = sa.BigInteger()


def _one_of(column: str, words: type[JobPhase | TaskPhase]) -> sa.CheckConstraint:
    listed = ", ".join(f"'{word.value}'" for word in words)
    return sa.CheckConstraint(f"{column} IN ({listed})", name=column)


jobs: Final = sa.Table(
    "jobs",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("owner", sa.String(255), nullable=False),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("phase", sa.String(16), nullable=False),
    sa.Column("virtual_cluster", sa.String(255), nullable=False),
    sa.Column("priority", sa.Integer, nullable=False),
    sa.Column("priority_class", sa.String(16)),
    sa.Column("is_stop_requested", sa.Boolean, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("retries_counted", sa.Integer, nullable=False),
    sa.Column("retries_free", sa.Integer, nullable=False),
    sa.Column("submitted_at_ms", MS, nullable=False),
    sa.Column("attempt_at_ms", MS),
    sa.Column("attempt_started_at_ms", MS),
    sa.Column("attempt_ended_at_ms", MS),
    sa.Column("started_at_ms", MS),
    sa.Column("ended_at_ms", MS),
    sa.Column("retry_at_ms", MS),
    sa.Column("outcome", sa.Text),
    sa.Column("gpus_total", sa.Integer, nullable=False),
    sa.Column("tasks_total", sa.Integer, nullable=False),
    sa.Column("roles_total", sa.Integer, nullable=False),
    sa.Column("plan", sa.Text, nullable=False),
    sa.Column("spec", sa.Text, nullable=False),
    sa.Column("config", sa.Text, nullable=False),
    sa.Column("sealed", sa.LargeBinary),
    _one_of("phase", JobPhase),
    sa.UniqueConstraint("owner", "name"),
    sa.Index("ix_jobs_submitted", "submitted_at_ms", "id"),
    sa.Index("ix_jobs_owner_submitted", "owner", "submitted_at_ms"),
    sa.Index("ix_jobs_phase_submitted", "phase", "submitted_at_ms"),
)

job_attempts: Final = sa.Table(
    "job_attempts",
    metadata,
    sa.Column("job", sa.String(32), primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("created_at_ms", MS, nullable=False),
    sa.Column("started_at_ms", MS),
    sa.Column("ended_at_ms", MS),
)

task_attempts: Final = sa.Table(
    "task_attempts",
    metadata,
    sa.Column("job", sa.String(32), primary_key=True),
    sa.Column("job_attempt", sa.Integer, primary_key=True),
    sa.Column("role", sa.String(255), primary_key=True),
    sa.Column("task_index", sa.Integer, primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True),
    sa.Column("phase", sa.String(16), nullable=False),
    sa.Column("retries_counted", sa.Integer, nullable=False),
    sa.Column("retries_free", sa.Integer, nullable=False),
    sa.Column("granted_at_ms", MS),
    sa.Column("started_at_ms", MS),
    sa.Column("ended_at_ms", MS),
    sa.Column("retry_at_ms", MS),
    sa.Column("grant_number", sa.BigInteger),
    sa.Column("node", sa.String(255)),
    sa.Column("address", sa.String(255)),
    sa.Column("devices", sa.Text),
    sa.Column("ports", sa.Text),
    sa.Column("report", sa.Text),
    sa.Column("diagnosis", sa.Text),
    _one_of("phase", TaskPhase),
)

grants: Final = sa.Table(
    "grants",
    metadata,
    sa.Column("node", sa.String(255), primary_key=True),
    sa.Column("device", sa.Integer, primary_key=True),
    sa.Column("grant_number", sa.BigInteger, nullable=False),
    sa.Column("job", sa.String(32), nullable=False),
)

events: Final = sa.Table(
    "events",
    metadata,
    sa.Column("id", BIG_ID, primary_key=True, autoincrement=True),
    sa.Column("job", sa.String(32), nullable=False),
    sa.Column("at_ms", MS, nullable=False),
    sa.Column("is_warning", sa.Boolean, nullable=False),
    sa.Column("reason", sa.String(64), nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("job_attempt", sa.Integer, nullable=False),
    sa.Column("task", sa.String(512)),
    sa.Column("node", sa.String(255)),
    sa.Index("ix_events_job", "job", "id"),
)

tags: Final = sa.Table(
    "tags",
    metadata,
    sa.Column("job", sa.String(32), primary_key=True),
    sa.Column("tag", sa.String(255), primary_key=True),
    sa.Index("ix_tags_tag", "tag"),
)

inbox: Final = sa.Table(
    "inbox",
    metadata,
    sa.Column("id", BIG_ID, primary_key=True, autoincrement=True),
    sa.Column("job", sa.String(32), nullable=False),
)

lease: Final = sa.Table(
    "lease",
    metadata,
    sa.Column("name", sa.String(32), primary_key=True),
    sa.Column("holder", sa.String(255)),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("until_ms", MS, nullable=False),
)

users: Final = sa.Table(
    "users",
    metadata,
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("password_hash", sa.Text, nullable=False),
    sa.Column("is_admin", sa.Boolean, nullable=False),
    sa.Column("email", sa.String(255), nullable=False),
    sa.Column("created_at_ms", MS, nullable=False),
)

tokens: Final = sa.Table(
    "tokens",
    metadata,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("owner", sa.String(255), nullable=False),
    sa.Column("is_application", sa.Boolean, nullable=False),
    sa.Column("created_at_ms", MS, nullable=False),
    sa.Column("expires_at_ms", MS),
    sa.Index("ix_tokens_owner", "owner"),
)
