"""NCCL's RAS is asked with its own protocol, within a bounded time, and no other program is taken for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from openpai.backends.host.streams import connect
from openpai.lifecycle.model import AttemptKey
from openpai.orchestrator.nccl_ras import PORT, ask_ras, telling
from openpai.ports.shells import NothingListens, Stream

KEYS: Final = [AttemptKey("a" * 32, 0, "worker", index, 0) for index in range(5)]
STATUS: Final = """NCCL version 2.27.5 compiled with CUDA 12.9

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (0.00s)
=============

Errors
======

Warnings
========

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different collective operation counts
  26 ranks have launched up to operation 6650
  6 ranks have launched up to operation 6649
  Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210
"""
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Tasks:
    """Tasks of which those listed in `ports` have a program at RAS's port."""

    def __init__(self, ports: dict[int, int]) -> None:
        self.ports = ports
        self.asked: list[int] = []

    async def shell(self, key: AttemptKey, command: Any) -> Any:
        raise NotImplementedError

    async def connect(self, key: AttemptKey, port: int) -> Stream:
        assert port == PORT
        self.asked.append(key.index)
        if key.index not in self.ports:
            raise NothingListens(port)
        return await connect("127.0.0.1", self.ports[key.index])


@asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[int]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def ras(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer as NCCL does, in pieces."""
    assert await reader.readline() == b"CLIENT PROTOCOL 2\n"
    writer.write(b"SERVER PROT")
    await writer.drain()
    writer.write(b"OCOL 2\n")
    assert await reader.readline() == b"TIMEOUT 4\n"
    writer.write(b"OK\n")
    assert await reader.readline() == b"VERBOSE STATUS\n"
    writer.write(STATUS.encode())
    writer.close()


async def test_the_first_task_that_answers_speaks_for_the_job() -> None:
    async with listening(ras) as port:
        tasks = Tasks({1: port})
        found = await ask_ras(tasks, KEYS)
    assert tasks.asked == [0, 1]
    assert found.startswith("#0-0 (27a079b828ff1a75) MISMATCH; Communicator ranks have different")
    assert found.endswith("6 ranks have launched up to operation 6649")


async def test_a_job_without_nccl_is_asked_a_few_times_only() -> None:
    tasks = Tasks({})
    assert await ask_ras(tasks, KEYS) == ""
    assert tasks.asked == [0, 1, 2]


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readline()
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    writer.close()


async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()
    except ConnectionError:
        return


@pytest.mark.parametrize("serve", [silent, other, endless])
async def test_no_other_program_delays_the_report_or_is_believed(serve: Serve) -> None:
    async with listening(serve) as port:
        assert await ask_ras(Tasks({0: port}), KEYS[:1], patience_s=0.2) == ""


def test_only_what_is_wrong_is_shown_without_control_sequences() -> None:
    assert telling("Errors\n======\n\n\nWarnings\n========\n\n") == ""
    assert telling("Errors\n======\n#1 \x1b[2Jdead\nOther\n=====\nfine\n").isprintable()
    assert "fine" not in telling("Errors\n======\n#1 dead\nOther\n=====\nfine\n")
    assert len(telling("Errors\n======\n" + "x" * 10_000)) <= 400
