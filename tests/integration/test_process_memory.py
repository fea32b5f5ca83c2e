"""Memory limits by real cgroups: who uses too much is killed, its neighbour is not, and nothing leaks to the next."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from openpai.app.clock import SystemClock
from openpai.backends.host.directory import TaskDirectory
from openpai.backends.process.backend import ProcessBackend
from openpai.backends.process.cgroups import FIRST, Home, find_home
from openpai.backends.process.memory import LEAST_MB, kill_all
from openpai.lifecycle.model import ExitReason
from openpai.ports.backend import KillTask
from openpai.system.kernel_files import processes_in
from tests.contracts.process_harness import ProcessHarness
from tests.contracts.seen import Watch, a_key, a_launch, forget, ran

GREEDY = f"{sys.executable} -c 'x = bytearray(300 << 20)'"
MODEST = f"{sys.executable} -c 'x = bytearray(30 << 20); print(len(x))'"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Give the home that the backend below `tmp_path` is going to find."""
    found = find_home(str(tmp_path / "tasks"))
    if found is None:
        pytest.skip("no cgroup that limits memory can be made here: that takes an administrator, or a delegated cgroup")
    return found


@pytest_asyncio.fixture
async def host(home: Home, tmp_path: Path) -> AsyncIterator[ProcessHarness]:
    async with ProcessHarness(tmp_path) as made:
        yield made
    assert not os.access(home.path, os.F_OK)


def lent(home: Home) -> list[str]:
    return sorted(path.name for path in Path(home.path).iterdir() if path.is_dir())


def directory_of(host: ProcessHarness) -> Path:
    return Path(TaskDirectory(str(host.root), a_key()).path)


def limit_of(home: Home, name: str) -> int:
    return int(Path(home.path, name, home.generation.limit).read_text())


async def until_removed(cgroup: Path) -> None:
    # Killed processes take a moment to leave, without an event.
    async with asyncio.timeout(90):
        while cgroup.exists():  # noqa: ASYNC240
            with contextlib.suppress(OSError):
                cgroup.rmdir()  # noqa: ASYNC240
            await asyncio.sleep(0.01)


async def test_a_task_that_uses_too_much_memory_is_killed_and_its_neighbour_is_not(host: ProcessHarness) -> None:
    backend = await host.start()
    await backend.apply(
        [
            a_launch(host, a_key(1), host.programs.runs_until_resumed(0), memory_mb=64),
            a_launch(host, a_key(2), GREEDY, memory_mb=64),
            a_launch(host, a_key(3), MODEST, memory_mb=64),
        ]
    )
    watch = Watch(backend)
    greedy, modest = await watch.until_over(a_key(2), a_key(3))
    assert (greedy.code, greedy.reason) == (137, ExitReason.OOM_KILLED)
    assert "memory" in greedy.message
    assert (modest.code, modest.reason) == (0, ExitReason.EXITED)
    await host.resume(a_key(1))
    (neighbour,) = await watch.until_over(a_key(1))
    assert (neighbour.code, neighbour.reason) == (0, ExitReason.EXITED)


async def test_a_task_killed_by_hand_is_not_said_to_lack_memory(host: ProcessHarness) -> None:
    report = await ran(host, "kill -KILL $$")
    assert (report.code, report.reason) == (137, ExitReason.EXITED)


async def test_a_cgroup_is_used_again_with_the_limit_of_its_next_task(host: ProcessHarness, home: Home) -> None:
    backend = await host.start()
    watch = Watch(backend)
    for index, memory_mb in enumerate((200, 50, 1, 300)):
        await backend.apply([a_launch(host, a_key(index), "true", memory_mb=memory_mb)])
        await watch.until_over(a_key(index))
        assert lent(home) == ["1"]
        assert limit_of(home, "1") == max(memory_mb, LEAST_MB) << 20
        await forget(backend, a_key(index))
    await backend.apply([a_launch(host, a_key(9), GREEDY, memory_mb=400)])
    (report,) = await watch.until_over(a_key(9))
    assert report.code == 0
    await host.stop()
    assert lent(home) == ["1"]


async def test_a_cgroup_in_which_memory_ran_out_is_not_used_again(host: ProcessHarness, home: Home) -> None:
    backend = await host.start()
    watch = Watch(backend)
    # In the first generation only the program is killed, the script goes on, and the task succeeds.
    await backend.apply([a_launch(host, a_key(1), f"{GREEDY} || true", memory_mb=64)])
    (report,) = await watch.until_over(a_key(1))
    how = (0, ExitReason.EXITED) if home.generation is FIRST else (137, ExitReason.OOM_KILLED)
    assert (report.code, report.reason) == how
    await forget(backend, a_key(1))
    await backend.apply([a_launch(host, a_key(2), "exit 3", memory_mb=64)])
    (report,) = await watch.until_over(a_key(2))
    assert (report.code, report.reason) == (3, ExitReason.EXITED)
    assert lent(home) == ["2"]


async def test_memory_left_in_a_cgroup_does_not_count_against_the_next_task(host: ProcessHarness, home: Home) -> None:
    left = Path("/dev/shm") / f"openpai-test-{os.getpid()}"
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("/dev/shm cannot be written here")
    backend = await host.start()
    watch = Watch(backend)
    try:
        await backend.apply([a_launch(host, a_key(1), f"head -c 40000000 /dev/zero >{left}", memory_mb=64)])
        (report,) = await watch.until_over(a_key(1))
        assert report.code == 0
        await forget(backend, a_key(1))
        await backend.apply([a_launch(host, a_key(2), MODEST, memory_mb=64)])
        (report,) = await watch.until_over(a_key(2))
        assert report.code == 0
        assert lent(home) == ["2"]
    finally:
        left.unlink(missing_ok=True)


async def test_lack_of_memory_is_reported_by_the_next_server_too(host: ProcessHarness, home: Home) -> None:
    backend = await host.start()
    slow = f"echo ready\nwhile [ ! -e ../resume ]; do sleep 0.02; done\n{GREEDY}"
    await backend.apply([a_launch(host, a_key(1), GREEDY), a_launch(host, a_key(2), slow)])
    await Watch(backend).until_over(a_key(1))
    await host.crash()
    await host.resume(a_key(2))
    await host.until_gone(a_key(2))
    backend = await host.start()
    watch = Watch(backend)
    for report in await watch.until_over(a_key(1), a_key(2)):
        assert (report.code, report.reason) == (137, ExitReason.OOM_KILLED)
    await forget(backend, a_key(1), a_key(2))
    assert lent(home) == []


async def test_a_task_that_ran_through_a_restart_keeps_its_limit(host: ProcessHarness, home: Home) -> None:
    backend = await host.start()
    slow = f"while [ ! -e ../resume ]; do sleep 0.02; done\n{GREEDY}"
    await backend.apply([a_launch(host, a_key(1), slow, memory_mb=64)])
    await host.crash()
    backend = await host.start()
    watch = Watch(backend)
    await backend.apply([a_launch(host, a_key(2), "true", memory_mb=500)])
    await watch.until_over(a_key(2))
    assert lent(home) == ["1", "2"]
    await host.resume(a_key(1))
    (report,) = await watch.until_over(a_key(1))
    assert report.reason is ExitReason.OOM_KILLED


async def test_after_the_machine_was_restarted_no_cgroup_is_taken_for_a_former_tasks(
    host: ProcessHarness, home: Home
) -> None:
    backend = await host.start()
    await backend.apply([a_launch(host, a_key(1), host.programs.waits())])
    await host.until_printed(a_key(1), "ready")
    await host.crash()
    # A restart of the machine leaves the attempt's record, and neither its processes nor its cgroup.
    kill_all(f"{home.path}/1")
    await host.until_gone(a_key(1))
    await until_removed(Path(home.path, "1"))
    backend = await host.start()
    watch = Watch(backend)
    await backend.apply([a_launch(host, a_key(2), "echo ready\nwhile [ ! -e ../resume ]; do sleep 0.02; done\nexit 4")])
    await host.until_printed(a_key(2), "ready")
    (report,) = await watch.until_over(a_key(1))
    assert report.code == 137
    await forget(backend, a_key(1))
    assert lent(home) == ["2"]
    await host.resume(a_key(2))
    (report,) = await watch.until_over(a_key(2))
    assert report.code == 4


async def test_what_left_its_session_and_its_environment_dies_with_its_task(
    host: ProcessHarness, home: Home, tmp_path: Path
) -> None:
    escapes = "env -i setsid sh -c 'echo $$ >../stray; exec sleep 1000' &\nuntil [ -s ../stray ]; do sleep 0.01; done"
    await ran(host, escapes)
    stray = (directory_of(host) / "stray").read_text().strip()
    assert not is_alive(stray)
    assert processes_in(f"{home.path}/1") == []


async def test_strays_of_forgotten_attempts_die_when_the_next_server_starts(host: ProcessHarness, home: Home) -> None:
    backend = await host.start()
    await backend.apply([a_launch(host, a_key(), "env -i setsid sh -c 'echo ready; exec sleep 1000'\n")])
    await host.until_printed(a_key(), "ready")
    (cgroup,) = lent(home)
    await host.crash()
    directory_of(host).rename(host.root / ".trash" / "gone")
    await host.start()
    assert not processes_in(f"{home.path}/{cgroup}")


async def test_without_a_cgroup_tasks_run_without_a_limit(tmp_path: Path) -> None:
    host = ProcessHarness(tmp_path)
    backend = ProcessBackend(host.root, host.logs, SystemClock(), find_cgroups=lambda _: None)
    await backend.open()
    try:
        host.node = (await backend.nodes())[0].name
        await backend.apply([a_launch(host, a_key(1), GREEDY, memory_mb=64)])
        (report,) = await Watch(backend).until_over(a_key(1))
        assert (report.code, report.reason) == (0, ExitReason.EXITED)
        await backend.apply([KillTask(a_key(1))])
    finally:
        await backend.close()
        await host.destroy()


async def test_a_cgroup_that_cannot_be_entered_is_said_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = ProcessHarness(tmp_path)
    monkeypatch.setattr("openpai.backends.process.launching.entry_of", lambda _: str(tmp_path / "no" / "such" / "file"))
    try:
        report = await ran(host, "exit 4")
        assert report.code == 4
        assert "memory is not limited" in (host.logs / a_key().path() / "runtime.log").read_text()
    finally:
        await host.destroy()


def is_alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
