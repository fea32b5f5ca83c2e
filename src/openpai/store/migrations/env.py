"""Runs migrations over the connection that `store.opening` hands in."""

from __future__ import annotations

from alembic import context

from openpai.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
)
context.run_migrations()
