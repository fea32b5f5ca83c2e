"""Why an administrator marked devices of a node as bad, for those who wonder."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Bring the schema from 0004 to 0005."""
    op.add_column("node_notes", sa.Column("bad_because", sa.Text, nullable=False, server_default=""))
