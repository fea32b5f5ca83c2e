"""A platform to measure: started from nothing, asked over plain keep-alive connections, ended afterwards.

The asking side is deliberately thin, so that on two cores the figures are the server's and not the asker's.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PASSWORD = "bench-password"
_PAI = str(Path(sys.executable).with_name("pai"))


class Connection:
    """One keep-alive connection that sends a request and reads its answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> None:
        self._reader = reader
        self._writer = writer
        self._token = token

    @classmethod
    async def open(cls, url: str, token: str = "") -> Connection:
        """Open a connection to a server."""
        where = urlsplit(url)
        reader, writer = await asyncio.open_connection(where.hostname, where.port, limit=1 << 26)
        return cls(reader, writer, token)

    async def ask(self, method: str, path: str, body: bytes = b"", kind: str = "text/yaml") -> tuple[int, bytes]:
        """Return status and body of the answer."""
        head = f"{method} {path} HTTP/1.1\r\nHost: bench\r\nContent-Length: {len(body)}\r\nContent-Type: {kind}\r\n"
        if self._token:
            head += f"Authorization: Bearer {self._token}\r\n"
        self._writer.write(f"{head}\r\n".encode() + body)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        status = int(lines[0].split(" ")[1])
        if "transfer-encoding: chunked" in lines:
            return status, await self._chunks()
        length = next((int(line[15:]) for line in lines if line.startswith("content-length:")), 0)
        return status, await self._reader.readexactly(length)

    async def _chunks(self) -> bytes:
        body = b""
        while size := int((await self._reader.readline()).strip(), 16):
            body += await self._reader.readexactly(size)
            await self._reader.readexactly(2)
        await self._reader.readline()
        return body

    def close(self) -> None:
        """Let go of the connection."""
        self._writer.close()


@dataclass
class Server:
    """A running platform: its address, its process, and a token of its admin."""

    url: str
    pid: int
    data_dir: Path
    token: str = ""

    async def connect(self) -> Connection:
        """Open a connection of its own."""
        return await Connection.open(self.url, self.token)

    async def get(self, path: str) -> Any:
        """Return the answer to a GET as JSON."""
        connection = await self.connect()
        try:
            status, body = await connection.ask("GET", path)
        finally:
            connection.close()
        if status != 200:
            raise RuntimeError(f"GET {path}: {status} {body[:300]!r}")
        return json.loads(body)

    def cpu_s(self) -> float:
        """Return the processor time the server has used, in seconds."""
        return cpu_s(self.pid)

    async def stalls(self) -> dict[str, Any]:
        """Return how long the loop of the server was kept from its next turn since this was asked last."""
        figures = self.data_dir.parent / "stalls.json"
        figures.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR1)
        while not figures.exists():
            await asyncio.sleep(0.02)
        found: dict[str, Any] = json.loads(figures.read_text())
        return found

    def memory_mb(self) -> float:
        """Return the server's resident memory in MB."""
        return self._memory_mb("VmRSS:")

    def memory_most_mb(self) -> float:
        """Return the most resident memory that the server ever had, in MB."""
        return self._memory_mb("VmHWM:")

    def _memory_mb(self, field: str) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith(field))
        return round(int(line.split()[1]) / 1024, 1)


@asynccontextmanager
async def platform(
    *options: str, keep: Path | None = None, has_ticks: bool = False, under: str = ""
) -> AsyncIterator[Server]:
    """Run `pai up` with these options on a directory of its own, log in, and end it afterwards.

    With `has_ticks` it measures how long its loop is kept from its next turn; `under` names another module of this
    kind, which is called as `python -m MODULE FIGURES up ...` and writes its figures on SIGUSR1.
    """
    root = keep or Path(tempfile.mkdtemp(prefix="pai-bench-"))
    ready = root / "ready.json"
    ready.unlink(missing_ok=True)
    module = under or ("bench.stalls" if has_ticks else "")
    pai = [sys.executable, "-m", module, str(root / "stalls.json")] if module else [_PAI]
    command = [*pai, "up", "--port", "0", "--data-dir", str(root / "data")]
    with (root / "server.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, "--ready-file", str(ready), *options],
            stdout=log,
            stderr=log,
            env=_environment(),
            # A session of its own: what else runs here can be given a lower preference than the server.
            start_new_session=True,
        )
    try:
        server = await _ready(process, ready, root)
        yield server
    finally:
        process.send_signal(signal.SIGTERM)
        await _ended(process)
        if keep is None:
            shutil.rmtree(root, ignore_errors=True)


async def _ended(process: subprocess.Popen[bytes], patience_s: float = 30) -> None:
    """Wait for the end of a server, in a thread: what it asks meanwhile, this loop may have to answer."""
    try:
        await asyncio.to_thread(process.wait, patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise RuntimeError(f"the server did not end within {patience_s:.0f} s of SIGTERM") from None


def _environment() -> dict[str, str]:
    """Return the variables of the server. Its code is compiled once, as an installation has it."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PAI_ADMIN_PASSWORD": PASSWORD}


async def _ready(process: subprocess.Popen[bytes], ready: Path, root: Path) -> Server:
    deadline = time.monotonic() + 240
    while not ready.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the server did not start:\n{(root / 'server.log').read_text()}")
        await asyncio.sleep(0.02)
    message = json.loads(ready.read_text())
    server = Server(message["url"], message["pid"], root / "data")
    connection = await server.connect()
    login = json.dumps({"username": "admin", "password": PASSWORD}).encode()
    status, body = await connection.ask("POST", "/api/v2/authn/basic/login", login, "application/json")
    connection.close()
    if status != 200:
        raise RuntimeError(f"login: {status} {body!r}")
    server.token = json.loads(body)["token"]
    return server


def cpu_s(pid: int) -> float:
    """Return the processor time that a process has used, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def job(name: str, commands: str = "true", *, gpus: int = 0, instances: int = 1) -> bytes:
    """Return a job file with one task role."""
    return f"""protocolVersion: 2
name: {name}
type: job
prerequisites:
  - {{type: dockerimage, name: image, uri: "ubuntu:22.04"}}
taskRoles:
  worker:
    instances: {instances}
    dockerImage: image
    resourcePerInstance: {{cpu: 1, memoryMB: 64, gpu: {gpus}}}
    commands:
      - {json.dumps(commands)}
""".encode()


def percentile(values: list[float], share: float) -> float:
    """Return the value below which `share` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def answer(**figures: Any) -> None:
    """Print the figures as one JSON document."""
    print(json.dumps(figures, indent=2))
