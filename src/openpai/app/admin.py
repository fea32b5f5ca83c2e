"""`pai admin`: commands on a data directory, most of them while its server is stopped.

They need no login: a user who can read the data directory controls the platform anyway.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from openpai.cli import output, prompts
from openpai.cli.options import option

DataDirOption = Annotated[Path, option("--data-dir", "Where everything of the server is kept.", envvar="PAI_DATA_DIR")]
DatabaseOption = Annotated[
    str | None, option("--database-url", "PostgreSQL instead of SQLite: postgresql://...", envvar="PAI_DATABASE_URL")
]


def _configured(context: typer.Context, config: Path | None) -> Path | None:
    """Use what the file sets as defaults of the command's options."""
    if config is not None and not context.resilient_parsing:
        from openpai.app.server_settings import configured

        settings, _ = configured(config)
        known = {"data_dir": str(settings.data_dir), "database_url": settings.database_url}
        context.default_map = {**(context.default_map or {}), **known}
    return config


ConfigOption = Annotated[
    Path | None,
    option(
        "--config",
        "The configuration file of the server, if it has one.",
        envvar="PAI_CONFIG",
        callback=_configured,
        is_eager=True,
    ),
]
"""It only sets defaults of the two options above."""


def config(json: output.Json = False) -> None:
    """Print a configuration file with every setting, explained, for `pai up --config FILE`."""
    from openpai.app.config_file import described, example
    from openpai.cli.main import app

    up = typer.main.get_command(app).get_command(None, "up")  # type: ignore[attr-defined]
    if json:
        output.document(described(up))
    else:
        output.say(example(up).rstrip("\n"))


def reset_password(
    user: Annotated[str, option("--user NAME", "Whose password.")] = "admin",
    data_dir: DataDirOption = Path("~/.local/share/openpai"),
    database_url: DatabaseOption = None,
    password_stdin: prompts.PasswordStdin = False,
    make_up: Annotated[bool, option("--make-up", "Generate a password and print it.")] = False,
    config: ConfigOption = None,
    json: output.Json = False,
) -> None:
    """Make a user an administrator with a new password.

    For when the password of the only administrator is lost. The user is created if there is none. Their logins end;
    tokens of applications stay.
    """
    from openpai.app.startup import made_up_password

    password = made_up_password() if make_up else prompts.new_secret(f"New password of {user}", password_stdin)
    is_new = asyncio.run(_restored(data_dir, database_url, user, password))
    if output.as_json(json, {"user": user, "isNew": is_new, **({"password": password} if make_up else {})}):
        return
    output.say(f"{user} is {'a new' if is_new else 'an'} administrator and logs in with the new password")
    if make_up:
        output.say(f"password: {password}")
    output.next_step("pai up", f"pai login --user {user}")


async def _restored(data_dir: Path, database_url: str | None, user: str, password: str) -> bool:
    from openpai.app.clock import SystemClock
    from openpai.app.datadir import known_data_dir
    from openpai.app.startup import restore_admin
    from openpai.store.accounts import SqlAccountStore
    from openpai.store.database import Database
    from openpai.store.opening import migrate

    data = known_data_dir(data_dir)
    try:
        database = Database(data.require_database(database_url))
        try:
            await asyncio.to_thread(migrate, database)
            return await restore_admin(SqlAccountStore(database), SystemClock(), user, password)
        finally:
            database.close()
    finally:
        data.close()
