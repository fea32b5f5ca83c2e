"""The first schema: jobs, attempts, events, grants, the inbox, the lease, users and tokens."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "events",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("job", sa.String(length=32), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("is_warning", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.String(length=64), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("job_attempt", sa.Integer(), nullable=False),
        sa.Column("task", sa.String(length=512), nullable=True),
        sa.Column("node", sa.String(length=255), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
    )
    op.create_index("ix_events_job", "events", ["job", "id"], unique=False)
    op.create_table(
        "grants",
        sa.Column("node", sa.String(length=255), nullable=False),
        sa.Column("device", sa.Integer(), nullable=False),
        sa.Column("grant_number", sa.BigInteger(), nullable=False),
        sa.Column("job", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("node", "device", name=op.f("pk_grants")),
    )
    op.create_table(
        "inbox",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("job", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_inbox")),
    )
    op.create_table(
        "job_attempts",
        sa.Column("job", sa.String(length=32), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("started_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("ended_at_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("job", "attempt", name=op.f("pk_job_attempts")),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("phase", sa.String(length=16), nullable=False),
        sa.Column("virtual_cluster", sa.String(length=255), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("priority_class", sa.String(length=16), nullable=True),
        sa.Column("is_stop_requested", sa.Boolean(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("retries_counted", sa.Integer(), nullable=False),
        sa.Column("retries_free", sa.Integer(), nullable=False),
        sa.Column("submitted_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("attempt_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("attempt_started_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("attempt_ended_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("started_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("ended_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("retry_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("gpus_total", sa.Integer(), nullable=False),
        sa.Column("tasks_total", sa.Integer(), nullable=False),
        sa.Column("roles_total", sa.Integer(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=True),
        sa.CheckConstraint(
            "phase IN ('queued', 'starting', 'running', 'ending', 'backing_off', 'succeeded', 'failed', 'stopped')",
            name=op.f("ck_jobs_phase"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sa.UniqueConstraint("owner", "name", name=op.f("uq_jobs_owner_name")),
    )
    op.create_index("ix_jobs_owner_submitted", "jobs", ["owner", "submitted_at_ms"], unique=False)
    op.create_index("ix_jobs_phase_submitted", "jobs", ["phase", "submitted_at_ms"], unique=False)
    op.create_index("ix_jobs_submitted", "jobs", ["submitted_at_ms", "id"], unique=False)
    op.create_table(
        "lease",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("holder", sa.String(length=255), nullable=True),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_lease")),
    )
    op.create_table(
        "tags",
        sa.Column("job", sa.String(length=32), nullable=False),
        sa.Column("tag", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("job", "tag", name=op.f("pk_tags")),
    )
    op.create_index("ix_tags_tag", "tags", ["tag"], unique=False)
    op.create_table(
        "task_attempts",
        sa.Column("job", sa.String(length=32), nullable=False),
        sa.Column("job_attempt", sa.Integer(), nullable=False),
        sa.Column("role", sa.String(length=255), nullable=False),
        sa.Column("task_index", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("phase", sa.String(length=16), nullable=False),
        sa.Column("retries_counted", sa.Integer(), nullable=False),
        sa.Column("retries_free", sa.Integer(), nullable=False),
        sa.Column("granted_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("started_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("ended_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("retry_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("grant_number", sa.BigInteger(), nullable=True),
        sa.Column("node", sa.String(length=255), nullable=True),
        sa.Column("address", sa.String(length=255), nullable=True),
        sa.Column("devices", sa.Text(), nullable=True),
        sa.Column("ports", sa.Text(), nullable=True),
        sa.Column("report", sa.Text(), nullable=True),
        sa.Column("diagnosis", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "phase IN ('waiting', 'starting', 'running', 'backing_off', 'succeeded', 'failed', 'stopped')",
            name=op.f("ck_task_attempts_phase"),
        ),
        sa.PrimaryKeyConstraint("job", "job_attempt", "role", "task_index", "attempt", name=op.f("pk_task_attempts")),
    )
    op.create_table(
        "tokens",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("is_application", sa.Boolean(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_tokens")),
    )
    op.create_index("ix_tokens_owner", "tokens", ["owner"], unique=False)
    op.create_table(
        "users",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("password_hash", sa.Text(), nullable=False),
        sa.Column("is_admin", sa.Boolean(), nullable=False),
        sa.Column("email", sa.String(length=255), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_users")),
    )
