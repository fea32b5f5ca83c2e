"""The progress of a task is found in its log, by the pattern of its job, at a bounded cost."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import pytest

from openpai.lifecycle.model import AttemptKey
from openpai.logs.files import FileLogs
from openpai.orchestrator.log_progress import LOOK_S, TAIL_BYTES, LogProgress, last_progress
from openpai.ports.task_usage import Counters, TaskSample
from openpai.runtime.progress import Progress

PATTERN: Final = r"step (?P<step>\d+)/(?P<total>\d+)(?: loss=(?P<loss>[\d.]+))?"
KEY: Final = AttemptKey("a" * 32, 0, "worker", 0, 0)


class World:
    def __init__(self, root: Path) -> None:
        self.directory = root / KEY.path()
        self.directory.mkdir(parents=True)
        self.logs = FileLogs(root, lambda _: False)
        self.found = LogProgress(self.logs, lambda job: PATTERN if job == KEY.job else "")
        self.at_ms = 0

    def write(self, text: str, stream: str = "stdout") -> None:
        with (self.directory / f"{stream}.log").open("a") as file:
            file.write(text)

    async def look(self, reported: Progress | None = None) -> tuple[Progress | None, int]:
        self.at_ms += 5000
        sample = TaskSample(KEY, self.at_ms, Counters(), progress=reported)
        (seen,) = await self.found.add([sample])
        return seen.progress, seen.progress_at_ms


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_the_last_match_counts_with_the_time_at_which_it_was_seen(world: World) -> None:
    assert await world.look() == (None, 0)
    world.write("step 1/9 loss=0.5\nstep 2/9 loss=0.25\nsaved\nstep 3")
    assert await world.look() == (Progress(2, 9, {"loss": 0.25}), 10_000)
    # Half a line is not a step: it may become 30.
    assert await world.look() == (Progress(2, 9, {"loss": 0.25}), 10_000)
    world.write("/9\n")
    assert await world.look() == (Progress(3, 9), 20_000)
    # The file of the program itself goes first.
    assert (await world.look(Progress(5)))[0] == Progress(5)


async def test_a_progress_bar_on_stderr_counts_and_an_old_state_is_not_found_again(world: World) -> None:
    world.write("\rstep 1/9\rstep 2/9\r", "stderr")
    assert (await world.look())[0] == Progress(2, 9)
    world.write("x" * 3 * TAIL_BYTES)
    world.write("\nstep 7/9\n")
    assert (await world.look())[0] == Progress(7, 9)
    assert await world.look() == (Progress(7, 9), 10_000)


def test_no_pattern_and_no_log_takes_long() -> None:
    dear = r"(?P<step>a)|(a|aa|aaa|.?){200}b"
    log = (b"a" * 600 + b"\n") * 100
    began_s = time.thread_time()
    assert last_progress(dear, log) is None
    # Without the limit 2 s; a piece that has begun is searched to its end.
    assert time.thread_time() - began_s < LOOK_S + 1
    assert last_progress(r"(?P<step>\d)", b"1" * TAIL_BYTES) == Progress(1)
    assert last_progress(r"(", log) is None
