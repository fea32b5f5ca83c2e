"""Connections into hostile containers on a real Engine: each ends in its task, and nowhere else."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from pathlib import Path

import pytest

pytest.importorskip("aiodocker", reason="the docker backend needs the package 'aiodocker', which is not installed")

from openpai.backends.docker.engine import Engine
from openpai.ports.backend import KillTask
from openpai.ports.shells import Shells
from openpai.protocol.errors import Unavailable
from tests.contracts.seen import Watch, a_key, a_launch
from tests.integration.test_docker_isolation import LISTENS, HostileHarness, a_service, a_world, world

__all__ = ["world"]


async def test_only_ports_of_the_task_are_forwarded_from_the_machines_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_world(tmp_path, host_network=True) as world:
        backend = await world.start()
        assert isinstance(backend, Shells)
        relay = """printf '#!/bin/sh\\nexec busybox nc "$@"\\n' >/bin/nc && chmod 755 /bin/nc"""
        await backend.apply([a_launch(world, a_key(), f"{relay}\n{LISTENS} & echo ready; wait")])
        await Watch(backend).until_running(a_key())
        await world.until_printed(a_key(), "ready")
        with a_service("127.0.0.1") as other:
            for user in (0, 1000):
                # A server that is not root connects through a program in the container.
                monkeypatch.setattr(os, "geteuid", lambda user=user: user)
                message = b""
                async with asyncio.timeout(60):
                    while not message:
                        with contextlib.suppress(Unavailable):
                            stream = await backend.connect(a_key(), 15000)
                            message = await stream.read()
                            await stream.close()
                assert message == b"reached\n"
                with pytest.raises(Unavailable, match=f"port {other}, but another program"):
                    await backend.connect(a_key(), other)
        await backend.apply([KillTask(a_key(), 0)])
        await Watch(backend).until_over(a_key())


async def test_no_process_of_this_machine_is_taken_for_one_of_another_engine(
    world: HostileHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = await world.start()
    assert isinstance(backend, Shells)
    await backend.apply([a_launch(world, a_key(), "echo ready; sleep infinity")])
    await Watch(backend).until_running(a_key())
    await world.until_printed(a_key(), "ready")

    async def here(self: Engine, name: str) -> tuple[int, str]:
        return os.getpid(), "0" * 64

    monkeypatch.setattr(Engine, "first_process", here)
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(Unavailable, match="nothing in the task"):
        await backend.connect(a_key(), other.getsockname()[1])
    await backend.apply([KillTask(a_key(), 0)])
    await Watch(backend).until_over(a_key())
