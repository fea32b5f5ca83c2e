"""What is long of a job apart from it, so that a list need not pass over them; indexes as each database wants them."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_LONG = ("plan", "spec", "config", "sealed", "outcome")
_MS = sa.BigInteger
_PHASES = "'queued', 'starting', 'running', 'ending', 'backing_off', 'succeeded', 'failed', 'stopped'"


def upgrade() -> None:
    """Bring the schema from 0002 to 0003."""
    op.create_table(
        "job_details",
        sa.Column("job", sa.String(32), nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("config", sa.Text, nullable=False),
        sa.Column("sealed", sa.LargeBinary),
        sa.Column("outcome", sa.Text),
        sa.PrimaryKeyConstraint("job", name="pk_job_details"),
    )
    _copy("jobs", ("id", *_LONG), "job_details", ("job", *_LONG))
    _narrow_jobs()


def _narrow_jobs() -> None:
    columns = _columns()
    names = [column.name for column in columns]
    op.create_table("jobs_narrow", *columns)
    _copy("jobs", names, "jobs_narrow", names)
    op.drop_table("jobs")
    op.rename_table("jobs_narrow", "jobs")
    with op.batch_alter_table("jobs") as table:
        table.create_primary_key("pk_jobs", ["id"])
        table.create_unique_constraint("uq_jobs_owner_name_archive_key", ["owner", "name", "archive_key"])
        table.create_check_constraint(op.f("ck_jobs_phase"), f"phase IN ({_PHASES})")
    op.create_index("ix_jobs_phase_submitted", "jobs", ["phase", "submitted_at_ms"])
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    if not is_sqlite:
        op.create_index("ix_jobs_archive_key", "jobs", ["archive_key"])
    listed = ["name", "virtual_cluster", "phase", "priority_class", "is_tagged", "gpus_total", "tasks_total"]
    listed += ["retries_counted", "retries_free", "ended_at_ms"]
    newest = ["submitted_at_ms", "id"]
    for name, where in (("listing", "archive_key = ''"), ("archived", "archive_key > ''")):
        whole = ["owner", *listed, "archive_key"] if is_sqlite else []
        only = sa.text(where)
        op.create_index(f"ix_jobs_{name}", "jobs", [*newest, *whole], sqlite_where=only, postgresql_where=only)
    op.create_index("ix_jobs_of_owner", "jobs", ["owner", "archive_key", *newest, *(listed if is_sqlite else [])])


def _copy(source: str, names: Sequence[str], to: str, as_: Sequence[str]) -> None:
    """Copy rows, oldest jobs first, so that neighbours in a list are neighbours on the disk."""
    old = sa.table(source, *(sa.column(name) for name in names), sa.column("submitted_at_ms"))
    new = sa.table(to, *(sa.column(name) for name in as_))
    rows = sa.select(*(old.c[name] for name in names)).order_by(old.c.submitted_at_ms)
    op.execute(new.insert().from_select(list(as_), rows))


def _columns() -> list[sa.Column[object]]:
    return [
        sa.Column("submitted_at_ms", _MS, nullable=False),
        sa.Column("gpus_total", sa.Integer, nullable=False),
        sa.Column("tasks_total", sa.Integer, nullable=False),
        sa.Column("retries_counted", sa.Integer, nullable=False),
        sa.Column("retries_free", sa.Integer, nullable=False),
        sa.Column("is_tagged", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("archive_key", sa.String(32), nullable=False, server_default=""),
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("virtual_cluster", sa.String(255), nullable=False),
        sa.Column("phase", sa.String(16), nullable=False),
        sa.Column("ended_at_ms", _MS),
        sa.Column("priority_class", sa.String(16)),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("rank", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("is_stop_requested", sa.Boolean, nullable=False),
        sa.Column("is_private", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("roles_total", sa.Integer, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("attempt_at_ms", _MS),
        sa.Column("attempt_started_at_ms", _MS),
        sa.Column("attempt_ended_at_ms", _MS),
        sa.Column("started_at_ms", _MS),
        sa.Column("retry_at_ms", _MS),
        sa.Column("time_limit_ms", _MS),
        sa.Column("checkpoint_at_ms", _MS),
        sa.Column("archived_at_ms", _MS),
    ]
