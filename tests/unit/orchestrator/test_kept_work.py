"""What is said of the files that tasks left, and what happens to those of a user who keeps too much."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from openpai.lifecycle.model import AttemptKey
from openpai.logs.kept_work import KeptDirectories
from openpai.orchestrator.kept_work import KeptWatch, watch_kept_work
from openpai.orchestrator.leader import KeptLimit
from tests.unit.orchestrator.servers import Servers, live

DAY_MS = 86_400_000
LIMIT = 1000


class World:
    """A server whose tasks leave files."""

    def __init__(self, servers: Servers, root: Path) -> None:
        self.servers = servers
        self.root = root
        self.work = KeptDirectories(root, servers.clock, DAY_MS)
        self.watch = KeptWatch()
        self.why_none = ""

    async def left(self, job: str, index: int, size: int, age_ms: int = 0) -> Path:
        """Leave a file of this size as a task of a job that has ended."""
        if await self.servers.queries.job("ann", job) is None:
            await self.servers.submit(job, command="sleep 1")
            await self.servers.in_phase(job, "succeeded")
        row = await self.servers.row(job)
        top = self.root / AttemptKey(row.id, 0, "worker", index, 0).path()
        top.mkdir(parents=True)
        (top / "model").write_bytes(bytes(size))
        at_ns = (self.servers.clock.now_ms() - age_ms) * 1_000_000
        os.utime(top, ns=(at_ns, at_ns))
        return top

    async def look(self, user_bytes_max: int = 0) -> None:
        leader = self.servers.leader
        leader.kept = KeptLimit(self.work, self.servers.queries, user_bytes_max, self.why_none)
        await watch_kept_work(leader, self.watch)

    async def printed(self, job: str) -> list[tuple[str, str]]:
        events = [each.event for each in await self.servers.events(job)]
        return [(event.reason, event.message) for event in events if event.reason.startswith("Files")]


def tell(tmp_path: Path, story: Callable[[World], Awaitable[None]]) -> None:
    async def run(servers: Servers) -> None:
        await story(World(servers, tmp_path))

    live(run)


def test_each_job_says_once_what_of_it_is_kept_and_that_it_is_removed(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for index in range(2):
            await world.left("train", index, 10)
        await world.look()
        await world.look()
        ((reason, message),) = await world.printed("train")
        assert reason == "FilesKept"
        assert message.startswith("the files that worker-0, worker-1 left (2, with 20 bytes) are kept until 20")
        # Another server says nothing again.
        world.watch = KeptWatch()
        await world.look()
        assert len(await world.printed("train")) == 1
        world.work.expire(is_scarce=True)
        await world.look()
        ((reason, message),) = (await world.printed("train"))[1:]
        assert (reason, message.rpartition(": ")[2]) == ("FilesRemoved", "the platform's disk was almost full")

    tell(tmp_path, story)


@pytest.mark.parametrize("why_none", ["", "this server keeps no files"])
def test_a_job_that_leaves_none_of_its_outputs_says_so_once(tmp_path: Path, why_none: str) -> None:
    async def story(world: World) -> None:
        world.why_none = why_none
        for name, outputs in (("lost", ["weights", "*.log"]), ("kept", ["weights", "mod*"]), ("none", None)):
            extras = {} if outputs is None else {"outputs": outputs}
            await world.servers.submit(name, command="sleep 1", extras=extras)
            await world.servers.in_phase(name, "succeeded")
            if name != "none":
                await world.left(name, 0, 10)
        await world.look()
        assert [reason for reason, _ in await world.printed("lost")] == ["FilesKept"]
        await asyncio.sleep(31)
        await world.look()
        await world.look()
        _, (reason, message) = await world.printed("lost")
        assert (reason, message.partition(":")[0]) == (
            "FilesLost",
            "none of the job's outputs is kept (weights, *.log)",
        )
        assert why_none in message
        assert [reason for reason, _ in await world.printed("kept")] == ["FilesKept"]
        assert await world.printed("none") == []

    tell(tmp_path, story)


def test_of_a_user_who_keeps_too_much_the_oldest_is_removed_and_the_job_says_so(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        old = await world.left("old", 0, 600, age_ms=3_600_000)
        new = await world.left("new", 0, 600)
        await world.look(LIMIT)
        assert (old.exists(), new.exists()) == (False, True)
        kept, (reason, message) = await world.printed("old")
        assert (kept[0], reason) == ("FilesKept", "FilesRemoved")
        assert "of user ann at most" in message
        assert [reason for reason, _ in await world.printed("new")] == ["FilesKept"]
        # More than the limit in one attempt is not kept, either.
        huge = await world.left("huge", 0, LIMIT + 1)
        await world.look(LIMIT)
        assert (huge.exists(), new.exists()) == (False, False)

    tell(tmp_path, story)


def test_old_files_and_those_of_deleted_jobs_are_removed(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.left("train", 0, 10, age_ms=DAY_MS - 1000)
        gone = tmp_path / AttemptKey("f" * 32, 0, "worker", 0, 0).path()
        gone.mkdir()
        (gone / "model").write_text("x")
        await world.look(LIMIT)
        assert gone.exists()
        world.work.remove(list(world.watch.known))
        await world.look(LIMIT)
        (_, (reason, message)) = await world.printed("train")
        assert reason == "FilesRemoved"
        assert ": they were kept until 20" in message

    tell(tmp_path, story)
