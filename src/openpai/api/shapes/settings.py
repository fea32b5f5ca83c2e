"""Settings as documents."""

from __future__ import annotations

from openpai.api.services import ServerSetting
from openpai.ports.cluster_settings import Setting
from openpai.wire import settings as wire


def server_setting(of: ServerSetting) -> wire.ServerSetting:
    """Return the document of a setting of this server."""
    return {
        "name": of.name,
        "environment": of.environment,
        "value": of.value,
        "default": of.default,
        "source": of.source,
        "file": of.file,
        "meaning": of.meaning,
        "choices": of.choices,
        "hidden": of.is_hidden,
    }


def live_setting(name: str, meaning: str, command: str, set_: Setting | None) -> wire.LiveSetting:
    """Return the document of a setting that is changed while servers run; `set_` is None for one that never was."""
    return {
        "name": name,
        "meaning": meaning,
        "command": command,
        "changedTime": set_.changed_at_ms if set_ is not None else None,
        "changedBy": set_.changed_by if set_ is not None else "",
    }
