"""How quickly keys are echoed while many shells are open in a task, over WebSockets and through the SSH gateway.

`python -m bench.shells --shells 200` opens the shells on terminals of one task, types a key into each in turn some ten
times a second, and measures when it comes back. Then 10 MB are pasted into a program, which has to receive every byte.
The bar: the 95th percentile of the echo below 30 ms. The asking side shares the machine with the server and its 200
shells, so that the figures include its own work.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import asyncssh
from websockets.asyncio.client import ClientConnection, connect

from bench.hangs import stop, submitted
from bench.server import Server, answer, platform

JOB: Final = """protocolVersion: 2
name: hold
type: job
prerequisites:
  - {name: image, type: dockerimage, uri: busybox}
taskRoles:
  worker:
    instances: 1
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 2048, gpu: 0}
    commands: ["sleep 100000"]
"""
EXEC: Final = "/api/v2/jobs/hold/attempts/0/taskRoles/worker/taskIndex/0/attempts/0/exec"
PASTED: Final = 10_000_000
# A terminal echoes by itself; here a program does, as an editor would. It says when the terminal has stopped, because a
# key that is typed before comes back twice.
ECHO: Final = "stty raw -echo; echo ready; exec cat"
READY: Final = b"ready\n"
Type = Callable[[bytes], Awaitable[bytes]]


async def over_websocket(server: Server, command: str, tty: str) -> ClientConnection:
    """Return the WebSocket of a command in the task."""
    words = "".join(f"&command={word}" for word in ("sh", "-c", command.replace(" ", "%20").replace(";", "%3B")))
    url = f"ws{server.url.removeprefix('http')}{EXEC}?tty={tty}{words}"
    headers = {"Authorization": f"Bearer {server.token}"}
    return await connect(url, additional_headers=headers, compression=None, ping_interval=None, max_size=None)


async def typing_over_websocket(server: Server) -> Type:
    """Return what types a key into a shell over a WebSocket, and awaits its echo."""
    socket = await over_websocket(server, ECHO, "true")

    async def output() -> bytes:
        while True:
            message = await socket.recv()
            assert isinstance(message, bytes)
            if len(message) > 1:
                return message[1:]

    async def type_(key: bytes) -> bytes:
        await socket.send(b"\x00" + key)
        return await output()

    shown = b""
    while not shown.endswith(READY):
        shown += await output()
    return type_


async def typing_over_ssh(client: asyncssh.SSHClientConnection) -> Type:
    """Return what types a key into a shell through the gateway, and awaits its echo."""
    process = await client.create_process(ECHO, term_type="xterm", encoding=None)

    async def type_(key: bytes) -> bytes:
        process.stdin.write(key)
        return await process.stdout.read(100)

    await process.stdout.readuntil(READY)
    return type_


async def echoes(shells: list[Type], seconds: float, per_s: float) -> dict[str, float]:
    """Return percentiles of the time from a key to its echo, while each shell is typed into."""
    took: list[float] = []

    async def typist(type_: Type, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        ends = time.perf_counter() + seconds
        while (began := time.perf_counter()) < ends:
            if await type_(b"k") != b"k":
                raise RuntimeError("another key came back")
            took.append(time.perf_counter() - began)
            await asyncio.sleep(max(1 / per_s - took[-1], 0))

    for type_ in shells:
        await type_(b"k")
    await asyncio.gather(*(typist(type_, index / len(shells) / per_s) for index, type_ in enumerate(shells)))
    cuts = statistics.quantiles(took, n=100)
    return {"p50_ms": round(cuts[49] * 1000, 1), "p95_ms": round(cuts[94] * 1000, 1), "keys": len(took)}


async def paste_over_websocket(server: Server) -> bool:
    """Return whether a program in the task receives every byte of a large paste."""
    data = os.urandom(PASTED)
    socket = await over_websocket(server, "sha256sum", "false")
    for start in range(0, len(data), 32_768):
        await socket.send(b"\x00" + data[start : start + 32_768])
    await socket.send(b"\xff")
    output = b""
    async for message in socket:
        assert isinstance(message, bytes)
        output += message[1:] if message[:1] == b"\x01" else b""
    return hashlib.sha256(data).hexdigest().encode() in output


async def measure(shells: int, seconds: float, per_s: float) -> dict[str, Any]:
    """Return the figures of both ways."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    async with platform("--backend", "process", "--ssh-port", "0") as server:
        await submitted(server, "hold", JOB)
        figures: dict[str, Any] = {"shells": shells}
        sockets = [await typing_over_websocket(server) for _ in range(shells)]
        cpu_s = server.cpu_s()
        figures["websocket"] = await echoes(sockets, seconds, per_s)
        figures["websocket"]["server_us_per_key"] = round((server.cpu_s() - cpu_s) * 1e6 / figures["websocket"]["keys"])
        figures["pasted_whole"] = await paste_over_websocket(server)
        figures["memory_mb"] = server.memory_mb()
        await stop(server, "hold")
    async with platform("--backend", "process", "--ssh-port", "0") as server:
        await submitted(server, "hold", JOB)
        await _add_key(server, key)
        address = (await server.get("/api/v2/jobs/hold/ssh"))["gateway"][0]
        options: dict[str, Any] = {
            "username": address["user"],
            "client_keys": [key],
            "known_hosts": None,
            "config": None,
        }
        async with asyncssh.connect("127.0.0.1", address["port"], **options) as client:
            data = os.urandom(PASTED)
            done = await client.run("sha256sum", input=data, encoding=None)
            assert isinstance(done.stdout, bytes)
            figures["ssh_pasted_whole"] = hashlib.sha256(data).hexdigest().encode() in done.stdout
            opened = [await typing_over_ssh(client) for _ in range(shells)]
            cpu_s = server.cpu_s()
            figures["ssh"] = await echoes(opened, seconds, per_s)
            figures["ssh"]["server_us_per_key"] = round((server.cpu_s() - cpu_s) * 1e6 / figures["ssh"]["keys"])
        await stop(server, "hold")
    figures["worst_p95_ms"] = max(figures[way]["p95_ms"] for way in ("websocket", "ssh"))
    figures["all_pasted"] = int(figures["pasted_whole"] and figures["ssh_pasted_whole"])
    return figures


async def _add_key(server: Server, key: asyncssh.SSHKey) -> None:
    connection = await server.connect()
    text = key.export_public_key().decode().strip()
    status, body = await connection.ask(
        "POST", "/api/v2/users/admin/ssh-keys", f'{{"key": "{text}"}}'.encode(), "application/json"
    )
    connection.close()
    if status != 201:
        raise RuntimeError(body.decode())


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shells", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--per-second", type=float, default=2, help="keys for each shell")
    asked = parser.parse_args()
    answer(**asyncio.run(measure(asked.shells, asked.seconds, asked.per_second)))


if __name__ == "__main__":
    main()
