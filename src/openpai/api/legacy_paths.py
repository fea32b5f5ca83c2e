"""Addresses as clients of OpenPAI write them, made into the ones that are described here.

OpenPAI's gateway serves its API under `/rest-server`, so most of its clients begin every address with that, and takes
two slashes for one, which clients write whose base address ends with one. It passes `/log-manager/HOST:PORT/` on to
that host; asked without a gateway, this server takes it for itself, whatever host it names. OpenPAI's server takes a
slash at the end for nothing. All is put right before anything else looks at a request: a redirect instead would go to
whatever host the client named, and would lose a body or a token on the way with some clients.
"""

from __future__ import annotations

import re
from typing import Final

from starlette.types import Scope

_GATEWAY: Final = "/rest-server"
_BASE: Final = re.compile(r"\A/+(?:log-manager/+[^/]+/+)?(?:rest-server/+)?(?=api/)")
_HOST: Final = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?")
_ROOTS: Final = ("/api/v1", "/api/v2")
# What follows here is the name of a file, and a slash at its end is for the storage to judge.
_FILES: Final = re.compile(r"/api/v2/storages/[^/]+/files/.")


def as_described(path: str) -> str:
    """Return the path that is meant by one which may be OpenPAI's spelling of it."""
    path = _BASE.sub("/", path)
    if path in _ROOTS:
        return path + "/"
    if path.endswith("/") and path.startswith("/api/") and path[:-1] not in _ROOTS and not is_file(path):
        return path[:-1]
    return path


def gateway_of(scope: Scope) -> str:
    """Return what addresses in an answer begin with, so that clients behind a gateway find them there."""
    asked = _BASE.match(scope.get("raw_path", b"").decode("ascii", "replace"))
    return _GATEWAY if asked and _GATEWAY in asked[0] else ""


def log_manager_of(scope: Scope) -> str:
    """Return what the address of a log begins with, so that OpenPAI's gateway passes it on to this server.

    The host is the one that we were asked at: the gateway reached us there.
    """
    asked = dict(scope["headers"]).get(b"host", b"").decode("ascii", "replace")
    found = _HOST.fullmatch(asked)
    host, port = (found[1], found[2]) if found else ("localhost", None)
    usual = "443" if scope.get("scheme") == "https" else "80"
    return f"/log-manager/{host}:{port or usual}"


def is_file(path: str) -> bool:
    """Return whether a path names something in a storage."""
    return _FILES.match(path) is not None
