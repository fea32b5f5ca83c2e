"""A server in a task: it shows what it gets, and has a WebSocket beside it. It runs in a process of its own."""

from __future__ import annotations

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from websockets.sync.server import serve

PAGE = b"<!doctype html><title>demo</title><body>demo</body>"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.headers["Authorization"] != f"Bearer {os.environ['PAI_APPLICATION_TOKEN']}":
            self._answer(403, b"not through the platform")
        elif self.path.startswith("/large"):
            self._large(int(self.path.rpartition("/")[2]))
        elif "echo" in self.path:
            self._answer(200, json.dumps({name.lower(): value for name, value in self.headers.items()}).encode())
        else:
            self._answer(200, PAGE, ("Content-Type", "text/html"), ("Set-Cookie", "own=1; Path=/"))

    def _answer(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _large(self, size: int) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        piece = bytes(1 << 16)
        for _ in range(size // len(piece)):
            self.wfile.write(piece)

    def log_message(self, *args: object) -> None:
        """Print nothing."""


if __name__ == "__main__":
    page, chat = (int(port) for port in sys.argv[1:])
    threading.Thread(
        target=serve(lambda c: [c.send(m) for m in c], "127.0.0.1", chat).serve_forever, daemon=True
    ).start()
    ThreadingHTTPServer(("127.0.0.1", page), Handler).serve_forever()
