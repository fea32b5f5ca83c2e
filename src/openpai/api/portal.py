"""Serves the web portal: the files that `make portal` built, and its first page for each address that a browser opens.

The state of a page is its address, so the server answers the same first page for every address that is not the API's.
Names of other files contain a hash of their content: browsers keep them for ever. The build leaves a compressed form
beside each file, so nothing is compressed for a request.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from hashlib import sha256
from mimetypes import guess_type
from pathlib import Path
from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; worker-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_FIRST: Final = "index.html"
_HASHED: Final = "assets/"
_ENCODINGS: Final = (("br", ".br"), ("gzip", ".gz"))
# What belongs to the API, also where a browser asks for it.
_API: Final = (
    "/api/", "/docs", "/openapi.json", "/static-offline-docs/", "/healthz", "/readyz", "/prometheus/", "/log-manager/",
    "/rest-server/",
)  # fmt: skip


class PortalFiles:
    """The files of a built portal; a file that appears later is not served."""

    def __init__(self, directory: Path, framed: Collection[str] = ()) -> None:
        """Serve what is in a directory; pages may have frames of the origins in `framed`, and no others."""
        frames = f"; frame-src {' '.join(sorted(set(framed)))}" if framed else ""
        self._safe = {"content-security-policy": POLICY + frames, "cross-origin-opener-policy": "same-origin"}
        self._files = {path.relative_to(directory).as_posix(): path for path in directory.rglob("*") if path.is_file()}

    @property
    def is_built(self) -> bool:
        """Return whether there is a portal at all."""
        return _FIRST in self._files

    def answer(self, path: str, headers: Mapping[bytes, bytes]) -> Response | None:
        """Return the answer to a GET; None for what is not the portal's."""
        name = path.removeprefix("/")
        if name in self._files and not name.endswith((".br", ".gz")):
            return self._file(name, headers)
        is_page = b"text/html" in headers.get(b"accept", b"") or path == "/"
        if not is_page or path.startswith(_API) or name.startswith(_HASHED) or not self.is_built:
            return None
        return self._file(_FIRST, headers)

    def _file(self, name: str, headers: Mapping[bytes, bytes]) -> Response:
        content = self._files[name].read_bytes()
        etag = f'"{sha256(content).hexdigest()[:32]}"'
        answered = {**self._safe, "etag": etag, "vary": "Accept-Encoding"}
        answered["cache-control"] = "public, max-age=31536000, immutable" if name.startswith(_HASHED) else "no-cache"
        if etag in headers.get(b"if-none-match", b"").decode("latin-1"):
            return Response(status_code=304, headers=answered)
        accepted = headers.get(b"accept-encoding", b"").decode("latin-1")
        for encoding, suffix in _ENCODINGS:
            if encoding in accepted and name + suffix in self._files:
                content = self._files[name + suffix].read_bytes()
                answered["content-encoding"] = encoding
                break
        return Response(content, 200, answered, guess_type(name)[0] or "application/octet-stream")


class PortalPages:
    """ASGI middleware that answers requests for the portal and passes on all others."""

    def __init__(self, app: ASGIApp, *, files: PortalFiles) -> None:
        self._app = app
        self._files = files

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        answer = None
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD"):
            answer = self._files.answer(scope["path"], dict(scope["headers"]))
        await (answer or self._app)(scope, receive, send)
