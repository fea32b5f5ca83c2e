"""Opens a database: creates a new one, migrates an older one, refuses a damaged or newer one."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

import sqlalchemy as sa
import structlog
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import exc

from openpai.protocol.errors import BadConfiguration
from openpai.store.database import Database
from openpai.store.db_errors import translate

_log: Final = structlog.get_logger(__name__)


def migrate(database: Database) -> None:
    """Bring the database to the newest schema. Raises Refused for one that is damaged or newer than this program."""
    config = _config()
    script = ScriptDirectory.from_config(config)
    try:
        with database.engine.connect().execution_options(writes=True) as connection, connection.begin():
            at = MigrationContext.configure(connection).get_current_revision()
            if at == script.get_current_head():
                return
            _refuse_strangers(connection, script, at)
            config.attributes["connection"] = connection
            if at is not None:
                _log.info("migrating the database; with a million jobs this takes minutes", schema=at)
            command.upgrade(config, "head")
        if at is not None:
            _log.info("the database is up to date", schema=script.get_current_head())
    except exc.DBAPIError as error:
        raise translate(error) from error


def require_newest(database: Database) -> None:
    """Raise Refused unless the database has the newest schema; change nothing."""
    script = ScriptDirectory.from_config(_config())
    try:
        with database.engine.connect() as connection:
            at = MigrationContext.configure(connection).get_current_revision()
    except exc.DBAPIError as error:
        raise translate(error) from error
    if at != script.get_current_head():
        raise BadConfiguration(
            f"the database has another schema ({at or 'none'}) than this openpai",
            "start the server that runs the jobs first, with the same version of openpai",
        )


def require_known(schema: str) -> None:
    """Raise Refused for an unknown schema, which is that of a newer program."""
    _refuse_newer(ScriptDirectory.from_config(_config()), schema)


@cache
def newest_schema() -> str:
    """Return the schema that this program works with."""
    return ScriptDirectory.from_config(_config()).get_current_head() or ""


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(files("openpai.store") / "migrations"))
    return config


def _refuse_strangers(connection: sa.Connection, script: ScriptDirectory, at: str | None) -> None:
    if at is not None:
        _refuse_newer(script, at)
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


def _refuse_newer(script: ScriptDirectory, at: str) -> None:
    if at not in {revision.revision for revision in script.walk_revisions()}:
        raise BadConfiguration(
            f"the database was last used by a newer openpai (schema {at})",
            "install that version or a newer one; this one changed nothing",
        )
