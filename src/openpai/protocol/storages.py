"""The storages that a job file asks for: `extras.storages`, or OpenPAI's storage plugin."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from openpai.protocol.job import PLUGIN_PREFIX, JobSpec

STORAGE_PLUGIN: Final = "teamwise_storage"


@dataclass(frozen=True, slots=True)
class StorageUse:
    """A storage that a job asks for."""

    name: str
    mount_path: str
    where: str
    """Its place in the job file."""


def uses(spec: JobSpec, defaults: Sequence[str] = ()) -> tuple[StorageUse, ...]:
    """Return the storages a job asks for; an empty list in its extras asks for `defaults`."""
    listed = spec.extras.get("storages")
    if isinstance(listed, list):
        where = "extras.storages"
        wanted = [(str(each["name"]), each.get("mountPath")) for each in listed if each.get("name")]
        if not listed:
            wanted = [(name, None) for name in defaults]
    else:
        where = f"extras.{PLUGIN_PREFIX}"
        names = _old_names(spec.extras)
        wanted = [(name, None) for name in (() if names is None else names or defaults)]
    return tuple(
        # `normpath` keeps two leading slashes, which would hide that two mount paths are the same.
        StorageUse(name, posixpath.normpath(path).replace("//", "/") if path else f"/mnt/{name}", f"{where}.{number}")
        for number, (name, path) in enumerate(wanted)
    )


def with_uses(spec: JobSpec, wanted: Sequence[StorageUse]) -> JobSpec:
    """Return a job that asks for exactly these storages."""
    listed = [{"name": use.name, "mountPath": use.mount_path} for use in wanted]
    return replace(spec, extras={**spec.extras, "storages": listed})


def _old_names(extras: Mapping[str, Any]) -> list[str] | None:
    """Return the storages that OpenPAI's old storage plugin names: None without it, empty for the default ones."""
    plugins = extras.get(PLUGIN_PREFIX)
    for entry in plugins if isinstance(plugins, list) else ():
        if isinstance(entry, Mapping) and entry.get("plugin") == STORAGE_PLUGIN:
            parameters = entry.get("parameters")
            names = parameters.get("storageConfigNames") if isinstance(parameters, Mapping) else None
            return [str(name) for name in names] if isinstance(names, list) else []
    return None
