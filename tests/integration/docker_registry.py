"""A registry with one small image, for the Engine to pull from without any network but this machine's own."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.integration.docker_engine import engine, root_files, socket_at_engine

USER, PASSWORD = "alice", "correct horse"
_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


class Registry:
    """What the registry has, whom it lets in, and what it was asked."""

    def __init__(self) -> None:
        self.is_private = False
        self.is_broken = False
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.was_asked = threading.Event()
        self.blobs_sent = 0
        self.blobs: dict[str, bytes] = {}
        self.port = 0
        self.manifest = self._make_image()

    @property
    def image(self) -> str:
        """Return the name of the image that is here."""
        return f"127.0.0.1:{self.port}/team/tool:1"

    @property
    def missing_image(self) -> str:
        """Return the name of an image that is not here."""
        return f"127.0.0.1:{self.port}/team/nothing:1"

    def set_user(self, user: str) -> None:
        """Make the image that of a program which runs as `user`."""
        self.manifest = self._make_image(user)

    def _make_image(self, user: str = "") -> bytes:
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w") as tar:
            for target, source in root_files():
                tar.add(source, target.removeprefix("/"))
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {"User": user},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer.getvalue())]},
        }
        layers = [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", **self._keep(layer.getvalue(), 1)}]
        about = self._keep(json.dumps(config).encode())
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": {"mediaType": "application/vnd.docker.container.image.v1+json", **about},
            "layers": layers,
        }
        return json.dumps(manifest).encode()

    def _keep(self, data: bytes, compression: int = 0) -> dict[str, Any]:
        data = gzip.compress(data, compression) if compression else data
        self.blobs[_digest(data)] = data
        return {"digest": _digest(data), "size": len(data)}


@contextlib.contextmanager
def serving() -> Iterator[Registry]:
    """Serve a registry on a free port while the context lasts."""
    registry = Registry()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(registry), bind_and_activate=False)
    server.socket.close()
    server.socket = socket_at_engine(engine()[0])
    server.server_bind()
    server.server_activate()
    registry.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        registry.may_answer.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(registry: Registry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            registry.was_asked.set()
            registry.may_answer.wait()
            status, kind, data = self._answer()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Docker-Content-Digest", _digest(data))
            if status == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="registry"')
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data)

        def do_HEAD(self) -> None:
            self.do_GET()

        def _answer(self) -> tuple[int, str, bytes]:
            token = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            if registry.is_broken:
                return 503, "application/json", _error("UNAVAILABLE", "try again later")
            if registry.is_private and self.headers.get("Authorization") != f"Basic {token}":
                return 401, "application/json", _error("UNAUTHORIZED", "authentication required")
            what, _, which = self.path.rpartition("/")
            if self.path == "/v2/":
                return 200, "application/json", b"{}"
            if what == "/v2/team/tool/manifests":
                return 200, _MANIFEST, registry.manifest
            if what == "/v2/team/tool/blobs" and which in registry.blobs:
                registry.blobs_sent += 1
                return 200, "application/octet-stream", registry.blobs[which]
            return 404, "application/json", _error("MANIFEST_UNKNOWN", "manifest unknown")

        def log_message(self, *output: object) -> None:
            """Say nothing."""

    return Handler


def _error(code: str, message: str) -> bytes:
    return json.dumps({"errors": [{"code": code, "message": message}]}).encode()


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
