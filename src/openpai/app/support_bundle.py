"""`pai admin bundle`: one file that lets others find a fault of this installation, and holds no secret.

What goes into it is chosen, not filtered: versions, settings, findings, counts, sizes, and of the server's log the
parts that the server's own code wrote. No content of the database or of a file is copied. What is free text all the
same, such as the message of an error, is searched for the secrets that are known here.
"""

from __future__ import annotations

import contextlib
import io
import json as json_
import os
import platform
import re
import sys
import tarfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from importlib.metadata import distributions
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from openpai.app.datadir import DataDir, look_at_data_dir
from openpai.app.doctor import ConfigOption, examine
from openpai.app.keys import ENVIRONMENT
from openpai.app.server_settings import configured
from openpai.app.settings import Settings
from openpai.app.settings_shown import public
from openpai.cli import formatting
from openpai.cli.options import argument, option
from openpai.cli.output import Json, as_json, say
from openpai.protocol.errors import BadConfiguration, PaiError
from openpai.store.checking import Checking
from openpai.store.database import Database
from openpai.system.directory_size import taken_by

LINES_MAX: Final = 20_000
"""How many lines of the server's log are included: the newest."""
_LINE_MAX: Final = 64 << 10
_TEXT_MAX: Final = 500
_SIZE_MAX: Final = 1 << 50
_HIDDEN: Final = "***"
_KEPT_OF_A_LINE: Final = (
    "timestamp",
    "level",
    "request_id",
    "loop",
    "method",
    "status",
    "ms",
    "epoch",
    "schema",
    "tries",
)
_MADE_UP: Final = re.compile("[0-9a-f]{24}")
_FRAME: Final = re.compile(
    r'^\s*File "(?:.*/)?((?:openpai|site-packages|python3[^/]*)/[\w./-]+)", line (\d+), in (\w+)'
)
_ERROR: Final = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Refused|Unavailable|Broken|Timeout)\w*)(?::|$)")
_CREDENTIALS: Final = re.compile(r"(?<=://)[^/\s@]+@|\beyJ[\w.-]{20,}|(?i:bearer|password|token|secret|key)[=: ]+\S+")
_SECRET_VARIABLES: Final = (ENVIRONMENT, "PAI_ADMIN_PASSWORD", "PAI_TOKEN", "PGPASSWORD")


def bundle(
    file: Annotated[Path, argument("FILE", "The file to write, such as bundle.tar.gz.")],
    config: ConfigOption = None,
    data_dir: Annotated[
        Path | None, option("--data-dir", "Where everything of the server is kept [default: as configured].")
    ] = None,
    log: Annotated[Path | None, option("--log", "The server's log as JSON lines; - for standard input.")] = None,
    json: Json = False,
) -> None:
    """Write what helps to find a fault of this installation to one file, without secrets; the server may run.

    It holds versions, settings, the findings of `pai admin doctor`, counts of rows, sizes of files and, with --log,
    when the server logged what. No names of users, jobs or files, and no content of any. For a service:
    journalctl -u openpai -o cat | pai admin bundle FILE --log -
    """
    if file.exists():
        raise BadConfiguration(f"{file} exists already", "choose another name")
    try:
        settings, _ = configured(config)
    except PaiError:
        settings = Settings()
    root = (data_dir or settings.data_dir).expanduser().absolute()
    hide = Hiding(known_secrets(settings, root))
    parts: dict[str, Any] = {
        "versions.json": _versions(),
        "settings.json": {name: public(value) for name, value in asdict(settings).items()},
        "findings.json": [asdict(found) for found in examine(config, data_dir)],
        "data.json": _data(root, settings),
    }
    if log is not None:
        parts["log.json"] = _log(log)
    try:
        _write(file, {name: hide.text(json_.dumps(part, indent=1, default=str)) for name, part in parts.items()})
    except OSError as error:
        raise BadConfiguration(f"{file} cannot be written: {error.strerror}", "choose another place") from error
    if as_json(json, {"file": str(file), "parts": list(parts)}):
        return
    say(
        f"{file} ({formatting.size(file.stat().st_size)}) holds {', '.join(parts)}. Look through it before you send it."
    )


class Hiding:
    """Replaces the secrets that are known, and what looks like one, in a text."""

    def __init__(self, secrets: Iterable[str]) -> None:
        words = sorted({word for word in secrets if len(word) >= 4}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, words))) if words else None

    def text(self, text: str) -> str:
        """Return a text without them."""
        hidden = _CREDENTIALS.sub(_HIDDEN, text) if "://" in text or "earer" in text else text
        return self._known.sub(_HIDDEN, hidden) if self._known is not None else hidden


def known_secrets(settings: Settings, root: Path) -> Iterator[str]:
    """Yield the secrets that this machine shows: variables, the key, and passwords in addresses."""
    yield from (os.environ[name] for name in _SECRET_VARIABLES if os.environ.get(name))
    with contextlib.suppress(OSError, ValueError):
        yield from (root / "secret.key").read_text("ascii").split()
    for value in asdict(settings).values():
        if isinstance(value, str) and "://" in value:
            password = urlsplit(value).password
            yield from [password] if password else []


def _versions() -> dict[str, Any]:
    return {
        "time": int(time.time()),
        "python": sys.version,
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        # The name and the version of a package are each read from all that it says of itself.
        "packages": dict(
            sorted((found["Name"], found["Version"]) for found in (one.metadata for one in distributions()))
        ),
    }


def _data(root: Path, settings: Settings) -> dict[str, Any]:
    try:
        data = look_at_data_dir(root)
    except PaiError:
        return {"exists": False}
    try:
        return {"files": _files(data), "rows": _rows(data, settings)}
    finally:
        data.close()


def _files(data: DataDir) -> dict[str, Any]:
    """Return the sizes, modes and ages of what a data directory always has; other names are only counted."""
    names = ("openpai.db", "openpai.db-wal", "metrics.db", "metrics.db-wal", "secret.key", "database", "task-uids",
             "ssh-host-key", "logs", "tasks", "code", "reserve", "lock", "visitors", "last-backup")  # fmt: skip
    found: dict[str, Any] = {}
    for name in names:
        path = data.root / name
        if path.exists():
            about = path.stat()
            size = taken_by(str(path), _SIZE_MAX) if path.is_dir() else about.st_size
            entry = {"bytes": size, "mode": oct(about.st_mode & 0o7777), "age_s": int(time.time() - about.st_mtime)}
            found[name] = entry | ({"entries": sum(1 for _ in path.iterdir())} if path.is_dir() else {})
    found["others"] = sum(1 for path in data.root.iterdir() if path.name not in names)
    return found


def _rows(data: DataDir, settings: Settings) -> dict[str, Any]:
    try:
        database = Database(data.require_database(settings.database_url), inline=True)
    except PaiError:
        return {"isReadable": False}
    try:
        return Checking(database).counts()
    except PaiError:
        return {"isReadable": False}
    finally:
        database.close()


def _log(file: Path) -> dict[str, Any]:
    """Return of each of the newest lines of a log what the server's own code wrote."""
    kept: deque[Mapping[str, Any]] = deque(maxlen=LINES_MAX)
    left_out = 0
    try:
        with sys.stdin.buffer if str(file) == "-" else file.open("rb") as opened:
            for line in iter(lambda: opened.readline(_LINE_MAX), b""):
                entry = _of_line(line)
                left_out += entry is None
                if entry is not None:
                    kept.append(entry)
    except OSError as error:
        raise BadConfiguration(
            f"{file} cannot be read: {error.strerror}", "name the server's log with --log"
        ) from error
    return {"lines": list(kept), "linesLeftOut": left_out}


def _of_line(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json_.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    safe: dict[str, Any] = {
        name: value for name in _KEPT_OF_A_LINE if isinstance(value := entry.get(name), str | int | float)
    }
    safe = {name: value[:_TEXT_MAX] if isinstance(value, str) else value for name, value in safe.items()}
    if not _MADE_UP.fullmatch(str(safe.get("request_id", ""))):
        # A client may give any.
        safe.pop("request_id", None)
    # Sentences of this program hold no values; those of libraries may, and their lines name the library.
    if "logger" not in entry and isinstance(event := entry.get("event"), str):
        safe["event"] = event[:_TEXT_MAX]
    if isinstance(trace := entry.get("exception"), str):
        safe["frames"] = [" ".join(match.groups()) for each in trace.splitlines() if (match := _FRAME.match(each))]
        safe["errors"] = [match[1] for each in trace.splitlines() if (match := _ERROR.match(each))]
    return safe


def _write(file: Path, parts: Mapping[str, str]) -> None:
    made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(made, "wb") as opened, tarfile.open(fileobj=opened, mode="w:gz") as packed:
        for name, text in parts.items():
            content = text.encode("utf-8", "replace")
            about = tarfile.TarInfo(f"openpai-bundle/{name}")
            about.size, about.mtime, about.mode = len(content), int(time.time()), 0o600
            packed.addfile(about, io.BytesIO(content))
