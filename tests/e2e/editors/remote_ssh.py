"""What VS Code's Remote-SSH does on a host, with the real `ssh`: start its server there, and speak with it.

One `ssh -T -D PORT HOST bash` stays open for as long as the window does. A script on its standard input starts the
server, which listens on a port of the host's loopback, and prints where. Each connection to the server then goes
through the SOCKS proxy of `-D`. Beside it, `scp` brings the server to a host that cannot download it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import secrets
import socket
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from tests.ports import free_port

MANAGEMENT: Final = 1
EXTENSION_HOST: Final = 2
_WITHIN_S: Final = 60.0
_CONTROL: Final = 2
_HEAD: Final = struct.Struct(">BIII")
"""The head of a message of VS Code's protocol: its kind, its number, the number it acknowledges, its length."""
_START: Final = """
dir="$PWD/{directory}"
export VSCODE_AGENT_FOLDER="$dir/agent"
mkdir -p "$VSCODE_AGENT_FOLDER"
umask 077
if [ ! -f "$dir/pid" ] || ! kill -0 "$(cat "$dir/pid")" 2>/dev/null; then
    echo {token} >"$dir/token"
    nohup sh "$dir/bin/code-server-oss" --start-server --host=127.0.0.1 --port=0 --connection-token-file "$dir/token" \\
        --accept-server-license-terms --enable-remote-auto-shutdown --telemetry-level off \\
        --server-data-dir "$VSCODE_AGENT_FOLDER" >"$dir/log" 2>&1 </dev/null &
    echo $! >"$dir/pid"
fi
until on=$(sed -n 's/^Extension host agent listening on //p' "$dir/log") && [ -n "$on" ]; do
    kill -0 "$(cat "$dir/pid")" || break
    sleep 0.05
done
echo "{mark}: start"
echo "listeningOn==$on=="
echo "connectionToken==$(cat "$dir/token")=="
echo "pid==$(cat "$dir/pid")=="
echo "platform==$(uname -s)=="
[ -n "$on" ] || cat "$dir/log"
echo "{mark}: end"
"""


@dataclass(frozen=True)
class Host:
    """An entry of an ssh configuration."""

    config: Path
    name: str

    def run(self, *words: str, stdin: bytes = b"") -> str:
        """Run a command there, and return its output."""
        command = ["ssh", "-F", str(self.config), "-T", self.name, *words]
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=2 * _WITHIN_S)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def send(self, file: Path, to: str) -> None:
        """Copy a file there with `scp`."""
        command = ["scp", "-q", "-F", str(self.config), str(file), f"{self.name}:{to}"]
        done = subprocess.run(command, capture_output=True, timeout=2 * _WITHIN_S)
        assert done.returncode == 0, done.stderr.decode()


class Window:
    """A window of VS Code: its ssh, and the server that it found or started."""

    def __init__(self, host: Host, directory: str) -> None:
        """`directory` has the server, below the one in which commands begin."""
        self._proxy = free_port()
        command = ["ssh", "-F", str(host.config), "-v", "-T", "-D", str(self._proxy), "-o", "ConnectTimeout=15"]
        self.ssh = subprocess.Popen(
            [*command, host.name, "bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        mark = secrets.token_hex(6)
        script = _START.format(directory=directory, token=secrets.token_hex(16), mark=mark)
        assert self.ssh.stdin is not None
        assert self.ssh.stdout is not None
        self.ssh.stdin.write(script.encode())
        self.ssh.stdin.flush()
        output = ""
        while f"{mark}: end" not in output:
            line = self.ssh.stdout.readline().decode()
            assert line, f"ssh has ended with {self.ssh.wait()}: {output}"
            output += line
        found = dict(re.findall(r"^(\w+)==(.*)==$", output, re.MULTILINE))
        assert found["listeningOn"], output
        self.port, self.token, self.pid = int(found["listeningOn"]), found["connectionToken"], int(found["pid"])

    def lose(self) -> None:
        """Lose the connection, as a laptop that is closed does."""
        self.ssh.kill()
        self.ssh.wait()

    def close(self) -> None:
        """End the connection."""
        with contextlib.suppress(OSError):
            self.ssh.communicate(b"", timeout=_WITHIN_S)
        self.ssh.kill()
        self.ssh.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self, host: str = "127.0.0.1", port: int = 0) -> socket.socket:
        """Return a connection to a port of the task, the server's unless another is given."""
        made = socket.create_connection(("127.0.0.1", self._proxy), timeout=_WITHIN_S)
        made.sendall(b"\x05\x01\x00")
        assert made.recv(2) == b"\x05\x00"
        made.sendall(b"\x05\x01\x00\x03" + bytes([len(host)]) + host.encode() + struct.pack(">H", port or self.port))
        answer = made.recv(10)
        if answer[1:2] != b"\x00":
            made.close()
            raise ConnectionRefusedError(answer)
        return made

    def version(self) -> str:
        """Return the commit of the server, which VS Code compares with its own."""
        with self.connect() as made:
            made.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            output = b"".join(iter(lambda: made.recv(65536), b""))
        head, _, body = output.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), output
        found = re.search(rb"[0-9a-f]{40}", body)
        assert found, output
        return found[0].decode()

    @contextlib.contextmanager
    def session(self, kind: int, version: str, **arguments: Any) -> Iterator[Session]:
        """Yield one of the sessions of a window, once the server has accepted it."""
        with self.connect() as made:
            session = Session(made, self.token)
            session.begin(kind, version, arguments)
            yield session


class Session:
    """A WebSocket of VS Code, whose messages go without frames, as the desktop's do."""

    def __init__(self, made: socket.socket, token: str) -> None:
        self._socket = made
        self._token = token
        self._received = b""
        self.answer: dict[str, Any] = {}
        """What the server said when it accepted the session."""

    def begin(self, kind: int, version: str, arguments: dict[str, Any]) -> None:
        """Say who is there, and what is wanted; raise AssertionError if the server refuses."""
        key = base64.b64encode(os.urandom(16)).decode()
        about = f"reconnectionToken={secrets.token_hex(8)}&reconnection=false&skipWebSocketFrames=true"
        self._socket.sendall(
            f"GET /?{about} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        while b"\r\n\r\n" not in self._received:
            self._receive()
        head, _, self._received = self._received.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101"), head
        self._send({"type": "auth", "auth": self._token, "data": "challenge"})
        signed = self._control()
        assert signed["type"] == "sign", signed
        wanted = {"commit": version, "signedData": signed["data"], "desiredConnectionType": kind, "args": arguments}
        self._send({"type": "connectionType", **wanted})
        self.answer = self._control()
        assert self.answer.get("type") != "error", self.answer

    def next(self) -> tuple[int, bytes]:
        """Return the kind and the content of the next message."""
        while len(self._received) < _HEAD.size:
            self._receive()
        kind, _, _, length = _HEAD.unpack_from(self._received)
        while len(self._received) < _HEAD.size + length:
            self._receive()
        end = _HEAD.size + length
        content, self._received = self._received[_HEAD.size : end], self._received[end:]
        return kind, content

    def _control(self) -> dict[str, Any]:
        while True:
            kind, content = self.next()
            if kind == _CONTROL:
                found: dict[str, Any] = json.loads(content)
                return found

    def _send(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode()
        self._socket.sendall(_HEAD.pack(_CONTROL, 0, 0, len(data)) + data)

    def _receive(self) -> None:
        data = self._socket.recv(65536)
        assert data, f"the server has closed the connection after {self._received!r}"
        self._received += data
