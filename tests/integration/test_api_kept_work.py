"""What tasks left over HTTP: who may have it, and what it is."""

from __future__ import annotations

import io
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from openpai.app.clock import SystemClock
from openpai.lifecycle.model import AttemptKey
from openpai.logs.kept_work import KeptDirectories

from .api_world import World, open_world

WORK = "/jobs/ann~train/work"
TASK = "/jobs/ann~train/attempts/0/taskRoles/worker/taskIndex/0/attempts/0/work"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as world:
        kept = KeptDirectories(tmp_path / "kept", SystemClock(), 3_600_000)
        object.__setattr__(world.api.state.context.services, "work", kept)
        yield world


async def left(world: World, root: Path, more: str = "") -> AttemptKey:
    """Return the attempt of a task that left a file."""
    key = AttemptKey(await world.submit(more=more), 0, "worker", 0, 0)
    await world.grant()
    await world.started(key)
    top = root / "kept" / key.path()
    top.mkdir(parents=True)
    (top / "model").write_bytes(b"weights")
    return key


async def test_what_a_task_left_is_listed_and_fetched(world: World, tmp_path: Path) -> None:
    await left(world, tmp_path)
    (kept,) = (await world.ask("GET", WORK)).json()["kept"]
    assert (kept["taskRoleName"], kept["taskIndex"], kept["attemptId"], kept["files"], kept["bytes"]) == (
        "worker", 0, 0, 1, 7,
    )  # fmt: skip
    answer = await world.ask("GET", TASK, params={"path": "model"})
    assert answer.headers["content-type"] == "application/x-tar"
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        assert archive.getnames() == ["model"]
    none = await world.ask("GET", TASK, params={"path": "../model"})
    assert (none.status_code, none.json()["code"]) == (404, "NoFileError")


async def test_who_may_not_read_a_jobs_logs_may_not_fetch_what_it_left(world: World, tmp_path: Path) -> None:
    await left(world, tmp_path)
    for place in (WORK, TASK, f"{WORK}/archive"):
        refused = await world.ask("GET", place, user="bob")
        assert (refused.status_code, refused.json()["code"]) == (403, "ForbiddenUserError")


async def test_the_outputs_of_a_job_are_what_is_fetched_unless_all_is_asked_for(world: World, tmp_path: Path) -> None:
    key = await left(world, tmp_path, more='extras: {outputs: ["out/*.json", model]}')
    (tmp_path / "kept" / key.path() / "out").mkdir()
    for name in ("out/a.json", "out/log", "scratch"):
        (tmp_path / "kept" / key.path() / name).write_text("x")
    assert await names(world) == {"model", "out/a.json"}
    assert await names(world, all="true") == {"model", "out/a.json", "out/log", "scratch"}
    assert await names(world, path="**/l*") == {"out/log"}
    odd = await world.ask("GET", TASK, params={"path": "*" * 65})
    assert (odd.status_code, odd.json()["code"]) == (400, "InvalidParametersError")


async def names(world: World, **params: str) -> set[str]:
    answer = await world.ask("GET", TASK, params=params)
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        return set(archive.getnames())


async def test_what_all_tasks_left_is_one_compressed_archive(world: World, tmp_path: Path) -> None:
    key = await left(world, tmp_path, more="extras: {outputs: [model]}")
    one = await world.ask("GET", f"{WORK}/archive")
    assert one.headers["content-type"] == "application/gzip"
    assert members(one.content) == {"model": b"weights"}
    other = tmp_path / "kept" / AttemptKey(key.job, 0, "worker", 1, 0).path()
    earlier = tmp_path / "kept" / AttemptKey(key.job, 0, "worker", 1, 3).path()
    for top in (other, earlier):
        top.mkdir()
        (top / "model").write_text(top.name)
        (top / "log").write_text("log")
        (top / "link").symlink_to("/etc/passwd")
    both = await world.ask("GET", f"{WORK}/archive")
    # The newest attempt of each task.
    assert members(both.content) == {"worker-0/model": b"weights", "worker-1/model": earlier.name.encode()}
    everything = await world.ask("GET", f"{WORK}/archive", params={"all": "true", "index": 1, "role": "worker"})
    assert set(members(everything.content)) == {"model", "log"}
    for asked in ({"attempt": 7}, {"role": "ps"}, {"path": "nothing"}):
        none = await world.ask("GET", f"{WORK}/archive", params=asked)
        assert (none.status_code, none.json()["code"]) == (404, "NoFileError")


def members(content: bytes) -> dict[str, bytes]:
    """Return the files of a compressed archive."""
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        found = {member.name: archive.extractfile(member) for member in archive}
        return {name: file.read() for name, file in found.items() if file is not None}
