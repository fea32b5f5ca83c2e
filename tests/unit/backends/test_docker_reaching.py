"""A network storage whose server is silent is named before an Engine tries to mount it; what answers is left to it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from openpai.backends.docker.reaching import require_reachable
from openpai.ports.backend import Mount


def nfs(port: int) -> Mount:
    return Mount("data", ":/export", "/mnt/data", False, filesystem="nfs", options=f"addr=127.0.0.1,rw,port={port}")


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Yield a port whose queue is full: the system drops what asks for a connection."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        callers = [socket.socket() for _ in range(4)]
        for caller in callers:
            caller.setblocking(False)
            caller.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]
        for caller in callers:
            caller.close()


async def test_a_silent_server_is_named_with_its_storage(silent_port: int) -> None:
    with pytest.raises(
        OSError, match=rf"^storage data cannot be mounted: 127\.0\.0\.1 port {silent_port} does not"
    ) as why:
        await require_reachable([nfs(silent_port)], patience_s=0.2)
    assert "answer within 0.2 s" in str(why.value)


async def test_a_server_that_answers_or_refuses_is_left_to_the_mount() -> None:
    async def end(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(end, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await require_reachable([nfs(port)])
    server.close()
    await server.wait_closed()
    await require_reachable([nfs(port), Mount("local", "/data", "/mnt/local", False)])
