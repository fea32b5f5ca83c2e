"""`pai up`: runs a server in the foreground."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from openpai.app.config_file import ENVIRONMENT_PREFIX, origins_of, read_into
from openpai.app.settings import Settings
from openpai.cli.options import fields_as_options, option
from openpai.protocol.errors import PaiError
from openpai.system.garbage import importing


def _configured(context: typer.Context, config: Path | None) -> Path | None:
    if not context.resilient_parsing:
        read_into(context, config)
    return config


@fields_as_options(Settings, "settings")
def up(
    config: Annotated[
        Path | None,
        option(
            "--config",
            "Configuration file (YAML); environment variables and options override it.",
            envvar="PAI_CONFIG",
            callback=_configured,
            is_eager=True,
        ),
    ] = None,
    *,
    context: typer.Context,
    settings: Settings,
) -> None:
    """Run the platform here, in the foreground; Ctrl-C ends the server and leaves jobs running."""
    with importing():
        from openpai.app.console import set_up_logging
        from openpai.app.serve import serve
        from openpai.app.settings_check import add_origins, check
        from openpai.app.settings_shown import shown

    set_up_logging(settings.log_format)
    settings = replace(settings, data_dir=settings.data_dir.expanduser().absolute())
    origins = origins_of(context)
    check(settings, origins)
    try:
        serve(settings, os.environ.pop("PAI_ADMIN_PASSWORD", None), shown(context, settings, config))
    except PaiError as error:
        add_origins(error, settings, origins)
        raise


up.context_settings = {"auto_envvar_prefix": ENVIRONMENT_PREFIX}  # type: ignore[attr-defined]
