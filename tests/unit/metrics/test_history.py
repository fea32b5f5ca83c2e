"""The past of series: kept over crashes, in tiers, and answered with as many points as were asked for."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest

from openpai.metrics.file import open_file
from openpai.metrics.history import KeptHistory
from openpai.series.labels import Labels, matching
from openpai.series.model import Answer, Query
from openpai.series.retention import DAY_MS, HOUR_MS, Tier, Tiers
from openpai.series.rounds import Round

START_MS = 20_000 * DAY_MS
N1 = Labels.of({"node": "n1"})
JOB = Labels.of({"job_name": "ann~job", "task_index": "0"})
NAME = "pai_node_load1"


def round_at(at_ms: int, labels: Labels = N1, **values: float) -> Round:
    return Round(at_ms, {labels: values or {NAME: float(at_ms // 10_000 % 100)}})


async def settled(history: KeptHistory) -> None:
    for _ in range(10_000):
        await history.written()
        if history.open_blocks <= 1:
            return


async def fill(history: KeptHistory, start_ms: int, end_ms: int, make: Callable[[int], Round] = round_at) -> None:
    for at_ms in range(start_ms, end_ms, 10_000):
        history.keep(make(at_ms))
        if at_ms % HOUR_MS == 0:
            await settled(history)
    await settled(history)


@pytest.fixture
async def history(tmp_path: Path) -> AsyncIterator[KeptHistory]:
    found = KeptHistory(tmp_path / "metrics.db", pause_s=0)
    await found.open(START_MS)
    yield found
    await found.close()


async def ask(
    history: KeptHistory, start_ms: int, end_ms: int, step_ms: int = 10_000, now_ms: int = 0, name: str = NAME
) -> Answer:
    return await history.range(Query(name, (), start_ms, end_ms, step_ms), now_ms or end_ms)


def files_in(directory: Path) -> list[Path]:
    return list(directory.iterdir())


async def test_the_file_and_those_beside_it_are_private(history: KeptHistory, tmp_path: Path) -> None:
    history.keep(round_at(START_MS))
    await settled(history)
    modes = {path.name: path.stat().st_mode & 0o077 for path in files_in(tmp_path)}
    assert len(modes) >= 2
    assert set(modes.values()) == {0}


async def test_a_block_reads_as_the_memory_did(history: KeptHistory) -> None:
    await fill(history, START_MS, START_MS + HOUR_MS)
    before = await ask(history, START_MS, START_MS + HOUR_MS)
    await fill(history, START_MS + HOUR_MS, START_MS + HOUR_MS + 20_000)
    after = await ask(history, START_MS, START_MS + HOUR_MS)
    assert len(after.series[0].points()) == 360
    assert after.series[0].points() == before.series[0].points()
    joined = await ask(history, START_MS, START_MS + HOUR_MS + 20_000, 20_000)
    assert len(joined.series[0].points()) == 181


async def test_steps_have_the_mean_the_least_and_the_greatest(history: KeptHistory) -> None:
    await fill(
        history, START_MS, START_MS + 2 * HOUR_MS, lambda at_ms: round_at(at_ms, N1, pai_jobs=at_ms // 10_000 % 60)
    )
    (found,) = (await ask(history, START_MS, START_MS + 2 * HOUR_MS, 600_000, name="pai_jobs")).series
    assert list(found.mean) == [29.5] * 12
    assert list(found.low) == [0.0] * 12
    assert list(found.high) == [59.0] * 12


def tiers_in(directory: Path) -> dict[int, tuple[float, int]]:
    """Return of each tier the day of its first block, and how many it has."""
    with closing(open_file(directory / "metrics.db")) as file:
        rows = file.execute("SELECT tier, min(start_ms), count(*) FROM blocks GROUP BY tier").fetchall()
    return {tier: ((first_ms - START_MS) / DAY_MS, count) for tier, first_ms, count in rows}


async def test_days_become_coarser_and_old_values_expire(tmp_path: Path) -> None:
    tiers = Tiers(Tier("10s", 10_000, DAY_MS), Tier("5m", 300_000, 2 * DAY_MS), Tier("1h", HOUR_MS, 30 * DAY_MS))
    history = KeptHistory(tmp_path / "metrics.db", tiers, pause_s=0)
    await history.open(START_MS)
    try:
        for day in range(6):
            at_ms = START_MS + day * DAY_MS
            await fill(history, at_ms, at_ms + 600_000)
            await fill(history, at_ms + 20 * HOUR_MS, at_ms + 20 * HOUR_MS + 600_000)
        now_ms = START_MS + 6 * DAY_MS
        history.keep(round_at(now_ms))
        await settled(history)
        found = tiers_in(tmp_path)
        for _ in range(10_000):
            if found.get(2) == (0.0, 6):
                break
            # The last day becomes coarser once its block is closed, and a part of it at a time.
            await history.written()
            found = tiers_in(tmp_path)
        assert found[2] == (0.0, 6)
        assert found[1] == (3.0, 3)
        assert found[0][0] >= 4.8
        # All of it is one chart: coarse where only that is left, and finer after that.
        long = await ask(history, START_MS, now_ms, HOUR_MS, now_ms)
        assert len(long.series[0].points()) == 12
        # A day of which only hours are left, and two of five minutes.
        assert len((await ask(history, now_ms - 3 * DAY_MS, now_ms, 300_000, now_ms)).series[0].points()) == 2 + 2 * 4
        fine = await ask(history, START_MS, now_ms, 10_000, now_ms)
        assert len(fine.series[0].points()) > 60
    finally:
        await history.close()


async def test_a_new_job_finds_only_its_own_series(history: KeptHistory) -> None:
    both = {N1: {NAME: 1.0}, JOB: {NAME: 2.0}}
    await fill(history, START_MS, START_MS + HOUR_MS + 10_000, lambda at_ms: Round(at_ms, dict(both)))
    query = Query(NAME, matching({"job_name": "ann~job"}), START_MS, START_MS + HOUR_MS, 60_000)
    answer = await history.range(query, START_MS + HOUR_MS)
    assert [found.labels for found in answer.series] == [JOB]
    none = Query(NAME, matching({"job_name": "eve' OR 1=1 --"}), START_MS, START_MS + HOUR_MS, 60_000)
    assert (await history.range(none, START_MS)).matched == 0


async def test_no_more_series_are_returned_than_were_asked_for(history: KeptHistory) -> None:
    many = {Labels.of({"task_index": str(n)}): {NAME: 1.0} for n in range(50)}
    await fill(history, START_MS, START_MS + HOUR_MS + 10_000, lambda at_ms: Round(at_ms, many))
    answer = await history.range(Query(NAME, (), START_MS, START_MS + HOUR_MS, 60_000, series_max=7), START_MS)
    assert (len(answer.series), answer.matched) == (7, 50)


async def test_a_clock_that_jumps_breaks_nothing(history: KeptHistory) -> None:
    for at_ms in (
        START_MS,
        START_MS + 10_000,
        START_MS + 5_000,
        START_MS - 3 * DAY_MS,
        START_MS + 900 * DAY_MS,
        START_MS,
    ):
        history.keep(round_at(at_ms))
        await history.written()
    await settled(history)
    assert (await ask(history, START_MS - 4 * DAY_MS, START_MS + HOUR_MS)).series[0].points()


async def test_a_damaged_file_costs_only_the_past(tmp_path: Path) -> None:
    (tmp_path / "metrics.db").write_bytes(b"what is this?" * 1_000)
    history = KeptHistory(tmp_path / "metrics.db", pause_s=0)
    await history.open(START_MS)
    history.keep(round_at(START_MS))
    assert len((await ask(history, START_MS, START_MS + 10_000)).series) == 1
    await history.close()
    assert sum("damaged" in name for name in os.listdir(tmp_path)) == 1  # noqa: PTH208


_KILLED = """
import asyncio, os, sys
from pathlib import Path
from openpai.metrics.history import KeptHistory
from openpai.series.labels import Labels
from openpai.series.rounds import Round

async def main():
    history = KeptHistory(Path(sys.argv[1]))
    start_ms = int(sys.argv[2])
    await history.open(start_ms)
    for number in range(int(sys.argv[3])):
        many = {Labels.of({"n": str(n)}): {"pai_jobs": float(n * number % 91)} for n in range(10 + number)}
        history.keep(Round(start_ms + 10_000 * number, many))
    await history.written()
    print("kept", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.slow
async def test_a_killed_server_loses_no_finished_round(tmp_path: Path) -> None:
    path = tmp_path / "metrics.db"
    start_ms = START_MS
    for rounds in (5, 7):
        program = [sys.executable, "-c", _KILLED, str(path), str(start_ms), str(rounds)]
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:  # noqa: ASYNC220  a test waits
            assert process.stdout is not None
            assert process.stdout.readline() == "kept\n"
            process.send_signal(signal.SIGKILL)
        start_ms += 10_000 * rounds
    history = KeptHistory(path)
    await history.open(start_ms)
    found = await ask(history, START_MS, start_ms, name="pai_jobs")
    values = {one.labels.get("n"): [value for _, value in one.points()] for one in found.series}
    await history.close()
    assert values["3"] == [float(3 * number % 91) for number in (*range(5), *range(7))]
    # Measured first in the sixth round of the second server.
    assert values["14"] == [float(14 * number % 91) for number in (5, 6)]


async def test_rounds_that_could_not_be_written_do_not_confuse_later_ones(tmp_path: Path) -> None:
    history = KeptHistory(tmp_path / "metrics.db")
    await history.open(START_MS)
    writer = history._writer
    assert writer is not None
    history.keep(round_at(START_MS, N1, pai_jobs=1.0))
    await history.written()
    writer._connection.execute("ALTER TABLE journal RENAME TO away")
    history.keep(Round(START_MS + 10_000, {N1: {"pai_jobs": 2.0}, JOB: {"pai_nodes": 9.0}}))
    await history.written()
    writer._connection.execute("ALTER TABLE away RENAME TO journal")
    history.keep(Round(START_MS + 20_000, {N1: {"pai_jobs": 3.0}, JOB: {"pai_nodes": 8.0}}))
    await history.written()
    await history.close()
    again = KeptHistory(tmp_path / "metrics.db")
    await again.open(START_MS + 30_000)
    jobs = await ask(again, START_MS, START_MS + 30_000, name="pai_jobs")
    nodes = await ask(again, START_MS, START_MS + 30_000, name="pai_nodes")
    await again.close()
    assert [value for _, value in jobs.series[0].points()] == [1.0, 3.0]
    assert [value for _, value in nodes.series[0].points()] == [8.0]


async def test_an_hour_that_is_over_leaves_no_free_pages_of_its_journal(tmp_path: Path) -> None:
    path = tmp_path / "metrics.db"
    history = KeptHistory(path, pause_s=0)
    await history.open(START_MS)
    many = [Labels.of({"node": f"n{number}"}) for number in range(300)]
    for at_ms in range(START_MS, START_MS + HOUR_MS, 10_000):
        history.keep(Round(at_ms, {labels: {NAME: hash((labels, at_ms)) % 9973 / 7} for labels in many}))
    await history.written()
    with sqlite3.connect(path) as connection:
        rows, peak = connection.execute("SELECT count(*), sum(length(data)) FROM journal").fetchone()
        history.keep(Round(START_MS + HOUR_MS, {N1: {NAME: 1.0}}))
        await settled(history)
        await history.written()
        assert (rows, connection.execute("SELECT count(*) FROM journal").fetchone()[0]) == (360, 1)
        assert connection.execute("PRAGMA freelist_count").fetchone()[0] == 0
    connection.close()
    await history.close()
    assert peak > 50_000


async def test_a_journal_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    path = tmp_path / "metrics.db"
    history = KeptHistory(path, pause_s=0)
    await history.open(START_MS)
    for at_ms in (START_MS, START_MS + 10_000):
        history.keep(round_at(at_ms))
    await history.written()
    await history.close()
    with sqlite3.connect(path) as connection:
        columns = [[[["node", "n1"]], NAME]]
        for at_ms, text in ((START_MS, json.dumps(columns)), (START_MS + 10_000, "")):
            connection.execute("UPDATE journal SET columns = ? WHERE at_ms = ?", (text, at_ms))
    connection.close()
    again = KeptHistory(path, pause_s=0)
    await again.open(START_MS + 20_000)
    answer = await again.range(Query(NAME, (), START_MS, START_MS + 20_000, 10_000), START_MS + 20_000)
    await again.close()
    assert [at_ms for at_ms, _ in answer.series[0].points()] == [START_MS, START_MS + 10_000]
