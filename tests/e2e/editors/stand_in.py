"""A stand-in for VS Code's server: the same arguments, and the same protocol up to an accepted session."""

from __future__ import annotations

import argparse
import json
import re
import signal
import socketserver
import struct
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"
HEAD = struct.Struct(">BIII")
CONTROL = 2


class Visit(socketserver.StreamRequestHandler):
    """One connection."""

    def handle(self) -> None:
        """Answer a request."""
        asked = self.rfile.readline().decode()
        while self.rfile.readline().strip():
            pass
        if asked.startswith("GET /version "):
            self.wfile.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(COMMIT)}\r\n\r\n{COMMIT}".encode())
        elif re.match(r"GET /\?reconnectionToken=\w+&", asked):
            self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
            self._session()

    def _session(self) -> None:
        if self._control().get("auth") != TOKEN:
            self._send({"type": "error", "reason": "Unauthorized client refused"})
            return
        self._send({"type": "sign", "data": "challenge", "signedData": "signed"})
        self._send({"type": "ok"} if self._control()["commit"] == COMMIT else {"type": "error", "reason": "mismatch"})
        while self.rfile.read(1):
            pass

    def _control(self) -> dict[str, str]:
        _, _, _, length = HEAD.unpack(self.rfile.read(HEAD.size))
        found: dict[str, str] = json.loads(self.rfile.read(length))
        return found

    def _send(self, message: dict[str, str]) -> None:
        data = json.dumps(message).encode()
        self.wfile.write(HEAD.pack(CONTROL, 0, 0, len(data)) + data)


class Server(socketserver.ThreadingTCPServer):
    """The server."""

    daemon_threads = True


if __name__ == "__main__":
    # Node.js does so for every signal, and so undoes what `nohup` did.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    parser = argparse.ArgumentParser()
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--connection-token-file", type=Path)
    options, _ = parser.parse_known_args()
    TOKEN = options.connection_token_file.read_text().strip()
    with Server((options.host, options.port), Visit) as server:
        print(f"Extension host agent listening on {server.server_address[1]}", flush=True)
        server.serve_forever()
