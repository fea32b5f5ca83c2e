"""`pai admin doctor`: what is wrong with this installation, and what to do about it. Changes nothing."""

from __future__ import annotations

import json as json_
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

from openpai.app.check import Finding, of_database_and_files, report
from openpai.app.datadir import LAST_BACKUP, look_at_data_dir, running_address
from openpai.app.identity import read_identity
from openpai.app.machine_check import (
    check_certificates,
    check_clock,
    check_engine,
    check_inodes,
    check_kubeconfig,
    check_port,
    check_versions,
    files_of_certificates,
)
from openpai.app.server_settings import configured
from openpai.app.settings import Settings
from openpai.app.settings_check import check
from openpai.app.startup import promised_at_start
from openpai.cli.options import option
from openpai.cli.output import Json
from openpai.protocol.errors import PaiError

BACKUP_DAYS: Final = 7
_DAY_S: Final = 86_400

ConfigOption = Annotated[
    Path | None, option("--config", "The configuration file of the server, if it has one.", envvar="PAI_CONFIG")
]


def doctor(
    config: ConfigOption = None,
    data_dir: Annotated[
        Path | None, option("--data-dir", "Where everything of the server is kept [default: as configured].")
    ] = None,
    json: Json = False,
) -> None:
    """Say what is wrong with this installation, and what to do: run it as the server's user, with its settings.

    It looks at settings, versions, clock, disk, port, container Engine, permissions, database, backups and
    certificates. It exits with 1 if there is a fault.
    """
    findings = list(examine(config, data_dir))
    report(findings, {}, as_json=json)


def examine(config: Path | None, data_dir: Path | None) -> Iterator[Finding]:
    """Yield what was found. What fails does not hide the rest."""
    yield check_versions()
    try:
        settings, origins = configured(config)
        if data_dir is not None:
            settings = replace(settings, data_dir=data_dir)
        check(settings, origins)
    except PaiError as error:
        yield Finding("settings", "fault", error.message, error.advice)
        settings = Settings(data_dir or Settings().data_dir)
    else:
        yield _of_promises(settings, config)
    root = settings.data_dir.expanduser().absolute()
    looks: tuple[Callable[[], Iterator[Finding]], ...] = (
        lambda: _of_machine(settings, root),
        lambda: _of_data(settings, root),
        lambda: _of_certificates(settings),
    )
    for look in looks:
        try:
            yield from look()
        except PaiError as error:
            yield Finding("data directory", "fault", error.message, error.advice)
        except OSError as error:
            yield Finding("machine", "fault", f"{error.filename or ''} cannot be read: {error.strerror}".strip())


def _of_promises(settings: Settings, config: Path | None) -> Finding:
    try:
        promised_at_start(settings)
    except PaiError as error:
        return Finding("settings", "fault", error.message, error.advice)
    return Finding("settings", "ok", f"they fit together{f' ({config})' if config else ''}")


def _of_machine(settings: Settings, root: Path) -> Iterator[Finding]:
    if root.exists():
        yield check_clock(root)
        yield check_inodes(root)
    yield from check_port(settings, running_address(root))
    engine = check_engine(settings)
    if engine is not None:
        yield engine


def _of_data(settings: Settings, root: Path) -> Iterator[Finding]:
    data = look_at_data_dir(root)
    try:
        yield from of_database_and_files(data, settings.database_url)
        yield _of_backups(root)
    finally:
        data.close()


def _of_backups(root: Path) -> Finding:
    last = last_backup(root)
    if last is None:
        advice = "pai admin backup FILE, each night, to another machine"
        return Finding("backups", "warning", "none was made of this data directory", advice)
    days = (time.time() - float(last["time"])) / _DAY_S
    message = f"the last one was made {days:.1f} days ago: {last['file']}"
    if days > BACKUP_DAYS:
        return Finding("backups", "warning", message, "let a timer run `pai admin backup` each night")
    return Finding("backups", "ok", message)


def last_backup(root: Path) -> Mapping[str, Any] | None:
    """Return when and where the last backup was written; None if that is not known."""
    try:
        found = json_.loads((root / LAST_BACKUP).read_text("utf-8"))
        return {"time": float(found["time"]), "file": str(found["file"])}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _of_certificates(settings: Settings) -> Iterator[Finding]:
    files, url = files_of_certificates(settings.database_url), ""
    if settings.backend == "kubernetes":
        yield from check_kubeconfig(settings)
    if settings.identity is not None:
        identity = read_identity(settings.identity)
        url = identity.public_url or ""
        if identity.ldap is not None and identity.ldap.ca_file:
            files["of the directory"] = Path(identity.ldap.ca_file)
    yield from check_certificates(files, url)
