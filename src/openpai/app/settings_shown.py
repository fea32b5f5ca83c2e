"""The settings of this server as administrators may see them: values, where each comes from, and no secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from openpai.api.services import ServerSetting, SettingSource
from openpai.app.config_file import choices_of, options_of, variable_of
from openpai.app.settings import Settings

_SOURCES: Final[Mapping[str, SettingSource]] = {
    "COMMANDLINE": "option",
    "ENVIRONMENT": "environment",
    "DEFAULT_MAP": "file",
}


def shown(context: Any, settings: Settings, file: Path | None) -> tuple[ServerSetting, ...]:
    """Return every setting of a server that was started with the command of this context."""
    found = []
    for key, option in options_of(context.command).items():
        value = getattr(settings, option.name)
        source = _SOURCES.get(getattr(context.get_parameter_source(option.name), "name", ""), "default")
        found.append(
            ServerSetting(
                name=key,
                environment=variable_of(option),
                value=public(value),
                default=public(option.default),
                source=source,
                file=str(file) if source == "file" and file is not None else "",
                meaning=option.help or "",
                choices=choices_of(context.command, option),
                is_hidden=public(value) != plain(value),
            )
        )
    return tuple(found)


def plain(value: Any) -> Any:
    """Return a value as JSON may have it."""
    return str(value) if isinstance(value, Path) else value


def public(value: Any) -> Any:
    """Return a value without what an address may hide: its user, its password and its query."""
    if not isinstance(value, str) or "://" not in value:
        return plain(value)
    if "=" in value.partition("://")[0]:
        # Titles with addresses, as those of plug-in pages, in which no user and no password may be.
        return re.sub(r"[?#][^\s,]*", "", value)
    parts = urlsplit(value)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
