"""Opens a database: creates a new one, migrates an older one, refuses a damaged or newer one."""

from __future__ import annotations

import sys
from typing import Final

import sqlalchemy as sa
import structlog
from sqlalchemy import exc

from openpai.protocol.errors import BadConfiguration
from openpai.store import revisions
from openpai.store.database import Database
from openpai.store.db_errors import translate
from openpai.store.revisions import newest_schema, schema_of, schemas

_log: Final = structlog.get_logger(__name__)


def migrate(database: Database) -> None:
    """Bring the database to the newest schema. Raises Refused for one that is damaged or newer than this program."""
    try:
        with database.engine.connect().execution_options(writes=True) as connection, connection.begin():
            at = schema_of(connection)
            if at == newest_schema():
                return
            _refuse_strangers(connection, at)
            if at is not None:
                _log.info("migrating the database; with a million jobs this takes minutes", schema=at)
            _upgrade(connection)
        if at is not None:
            _log.info("the database is up to date", schema=newest_schema())
    except exc.DBAPIError as error:
        raise translate(error) from error


def require_newest(database: Database) -> None:
    """Raise Refused unless the database has the newest schema; change nothing."""
    try:
        with database.engine.connect() as connection:
            at = schema_of(connection)
    except exc.DBAPIError as error:
        raise translate(error) from error
    if at != newest_schema():
        raise BadConfiguration(
            f"the database has another schema ({at or 'none'}) than this openpai",
            "start the server that runs the jobs first, with the same version of openpai",
        )


def require_known(schema: str) -> None:
    """Raise Refused for an unknown schema, which is that of a newer program."""
    if schema not in schemas():
        raise BadConfiguration(
            f"the database was last used by a newer openpai (schema {schema})",
            "install that version or a newer one; this one changed nothing",
        )


def _upgrade(connection: sa.Connection) -> None:
    # The templates of Alembic would read how to colour 20 programming languages. Without this they show errors plain.
    sys.modules.setdefault("mako.ext.pygmentplugin", None)  # type: ignore[arg-type]
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(revisions.migrations()))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _refuse_strangers(connection: sa.Connection, at: str | None) -> None:
    if at is not None:
        require_known(at)
    if at is None and sa.inspect(connection).get_table_names():
        raise BadConfiguration(
            "the database holds tables that are not openpai's", "use a separate database for openpai"
        )
    if at is None and connection.dialect.name == "postgresql":
        encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
        if encoding != "UTF8":
            raise BadConfiguration(
                f"the database is encoded in {encoding}, which cannot store all text",
                "create one with: createdb --encoding UTF8 --template template0 NAME",
            )
