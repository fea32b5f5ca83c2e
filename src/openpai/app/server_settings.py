"""The settings that `pai up` would use, for commands beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

from openpai.app.config_file import ENVIRONMENT_PREFIX, options_of, origins_of
from openpai.app.settings import Settings
from openpai.cli.lazy import load
from openpai.cli.main import wrong_value
from openpai.protocol.errors import BadConfiguration, PaiError


def configured(config: Path | None) -> tuple[Settings, Mapping[str, str]]:
    """Return the settings that `pai up` would use with this file and this environment, and where each comes from.

    Raises Refused.
    """
    up = load("up", "openpai.app.up:up")
    arguments = ["--config", str(config)] if config is not None else []
    try:
        context = up.make_context("up", arguments, auto_envvar_prefix=ENVIRONMENT_PREFIX)
    except PaiError:
        raise
    except Exception as error:
        # The class of this error is private to the command line library.
        problem = wrong_value(error)
        if not problem:
            raise
        raise BadConfiguration(problem, "`pai up --help` shows what it takes") from error
    hints = get_type_hints(Settings)
    values: dict[str, Any] = {one.name: context.params[one.name] for one in options_of(up).values()}
    for name, value in values.items():
        if hints[name] in (Path, Path | None) and value is not None:
            values[name] = Path(value)
    return Settings(**values), origins_of(context)
