"""Tests whether a storage works, step by step, up to the first step that fails."""

from __future__ import annotations

import secrets
import socket
import struct
from collections.abc import AsyncIterator
from typing import Final

from openpai.ports.storages import Area, Entry, Step, Storage
from openpai.protocol.errors import PaiError
from openpai.storage.connections import Workers
from openpai.storage.driver import Connection
from openpai.storage.errors import ErrorTranslator

NFS_PORT: Final = 2049
_NFS_PROGRAM: Final = 100_003
_PATIENCE_S: Final = 10.0


async def try_connection(connection: Connection, workers: Workers, errors: ErrorTranslator) -> Step:
    """Return the result of connecting."""
    try:
        await workers.ask(connection.probe)
    except Exception as error:
        message = error.message if isinstance(error, PaiError) else errors.text(error)
        return Step("connect", False, "it does not answer" if isinstance(error, TimeoutError) else message)
    return Step("connect", True)


async def try_area(storage: Storage, area: Area, errors: ErrorTranslator) -> tuple[Step, ...]:
    """Return the results of listing and, unless it is read-only, of writing, reading and removing a small file."""
    steps: list[Step] = []
    name = f"pai-test-{secrets.token_hex(8)}"
    content = secrets.token_bytes(64)
    try:
        steps.append(Step("list", True, _entries(await area.list(""))))
        if storage.is_read_only:
            return (*steps, Step("write", True, "not tried: the storage is read-only"))
        try:
            await area.write(name, _once(content))
            steps.append(Step("write", True))
            found = b"".join([piece async for piece in area.read(name, 0, len(content) + 1)])
            message = "" if found == content else "it does not hold what was written to it"
            steps.append(Step("read", not message, message))
        finally:
            if any(step.what == "write" for step in steps):
                await area.remove(name)
        steps.append(Step("remove", True))
    except PaiError as error:
        what = ("list", "write", "read", "remove")[min(len(steps), 3)]
        return (*steps, Step(what, False, errors.clean(error.message)))
    return tuple(steps)


async def try_unmounted(storage: Storage, workers: Workers, errors: ErrorTranslator) -> tuple[Step, ...]:
    """Return the results for a storage that is not mounted here: an NFS server is asked whether it serves NFS."""
    if storage.kind == "claim":
        message = f"not tried: only pods mount the claim {storage.data['claim']}, and it has no data.mountedAt"
        return (Step("connect", True, message),)
    server = str(storage.data["server"])
    steps: list[Step] = []
    for what, work in (("connect", _connect), ("ask for NFS", _ask_nfs)):
        try:
            steps.append(Step(what, True, await workers.run(work, server)))
        except Exception as error:
            return (*steps, Step(what, False, f"{server} port {NFS_PORT}: {errors.text(error)}"))
    message = "not tried: it is not mounted on this server (data.mountedAt); a job on the docker backend mounts it"
    return (*steps, Step("list", True, message))


def _entries(found: tuple[Entry, ...]) -> str:
    return "1 entry" if len(found) == 1 else f"{len(found)} entries"


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _connect(server: str) -> str:
    with socket.create_connection((server, NFS_PORT), _PATIENCE_S) as opened:
        return f"{opened.getpeername()[0]} port {NFS_PORT} answers"


def _ask_nfs(server: str) -> str:
    """Call NFS's null procedure, in version 4 and then 3 (RFC 5531, RFC 7530)."""
    for version in (4, 3):
        with socket.create_connection((server, NFS_PORT), _PATIENCE_S) as opened:
            opened.settimeout(_PATIENCE_S)
            number = secrets.randbits(31)
            call = struct.pack(">10I", number, 0, 2, _NFS_PROGRAM, version, 0, 0, 0, 0, 0)
            opened.sendall(struct.pack(">I", 0x8000_0000 | len(call)) + call)
            answer = opened.recv(4 + 24)
        if len(answer) == 28 and struct.unpack(">7I", answer)[1:4] == (number, 1, 0) and answer[24:] == bytes(4):
            return f"it serves NFS version {version}"
    raise OSError("something answers there, but not NFS version 3 or 4")
