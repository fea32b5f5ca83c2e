"""A small WebHDFS: the operations of Hadoop's REST API that files need, over a directory, with its two-step transfers.

No Hadoop runs here. Like the real one it redirects reads and writes to a "data node", answers errors as
RemoteException, will not rename onto a file that exists, and lets nobody in who is not the user it knows.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

PREFIX = "/webhdfs/v1"
TOKEN = "delegated-secret"


class _Handler(BaseHTTPRequestHandler):
    root: Path
    names = threading.Lock()
    protocol_version = "HTTP/1.1"
    # Or the body of each answer waits until the client has acknowledged its head.
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def _asked(self) -> tuple[str, Path, dict[str, str]]:
        url = urlsplit(self.path)
        query = {key.lower(): values[0] for key, values in parse_qs(url.query).items()}
        path = unquote(url.path[len(PREFIX) :])
        return query["op"].upper(), self.root / path.strip("/"), query

    def _json(self, document: Any, status: int = 200) -> None:
        self._bytes(json.dumps(document).encode(), status, "application/json")

    def _bytes(self, body: bytes, status: int = 200, kind: str = "application/octet-stream") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _error(self, kind: str, message: str, status: int) -> None:
        self._json({"RemoteException": {"exception": kind, "message": message}}, status)

    def _is_let_in(self, query: dict[str, str]) -> bool:
        if query.get("delegation") == TOKEN:
            return True
        self._body()
        self._error("AccessControlException", f"wrong token in {self.path}", 403)
        return False

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _redirect(self) -> None:
        """Send the client to the data node, which is this same server."""
        host = self.headers["Host"]
        self.send_response(307)
        self.send_header("Location", f"http://{host}{self.path}&datanode=true")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _status(self, path: Path, name: str) -> dict[str, Any]:
        found = path.stat()
        return {
            "pathSuffix": name,
            "type": "DIRECTORY" if path.is_dir() else "FILE",
            "length": 0 if path.is_dir() else found.st_size,
            "modificationTime": int(found.st_mtime * 1000),
        }

    def do_GET(self) -> None:
        op, path, query = self._asked()
        if not self._is_let_in(query):
            return
        if not path.exists():
            self._error("FileNotFoundException", f"File does not exist: {path.name}", 404)
        elif op == "GETFILESTATUS":
            self._json({"FileStatus": self._status(path, "")})
        elif op == "LISTSTATUS":
            listed = [self._status(each, each.name) for each in path.iterdir()] if path.is_dir() else []
            self._json({"FileStatuses": {"FileStatus": listed or ([] if path.is_dir() else [self._status(path, "")])}})
        elif op == "OPEN" and "datanode" not in query:
            self._redirect()
        elif op == "OPEN":
            start = int(query.get("offset", 0))
            length = int(query["length"]) if "length" in query else None
            content = path.read_bytes()[start:]
            self._bytes(content if length is None else content[:length])

    def do_PUT(self) -> None:
        op, path, query = self._asked()
        if not self._is_let_in(query):
            return
        body = self._body()
        if op == "CREATE" and "datanode" not in query:
            self._redirect()
        elif op == "CREATE":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
            self._bytes(b"", 201)
        elif op == "RENAME":
            goal = self.root / query["destination"].strip("/")
            with self.names:
                done = path.exists() and not goal.exists() and goal.parent.is_dir()
                if done:
                    path.rename(goal)
            self._json({"boolean": done})
        elif op == "MKDIRS":
            path.mkdir(parents=True, exist_ok=True)
            self._json({"boolean": True})

    def do_POST(self) -> None:
        op, path, query = self._asked()
        if not self._is_let_in(query):
            return
        body = self._body()
        if op == "APPEND" and "datanode" not in query:
            self._redirect()
        elif op == "APPEND":
            with path.open("ab") as file:
                file.write(body)
            self._bytes(b"")

    def do_DELETE(self) -> None:
        _, path, query = self._asked()
        if not self._is_let_in(query):
            return
        with self.names:
            is_there = path.exists()
            if path.is_dir():
                shutil.rmtree(path)
            elif is_there:
                path.unlink()
        self._json({"boolean": is_there})


@contextlib.contextmanager
def webhdfs(root: Path) -> Iterator[int]:
    """Serve a directory and give the port."""
    handler = type("Handler", (_Handler,), {"root": root})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
