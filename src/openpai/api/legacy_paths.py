"""Translates the paths that clients of OpenPAI send into the documented ones.

OpenPAI's gateway serves the API under `/rest-server`, so most of its clients add that prefix. The gateway merges double
slashes, which clients send when their base address ends with a slash, and forwards `/log-manager/HOST:PORT/` to that
host; without a gateway, this server answers it itself, for any host. OpenPAI's server ignores a slash at the end. The
paths are translated before any other code sees a request: a redirect would go to the host that the client named, and
some clients would lose a body or a token on the way.
"""

from __future__ import annotations

import re
from typing import Final

from starlette.types import Scope

_GATEWAY: Final = "/rest-server"
_BASE: Final = re.compile(r"\A/+(?:log-manager/+[^/]+/+)?(?:rest-server/+)?(?=api/)")
_HOST: Final = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?")
_ROOTS: Final = ("/api/v1", "/api/v2")
# The rest of these paths is the name of a file; the storage decides about a slash at its end.
_FILES: Final = re.compile(r"/api/v2/(storages/[^/]+/files|code)/.")


def as_described(path: str) -> str:
    """Return the documented path for a path in OpenPAI's or our form."""
    path = _BASE.sub("/", path)
    if path in _ROOTS:
        return path + "/"
    if path.endswith("/") and path.startswith("/api/") and path[:-1] not in _ROOTS and not is_file(path):
        return path[:-1]
    return path


def gateway_of(scope: Scope) -> str:
    """Return the prefix of paths in an answer, so that clients behind a gateway reach them through it."""
    match = _BASE.match(scope.get("raw_path", b"").decode("ascii", "replace"))
    return _GATEWAY if match and _GATEWAY in match[0] else ""


def log_manager_of(scope: Scope) -> str:
    """Return the prefix of the address of a log, so that OpenPAI's gateway forwards it to this server.

    The host is that of the request: the gateway reached this server there.
    """
    match = dict(scope["headers"]).get(b"host", b"").decode("ascii", "replace")
    found = _HOST.fullmatch(match)
    host, port = (found[1], found[2]) if found else ("localhost", None)
    usual = "443" if scope.get("scheme") == "https" else "80"
    return f"/log-manager/{host}:{port or usual}"


def is_file(path: str) -> bool:
    """Return whether a path is that of a file in a storage, or of code."""
    return _FILES.match(path) is not None
