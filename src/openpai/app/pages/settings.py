"""The page of the settings of `pai up`, from its options."""

from __future__ import annotations

from typing import Any, Final

import typer

from openpai.app.config_file import choices_of, options_of, variable_of, written
from openpai.app.main import app
from openpai.app.pages.markdown import block, code, codes, page, table

_INTRO: Final = """\
Each setting of `pai up` has one name. On the command line it is `--name`, in the configuration file `name: value`, and
in the environment the variable that the table names. An option goes before the environment, the environment before
the file, and the file before the default. `pai admin config` prints a file with every setting, explained."""
_FILE: Final = """\
`pai up --config FILE`, or the variable `PAI_CONFIG`, names the file. Paths in it are relative to its own directory.
Unknown keys, values that do not fit and keys that are there twice are refused all at once, each with its line, what is
allowed and the name that was probably meant. What is found out later, because values exclude each other or the server
cannot start with them, is named with the line, the variable or the option that the value came from.

Secrets do not belong into it, and an address with a password in it is refused. They come from the server's
environment: `PAI_DATABASE_URL`, `PAI_METRICS_URL`, `PAI_ADMIN_PASSWORD` (the first password of `admin`),
`PAI_SECRET_KEY` (instead of the key in the data directory) and the variables that the identity file names. The password
of PostgreSQL may be in a [file of passwords](https://www.postgresql.org/docs/current/libpq-pgpass.html) instead:
`database-url: postgresql://pai@db/pai?passfile=/etc/openpai/pgpass`. Such a file, and an identity file with a secret in
it, must be closed to other users."""
_EXAMPLE: Final = """\
data-dir: /var/lib/openpai
host: 0.0.0.0
backend: docker
share: "vision: 2 nodes, speech: 8 GPUs"
identity: identity.yaml"""


def settings() -> str:
    """Return the page."""
    up: Any = typer.main.get_command(app).get_command(None, "up")  # type: ignore[attr-defined]
    rows = [
        [code(key), code(written(option.default)), code(variable_of(option)), _meaning(up, option)]
        for key, option in options_of(up).items()
    ]
    return page(
        "Settings of the server",
        "the options of `pai up`",
        _INTRO,
        table(("Setting", "Default", "Environment", "Meaning"), rows),
        "## The configuration file",
        _FILE,
        block(_EXAMPLE, "yaml"),
    )


def _meaning(up: Any, option: Any) -> str:
    choices = choices_of(up, option)
    return (option.help or "") + (f" One of {codes(choices)}." if choices else "")
