"""The tables. One row per job, per finished job attempt, per task attempt, per event and per granted device.

Times are milliseconds since the epoch. Structured values that are never searched (outcomes, ports, diagnoses)
are JSON text. The check constraints on phases come from the lifecycle's enums, and the primary key of `grants`
prevents granting one device to two tasks.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from openpai.lifecycle.model import JobPhase, TaskPhase
from openpai.store.alert_tables import alert_tables
from openpai.store.budget_tables import budget_tables
from openpai.store.market_tables import market_tables

metadata: Final = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

# SQLite numbers rows only for INTEGER; PostgreSQL needs the larger type for a log that grows for years.
BIG_ID: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MS: Final = sa.BigInteger()


def _one_of(column: str, words: type[JobPhase | TaskPhase]) -> sa.CheckConstraint:
    # `rows` stores a held job under another word, which the check of older databases knows.
    listed = ", ".join(f"'{word.value}'" for word in words if word is not JobPhase.HELD)
    return sa.CheckConstraint(f"{column} IN ({listed})", name=column)


def _listing(name: str, *columns: str, whole: tuple[str, ...], where: str | None = None) -> tuple[sa.Index, sa.Index]:
    """Return an index for both databases, for SQLite with all columns that lists filter and sort by.

    SQLite reads a whole index faster than the rows; PostgreSQL reads the rows, with every core.
    """
    only = None if where is None else sa.text(where)
    by_dialect = {"sqlite": (*columns, *whole), "postgresql": columns}
    lite, postgres = (
        sa.Index(name, *has, info={"dialect": dialect}, sqlite_where=only, postgresql_where=only).ddl_if(
            dialect=dialect
        )
        for dialect, has in by_dialect.items()
    )
    return lite, postgres


_NEWEST: Final = ("submitted_at_ms", "id")
_LISTED: Final = (
    "name",
    "virtual_cluster",
    "phase",
    "priority_class",
    "is_tagged",
    "gpus_total",
    "tasks_total",
    "attempt",
    "ended_at_ms",
)

jobs: Final = sa.Table(
    "jobs",
    metadata,
    # Columns that lists filter and sort by come first, and long values are in `job_details`: a list may have to
    # read every job.
    sa.Column("submitted_at_ms", MS, nullable=False),
    sa.Column("gpus_total", sa.Integer, nullable=False),
    sa.Column("tasks_total", sa.Integer, nullable=False),
    sa.Column("retries_counted", sa.Integer, nullable=False),
    sa.Column("retries_free", sa.Integer, nullable=False),
    sa.Column("is_tagged", sa.Boolean, nullable=False, server_default=sa.false()),
    # An archived job keeps its name under its own id, so that the name is free again.
    sa.Column("archive_key", sa.String(32), nullable=False, server_default=""),
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("owner", sa.String(255), nullable=False),
    sa.Column("virtual_cluster", sa.String(255), nullable=False),
    sa.Column("phase", sa.String(16), nullable=False),
    sa.Column("ended_at_ms", MS),
    sa.Column("priority_class", sa.String(16)),
    sa.Column("priority", sa.Integer, nullable=False),
    sa.Column("rank", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("is_stop_requested", sa.Boolean, nullable=False),
    sa.Column("is_private", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("roles_total", sa.Integer, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("attempt_at_ms", MS),
    sa.Column("attempt_started_at_ms", MS),
    sa.Column("attempt_ended_at_ms", MS),
    sa.Column("started_at_ms", MS),
    sa.Column("retry_at_ms", MS),
    sa.Column("time_limit_ms", MS),
    sa.Column("checkpoint_at_ms", MS),
    sa.Column("archived_at_ms", MS),
    _one_of("phase", JobPhase),
    sa.UniqueConstraint("owner", "name", "archive_key"),
    *_listing("ix_jobs_listing", *_NEWEST, whole=("owner", *_LISTED, "archive_key"), where="archive_key = ''"),
    *_listing("ix_jobs_archived", *_NEWEST, whole=("owner", *_LISTED, "archive_key"), where="archive_key > ''"),
    *_listing("ix_jobs_of_owner", "owner", "archive_key", *_NEWEST, whole=_LISTED),
    sa.Index("ix_jobs_phase_submitted", "phase", "submitted_at_ms"),
    # The smallest possible index, to count all jobs. SQLite would also search the newest jobs with it.
    sa.Index("ix_jobs_archive_key", "archive_key", info={"dialect": "postgresql"}).ddl_if(dialect="postgresql"),
    # Each submission counts the unfinished jobs of its owner.
    sa.Index(
        "ix_jobs_unfinished",
        "owner",
        "virtual_cluster",
        sqlite_where=sa.text("ended_at_ms IS NULL"),
        postgresql_where=sa.text("ended_at_ms IS NULL"),
    ),
)

job_details: Final = sa.Table(
    "job_details",
    metadata,
    sa.Column("job", sa.String(32), primary_key=True),
    sa.Column("plan", sa.Text, nullable=False),
    sa.Column("spec", sa.Text, nullable=False),
    sa.Column("config", sa.Text, nullable=False),
    sa.Column("sealed", sa.LargeBinary),
    sa.Column("outcome", sa.Text),
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
    sa.Column("seat", sa.String(255)),
    # Its use and owner, for accounting, which reads one index without the rows.
    sa.Column("owner", sa.String(255), nullable=False, server_default=""),
    sa.Column("virtual_cluster", sa.String(255), nullable=False, server_default=""),
    sa.Column("gpus", sa.Integer),
    sa.Column("cpus", sa.Integer),
    sa.Column("memory_mb", sa.Integer),
    sa.Column("report", sa.Text),
    sa.Column("diagnosis", sa.Text),
    _one_of("phase", TaskPhase),
    sa.Index(
        "ix_task_attempts_held",
        "ended_at_ms",
        "granted_at_ms",
        "owner",
        "virtual_cluster",
        "gpus",
        "cpus",
        "memory_mb",
    ),
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
    # The URL of the leader, for other servers.
    sa.Column("url", sa.String(255), nullable=False, server_default=""),
)

idempotency: Final = sa.Table(
    "idempotency",
    metadata,
    sa.Column("owner", sa.String(255), primary_key=True),
    sa.Column("key", sa.String(255), primary_key=True),
    sa.Column("job", sa.String(32), nullable=False),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("at_ms", MS, nullable=False),
)

users: Final = sa.Table(
    "users",
    metadata,
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("password_hash", sa.Text, nullable=False),
    sa.Column("email", sa.String(255), nullable=False),
    sa.Column("created_at_ms", MS, nullable=False),
    sa.Column("is_viewer", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("source", sa.String(16), nullable=False, server_default="local"),
    sa.Column("subject", sa.String(255), nullable=False, server_default=""),
    sa.Column("extension", sa.Text, nullable=False, server_default="{}"),
    sa.Index("ix_users_subject", "source", "subject"),
)

groups: Final = sa.Table(
    "groups",
    metadata,
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("external_name", sa.String(255), nullable=False),
    sa.Column("is_admin", sa.Boolean, nullable=False),
    sa.Column("virtual_clusters", sa.Text, nullable=False),
    sa.Column("managed", sa.Text, nullable=False),
    sa.Column("storages", sa.Text, nullable=False),
    sa.Column("extension", sa.Text, nullable=False),
)

memberships: Final = sa.Table(
    "memberships",
    metadata,
    sa.Column("member", sa.String(255), primary_key=True),
    sa.Column("group_name", sa.String(255), primary_key=True),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Index("ix_memberships_group", "group_name"),
)

tokens: Final = sa.Table(
    "tokens",
    metadata,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("owner", sa.String(255), nullable=False),
    sa.Column("is_application", sa.Boolean, nullable=False),
    sa.Column("created_at_ms", MS, nullable=False),
    sa.Column("expires_at_ms", MS),
    sa.Column("scope", sa.String(16), nullable=False, server_default="all"),
    sa.Column("name", sa.String(255), nullable=False, server_default=""),
    sa.Index("ix_tokens_owner", "owner"),
)

settings: Final = sa.Table(
    "settings",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("changed_at_ms", MS, nullable=False),
    sa.Column("changed_by", sa.String(255), nullable=False),
)

node_notes: Final = sa.Table(
    "node_notes",
    metadata,
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("cpus", sa.Integer, nullable=False),
    sa.Column("memory_mb", sa.Integer, nullable=False),
    sa.Column("gpus", sa.Integer, nullable=False),
    sa.Column("gpu_model", sa.String(255), nullable=False),
    sa.Column("is_drained", sa.Boolean, nullable=False),
    sa.Column("bad_devices", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("changed_by", sa.String(255), nullable=False),
    sa.Column("bad_because", sa.Text, nullable=False, server_default=""),
)

storages: Final = sa.Table(
    "storages",
    metadata,
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("data", sa.Text, nullable=False),
    sa.Column("sealed", sa.LargeBinary),
    sa.Column("is_read_only", sa.Boolean, nullable=False),
    sa.Column("is_shared", sa.Boolean, nullable=False),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("created_at_ms", MS, nullable=False),
)

quotas: Final = sa.Table(
    "quotas",
    metadata,
    sa.Column("virtual_cluster", sa.String(255), primary_key=True),
    sa.Column("owner", sa.String(255), primary_key=True),
    sa.Column("gpus_running", sa.Integer),
    sa.Column("gpus_per_job", sa.Integer),
    sa.Column("jobs_unfinished", sa.Integer),
    sa.Column("gpu_hours_per_month", sa.Float),
)

# The use of deleted jobs: deleting a job returns no hours.
past_use: Final = sa.Table(
    "past_use",
    metadata,
    sa.Column("day", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("owner", sa.String(255), primary_key=True),
    sa.Column("virtual_cluster", sa.String(255), primary_key=True),
    sa.Column("gpu_ms", sa.Double, nullable=False),
    sa.Column("cpu_ms", sa.Double, nullable=False),
    sa.Column("memory_mb_ms", sa.Double, nullable=False),
    sa.Column("task_attempts", sa.Integer, nullable=False),
)

# What users borrowed and wasted, which of their jobs were moved for others and, without an owner, what virtual
# clusters lent.
lent_use: Final = sa.Table(
    "lent_use",
    metadata,
    sa.Column("day", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("owner", sa.String(255), primary_key=True),
    sa.Column("virtual_cluster", sa.String(255), primary_key=True),
    sa.Column("borrowed_gpu_ms", sa.Double, nullable=False),
    sa.Column("lent_gpu_ms", sa.Double, nullable=False),
    sa.Column("jobs_moved", sa.Integer, nullable=False, server_default="0"),
    sa.Column("moved_gpu_ms", sa.Double, nullable=False, server_default="0"),
    sa.Column("idle_gpu_ms", sa.Double, nullable=False, server_default="0"),
    sa.Column("failed_gpu_ms", sa.Double, nullable=False, server_default="0"),
    sa.Column("preempted_gpu_ms", sa.Double, nullable=False, server_default="0"),
)

audit: Final = sa.Table(
    "audit",
    metadata,
    sa.Column("id", BIG_ID, primary_key=True, autoincrement=True),
    sa.Column("at_ms", MS, nullable=False),
    sa.Column("actor", sa.String(255), nullable=False),
    sa.Column("action", sa.String(64), nullable=False),
    sa.Column("target", sa.String(512), nullable=False),
    sa.Column("owner", sa.String(255), nullable=False),
    sa.Column("via", sa.String(255), nullable=False),
    sa.Column("address", sa.String(64), nullable=False),
    sa.Column("status", sa.Integer, nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
    sa.Index("ix_audit_actor", "actor", "id"),
    sa.Index("ix_audit_owner", "owner", "id"),
)

alerts, alert_actions, notices, channels = alert_tables(metadata)
market_items, market_revisions, market_marks, market_stars, market_uses = market_tables(metadata)
month_use, budgets = budget_tables(metadata)
