"""The user's servers and the token for each, stored in a file that only the user may read.

The file is `~/.config/openpai/credentials.json` (under `XDG_CONFIG_HOME` if that is set). The variables
`PAI_URL` and `PAI_TOKEN` take precedence, so that a script needs no file.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from openpai.protocol.errors import InvalidParameters

URL_DEFAULT: Final = "http://127.0.0.1:9186"
_ADDRESS: Final = re.compile(r"https?://[^\s/]+(/\S*)?")


@dataclass(frozen=True, slots=True)
class Credentials:
    """A server's address and, after a login, the user and the token."""

    url: str
    user: str | None = None
    token: str | None = field(default=None, repr=False)


def normal_url(url: str) -> str:
    """Return an address in the form used in the credentials file; raise Refused for an invalid address."""
    address = url.strip()
    if "://" not in address:
        address = f"http://{address}"
    if not _ADDRESS.fullmatch(address) or not _has_good_port(address):
        raise InvalidParameters(f"{url!r} is not the address of a server", "write it like http://host:9186")
    return address.rstrip("/").removesuffix("/api/v2")


def _has_good_port(address: str) -> bool:
    try:
        return urlsplit(address).port != 0
    except ValueError:
        return False


def credentials_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the credentials file."""
    base = environment.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "openpai" / "credentials.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InvalidParameters(
            f"cannot read the credentials in {path}: {error}", "remove it and log in again"
        ) from error
    return content if _is_ours(content) else {}


def _is_ours(content: Any) -> bool:
    """Return whether a document has the form of the credentials file."""
    if not isinstance(content, dict) or not isinstance(content.get("current"), str | None):
        return False
    servers = content.get("servers")
    return isinstance(servers, dict) and all(isinstance(kept, dict) for kept in servers.values())


def _write(path: Path, content: Mapping[str, Any]) -> None:
    try:
        _replace(path, content)
    except OSError as error:
        raise InvalidParameters(
            f"cannot keep the credentials in {path}: {error.strerror}",
            "name another directory with XDG_CONFIG_HOME, or do without the file: PAI_URL and PAI_TOKEN",
        ) from error


def _replace(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp creates the file with mode 0600, so no other user can ever open it.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".credentials-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=2)
            file.write("\n")
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load(url: str | None = None, environment: Mapping[str, str] = os.environ) -> Credentials:
    """Return the credentials for `url`, else for `PAI_URL`, else for the server of the latest login."""
    content = _read(credentials_file(environment))
    address = normal_url(url or environment.get("PAI_URL") or content.get("current") or URL_DEFAULT)
    kept = (content.get("servers") or {}).get(address) or {}
    # A secret that was read from a file often ends with a newline.
    token = environment.get("PAI_TOKEN", "").strip()
    if token:
        return Credentials(address, None, token)
    return Credentials(address, kept.get("user"), kept.get("token"))


def save(credentials: Credentials, environment: Mapping[str, str] = os.environ) -> Path:
    """Store credentials, make their server the current one, and return the path of the file."""
    path = credentials_file(environment)
    content = _read(path)
    servers = dict(content.get("servers") or {})
    servers[credentials.url] = {"user": credentials.user, "token": credentials.token}
    _write(path, {"current": credentials.url, "servers": servers})
    return path


def forget(url: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Forget the credentials for a server; return whether there were any."""
    path = credentials_file(environment)
    content = _read(path)
    servers = dict(content.get("servers") or {})
    if servers.pop(url, None) is None:
        return False
    _write(path, {"current": content.get("current"), "servers": servers})
    return True
