"""Groups, settings, storages, quotas, audit; ranks, time limits, archives and seats of jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from openpai.access.accounts import ADMIN_GROUP, DEFAULT_GROUP

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Bring the schema from 0001 to 0002."""
    _widen_jobs()
    with op.batch_alter_table("lease") as table:
        table.add_column(sa.Column("url", sa.String(255), nullable=False, server_default=""))
    _add_tables()
    _move_admins()
    with op.batch_alter_table("users") as table:
        table.drop_column("is_admin")
        table.add_column(sa.Column("is_viewer", sa.Boolean, nullable=False, server_default=sa.false()))
        table.add_column(sa.Column("source", sa.String(16), nullable=False, server_default="local"))
        table.add_column(sa.Column("subject", sa.String(255), nullable=False, server_default=""))
        table.add_column(sa.Column("extension", sa.Text, nullable=False, server_default="{}"))
        table.create_index("ix_users_subject", ["source", "subject"])
    with op.batch_alter_table("tokens") as table:
        table.add_column(sa.Column("scope", sa.String(16), nullable=False, server_default="all"))
        table.add_column(sa.Column("name", sa.String(255), nullable=False, server_default=""))


def _widen_jobs() -> None:
    with op.batch_alter_table("jobs") as table:
        table.add_column(sa.Column("rank", sa.BigInteger, nullable=False, server_default="0"))
        table.add_column(sa.Column("time_limit_ms", sa.BigInteger))
        table.add_column(sa.Column("checkpoint_at_ms", sa.BigInteger))
        table.add_column(sa.Column("is_private", sa.Boolean, nullable=False, server_default=sa.false()))
        table.add_column(sa.Column("archived_at_ms", sa.BigInteger))
        table.add_column(sa.Column("archive_key", sa.String(32), nullable=False, server_default=""))
        table.add_column(sa.Column("is_tagged", sa.Boolean, nullable=False, server_default=sa.false()))
        table.drop_constraint("uq_jobs_owner_name", type_="unique")
        table.create_unique_constraint("uq_jobs_owner_name_archive_key", ["owner", "name", "archive_key"])
        table.drop_index("ix_jobs_submitted")
        table.drop_index("ix_jobs_owner_submitted")
        listed = ["name", "virtual_cluster", "phase", "priority_class", "is_tagged", "gpus_total", "tasks_total"]
        listed += ["retries_counted", "retries_free", "ended_at_ms"]
        for name, where in (("listing", "archive_key = ''"), ("archived", "archive_key > ''")):
            only = {"sqlite_where": sa.text(where), "postgresql_where": sa.text(where)}
            table.create_index(f"ix_jobs_{name}", ["submitted_at_ms", "id", "owner", *listed, "archive_key"], **only)
        table.create_index("ix_jobs_of_owner", ["owner", "archive_key", "submitted_at_ms", "id", *listed])
        table.create_index("ix_jobs_archive_key", ["archive_key"])
    op.execute("UPDATE jobs SET is_tagged = (1 = 1) WHERE id IN (SELECT job FROM tags)")
    with op.batch_alter_table("task_attempts") as table:
        table.add_column(sa.Column("seat", sa.String(255)))
        table.add_column(sa.Column("gpus", sa.Integer))
        table.add_column(sa.Column("cpus", sa.Integer))
        table.add_column(sa.Column("memory_mb", sa.Integer))
        table.add_column(sa.Column("owner", sa.String(255), nullable=False, server_default=""))
        table.add_column(sa.Column("virtual_cluster", sa.String(255), nullable=False, server_default=""))
        held = ["ended_at_ms", "granted_at_ms", "owner", "virtual_cluster", "gpus", "cpus", "memory_mb"]
        table.create_index("ix_task_attempts_held", held)
    op.execute(
        "UPDATE task_attempts SET"
        " owner = (SELECT jobs.owner FROM jobs WHERE jobs.id = task_attempts.job),"
        " virtual_cluster = (SELECT jobs.virtual_cluster FROM jobs WHERE jobs.id = task_attempts.job)"
        " WHERE EXISTS (SELECT 1 FROM jobs WHERE jobs.id = task_attempts.job)"
    )


def _add_tables() -> None:
    op.create_table(
        "idempotency",
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("job", sa.String(32), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("owner", "key", name="pk_idempotency"),
    )
    op.create_table(
        "groups",
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("external_name", sa.String(255), nullable=False),
        sa.Column("is_admin", sa.Boolean, nullable=False),
        sa.Column("virtual_clusters", sa.Text, nullable=False),
        sa.Column("managed", sa.Text, nullable=False),
        sa.Column("storages", sa.Text, nullable=False),
        sa.Column("extension", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_groups"),
    )
    op.create_table(
        "memberships",
        sa.Column("member", sa.String(255), nullable=False),
        sa.Column("group_name", sa.String(255), nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("member", "group_name", name="pk_memberships"),
    )
    op.create_index("ix_memberships_group", "memberships", ["group_name"])
    op.create_table(
        "settings",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("changed_at_ms", sa.BigInteger, nullable=False),
        sa.Column("changed_by", sa.String(255), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_settings"),
    )
    op.create_table(
        "node_notes",
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("cpus", sa.Integer, nullable=False),
        sa.Column("memory_mb", sa.Integer, nullable=False),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("gpu_model", sa.String(255), nullable=False),
        sa.Column("is_drained", sa.Boolean, nullable=False),
        sa.Column("bad_devices", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("changed_by", sa.String(255), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_node_notes"),
    )
    op.create_table(
        "storages",
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("sealed", sa.LargeBinary),
        sa.Column("is_read_only", sa.Boolean, nullable=False),
        sa.Column("is_shared", sa.Boolean, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_storages"),
    )
    op.create_table(
        "quotas",
        sa.Column("virtual_cluster", sa.String(255), nullable=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("gpus_running", sa.Integer),
        sa.Column("gpus_per_job", sa.Integer),
        sa.Column("jobs_unfinished", sa.Integer),
        sa.Column("gpu_hours_per_month", sa.Float),
        sa.PrimaryKeyConstraint("virtual_cluster", "owner", name="pk_quotas"),
    )
    op.create_table(
        "past_use",
        sa.Column("day", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("virtual_cluster", sa.String(255), nullable=False),
        sa.Column("gpu_ms", sa.Double, nullable=False),
        sa.Column("cpu_ms", sa.Double, nullable=False),
        sa.Column("memory_mb_ms", sa.Double, nullable=False),
        sa.Column("task_attempts", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("day", "owner", "virtual_cluster", name="pk_past_use"),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.String(255), nullable=False),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("target", sa.String(512), nullable=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("via", sa.String(255), nullable=False),
        sa.Column("address", sa.String(64), nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
    )
    op.create_index("ix_audit_actor", "audit", ["actor", "id"])
    op.create_index("ix_audit_owner", "audit", ["owner", "id"])


def _move_admins() -> None:
    """Make the two groups every platform has, and put everyone where they belong."""
    groups = sa.table(
        "groups",
        *(sa.column(name) for name in ("name", "description", "external_name", "is_admin")),
        *(sa.column(name) for name in ("virtual_clusters", "managed", "storages", "extension")),
    )
    no_grants = {"external_name": "", "managed": "[]", "storages": "[]", "extension": "{}"}
    everyone = {"name": DEFAULT_GROUP, "description": "everyone", "is_admin": False, "virtual_clusters": '["default"]'}
    admins = {"name": ADMIN_GROUP, "description": "administrators", "is_admin": True, "virtual_clusters": "[]"}
    op.bulk_insert(groups, [everyone | no_grants, admins | no_grants])
    into = "INSERT INTO memberships (member, group_name, position) SELECT name, '{}', {} FROM users {}"
    op.execute(into.format(DEFAULT_GROUP, 0, ""))
    op.execute(into.format(ADMIN_GROUP, 1, "WHERE is_admin"))
