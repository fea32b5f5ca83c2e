"""What only the process backend can get wrong: dead servers, strays, full disks, numbers that mean another process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from openpai.app.clock import SystemClock
from openpai.backends.host.directory import TRASH, TaskDirectory
from openpai.backends.process.backend import ProcessBackend
from openpai.backends.process.processes import born_at
from openpai.lifecycle.model import AttemptKey, ExitReason
from openpai.ports.backend import KillTask
from openpai.protocol.errors import Unavailable
from openpai.runtime.script import Ticket
from tests.contracts.process_harness import ProcessHarness
from tests.contracts.seen import Watch, a_key, a_launch, forget, observed, ran
from tests.fork_server import start

PATIENCE_S = 90.0


def directory_of(host: ProcessHarness, key: AttemptKey) -> Path:
    return Path(TaskDirectory(str(host.root), key).path)


def wrapper_of(host: ProcessHarness, key: AttemptKey) -> int:
    ticket = Ticket.parse((directory_of(host, key) / "ticket").read_text())
    assert ticket is not None
    assert ticket.pid is not None
    return ticket.pid


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():  # noqa: ASYNC110  # what other processes do raises no event here
            await asyncio.sleep(0.01)


def words_of(host: ProcessHarness, first: int, count: int, commands: str) -> tuple[str, ...]:
    """Return the words of a `process_server` that launches tasks with the keys of `a_key`."""
    return (str(host.root.parent), a_key().job, a_key().role, str(first), str(count), commands)


def a_server(host: ProcessHarness, first: int, count: int, commands: str) -> subprocess.Popen[bytes]:
    """Start a server that launches tasks and says the number of each in a line."""
    printed, written = os.pipe()
    with os.fdopen(written, "wb") as log:
        words = words_of(host, first, count, commands)
        server = start("tests.integration.process_server:main", words, os.environ, log)
    server.stdout = os.fdopen(printed, "rb")
    return server


def killed_after(server: subprocess.Popen[bytes], lines: int) -> None:
    """Kill a server the hard way once it has printed that many lines."""
    assert server.stdout is not None
    for _ in range(lines):
        assert server.stdout.readline()
    server.kill()
    server.wait()
    server.stdout.close()


async def test_exits_after_the_server_was_killed_are_reported_with_their_real_codes(host: ProcessHarness) -> None:
    commands = 'while [ ! -e ../resume ]; do sleep 0.02; done\nexit "$(cat ../resume)"'
    killed_after(a_server(host, 0, 3, commands), 3)
    keys = [a_key(index) for index in range(3)]
    for key in keys[:2]:
        # Two end while no server is there, the third after the next one took it up.
        fresh = directory_of(host, key) / "resume.new"
        fresh.write_text(str(10 + key.index))
        fresh.rename(fresh.with_name("resume"))
    for key in keys[:2]:
        await host.until_gone(key)
    backend = await host.start()
    watch = Watch(backend)
    reports = await watch.until_over(*keys[:2])
    assert [(report.code, report.reason) for report in reports] == [(10, ExitReason.EXITED), (11, ExitReason.EXITED)]
    await watch.until_running(keys[2])
    (directory_of(host, keys[2]) / "resume").write_text("12")
    (report,) = await watch.until_over(keys[2])
    assert (report.code, report.reason) == (12, ExitReason.EXITED)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in (1, 2))])
async def test_servers_killed_at_random_moments_run_nothing_twice_and_lose_nothing(
    host: ProcessHarness, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    ran = tmp_path / "ran"
    commands = f'echo "$PWD" >>{ran}\nsleep 0.0{chance.randrange(1, 9)}\nexit 7'
    per_server, servers = 20, 6
    for first in range(0, servers * per_server, per_server):
        # Every server launches what its predecessor may have launched as well.
        server = a_server(host, max(0, first - per_server), 2 * per_server, commands)
        killed_after(server, chance.randrange(1, 2 * per_server))
    backend = await host.start()
    watch = Watch(backend)
    keys = [seen.key for seen in await backend.observe()]
    reports = await watch.until_over(*keys)
    times = Counter(ran.read_text().split())
    for key, report in zip(keys, reports, strict=True):
        began = times[str(directory_of(host, key) / "work")]
        if report.reason is ExitReason.LAUNCH_FAILED:
            assert began == 0, (seed, key, report)
        else:
            assert (began, report.code, report.reason) == (1, 7, ExitReason.EXITED), (seed, key, report)
    assert sum(report.reason is ExitReason.EXITED for report in reports) > 0
    assert len(times) == sum(times.values())


async def test_only_one_server_uses_a_root(host: ProcessHarness) -> None:
    await host.start()
    second = ProcessBackend(host.root, host.logs, SystemClock())
    with pytest.raises(Unavailable, match=f"process {os.getpid()}"):
        await second.open()
    await host.stop()
    await second.open()
    await second.close()


async def test_an_unclaimed_launch_of_a_dead_server_is_fenced(host: ProcessHarness) -> None:
    await ran(host, "echo ran")
    await host.stop()
    directory = directory_of(host, a_key())
    for name in ("ticket", "exit"):
        (directory / name).unlink()
    backend = await host.start()
    (report,) = await Watch(backend).until_over(a_key())
    assert report.reason is ExitReason.LAUNCH_FAILED
    logs = str(host.logs / a_key().path())
    late = await asyncio.create_subprocess_exec(
        "/bin/sh", str(host.root / ".wrapper.sh"), str(directory), logs, "", "1", start_new_session=True
    )
    assert await asyncio.wait_for(late.wait(), PATIENCE_S) == 75
    assert host.output(a_key()) == "ran\n"


async def test_a_process_that_left_its_session_dies_with_a_killed_task(host: ProcessHarness) -> None:
    backend = await host.start()
    await backend.apply([a_launch(host, a_key(), "setsid sh -c 'echo ready; sleep 1000' &\nwait")])
    await host.until_printed(a_key(), "ready")
    await backend.apply([KillTask(a_key(), 5.0)])
    await Watch(backend).until_over(a_key())
    assert host.processes(a_key()) == 0


async def test_a_process_that_left_its_session_dies_before_its_device_is_free(host: ProcessHarness) -> None:
    commands = "setsid sh -c 'echo >ready; exec sleep 1000' &\nuntil [ -s ready ]; do sleep 0.01; done"
    await ran(host, commands, devices=(0,))
    assert host.processes(a_key()) == 0


async def test_the_regular_sweep_finds_what_escaped_and_spares_what_runs(host: ProcessHarness) -> None:
    await host.start()
    await host.stop()
    backend = ProcessBackend(host.root, host.logs, SystemClock(), sweep_every_s=0.05)
    await backend.open()
    try:
        escapes = "setsid sh -c 'echo ready; exec sleep 1000' &\nwhile [ ! -e ../resume ]; do sleep 0.02; done"
        await backend.apply([a_launch(host, a_key(1), escapes), a_launch(host, a_key(2), host.programs.waits())])
        await host.until_printed(a_key(1), "ready")
        await host.until_printed(a_key(2), "ready")
        assert host.processes(a_key(1)) > 1
        await host.resume(a_key(1))
        await Watch(backend).until_over(a_key(1))
        await host.until_gone(a_key(1))
        assert host.processes(a_key(2)) > 1
        seen = await observed(backend, a_key(2))
        assert seen is not None
        assert seen.exit is None
    finally:
        await backend.close()


async def test_strays_of_unknown_attempts_are_killed_at_the_start(host: ProcessHarness) -> None:
    backend = await host.start()
    await backend.apply([a_launch(host, a_key(), "setsid sh -c 'echo ready; exec sleep 1000' &\nwait")])
    await host.until_printed(a_key(), "ready")
    await host.crash()
    os.killpg(wrapper_of(host, a_key()), signal.SIGKILL)
    backend = await host.start()
    (report,) = await Watch(backend).until_over(a_key())
    assert report.code == 137
    assert host.processes(a_key()) == 0


async def test_a_wrapper_that_was_killed_is_reported_by_its_signal(host: ProcessHarness) -> None:
    backend = await host.start()
    await backend.apply([a_launch(host, a_key(), host.programs.waits())])
    await host.until_printed(a_key(), "ready")
    os.kill(wrapper_of(host, a_key()), signal.SIGKILL)
    (report,) = await Watch(backend).until_over(a_key())
    assert (report.code, report.reason) == (137, ExitReason.EXITED)
    await host.until_gone(a_key())


@pytest.mark.parametrize("act", ["rm -rf ../exit ../ticket ../task.json", 'cd ..; rm -rf "$PWD"'])
async def test_a_task_that_removes_its_own_directory_is_reported_with_its_own_code(
    host: ProcessHarness, act: str
) -> None:
    report = await ran(host, f"{act}\nexit 9")
    assert (report.code, report.reason) == (9, ExitReason.EXITED)


async def test_a_wrapper_that_was_killed_while_no_server_was_there_is_lost(host: ProcessHarness) -> None:
    killed_after(a_server(host, 0, 1, "echo ready\nsleep 1000"), 1)
    await host.until_printed(a_key(), "ready")
    os.kill(wrapper_of(host, a_key()), signal.SIGKILL)
    backend = await host.start()
    (report,) = await Watch(backend).until_over(a_key())
    assert report.reason is ExitReason.LOST
    assert host.processes(a_key()) == 0


@pytest.mark.parametrize("change", ["boot", "birth"])
async def test_a_process_that_only_has_the_same_number_is_not_taken_for_the_task(
    host: ProcessHarness, change: str
) -> None:
    await ran(host, "true")
    await host.stop()
    directory = directory_of(host, a_key())
    (directory / "exit").unlink()
    record = json.loads((directory / "task.json").read_text())
    own_birth = born_at(os.getpid())
    (directory / "ticket").write_text(f"{os.getpid()} {own_birth if change == 'boot' else 1}\n")
    if change == "boot":
        (directory / "task.json").write_text(json.dumps({**record, "boot": "another"}))
    backend = await host.start()
    (report,) = await Watch(backend).until_over(a_key())
    assert report.reason is ExitReason.LOST


async def test_a_damaged_record_does_not_keep_the_server_from_starting(host: ProcessHarness) -> None:
    await ran(host, "exit 3")
    await host.stop()
    (directory_of(host, a_key()) / "task.json").write_text("{")
    (host.root / "stranger").mkdir()
    (host.root / "file").touch()
    backend = await host.start()
    (report,) = await Watch(backend).until_over(a_key())
    assert report.code == 3


async def test_tasks_get_every_signal_and_no_secret_of_the_server(
    host: ProcessHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAI_ADMIN_PASSWORD", "very-secret")
    await ran(host, "grep SigIgn /proc/self/status\nenv")
    message = host.output(a_key())
    assert "very-secret" not in message
    assert "PATH=" in message
    # Beyond 31 are the signals that threads use among themselves.
    assert int(message.split()[1], 16) & 0x7FFFFFFF == 0


@pytest.mark.parametrize(
    "field",
    [{"env": {"PAI_BIG": "x" * (1 << 18)}}, {"env": {"PAI_NUL": "a\0b"}}, {"node": "no-such-node"}],
    ids=["too big", "impossible", "unknown node"],
)
async def test_what_can_never_start_is_refused(host: ProcessHarness, field: dict[str, object]) -> None:
    backend = await host.start()
    report = await ran(host, "true", **field)
    assert report.reason is ExitReason.LAUNCH_REFUSED
    assert report.message
    await forget(backend, a_key())
    assert await backend.observe() == ()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Give a directory on a disk of a megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "openpai-test", str(place)], check=False, capture_output=True
    )
    if made.returncode != 0:
        pytest.skip("only an administrator may mount the small disk this needs")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 512):
            pass


async def test_on_a_full_disk_a_launch_fails_and_an_exit_code_survives(small_disk: Path) -> None:
    host = ProcessHarness(small_disk)
    try:
        backend = await host.start()
        running, late = a_key(1), a_key(2)
        await backend.apply([a_launch(host, running, host.programs.saves_on_term(6))])
        await host.until_printed(running, "ready")
        filler = small_disk / "filler"
        fill(filler)
        await backend.apply([a_launch(host, late, "true")])
        watch = Watch(backend)
        (report,) = await watch.until_over(late)
        assert report.reason is ExitReason.LAUNCH_FAILED
        assert "No space left" in report.message or "disk full" in report.message
        await backend.apply([KillTask(running, 2 * PATIENCE_S)])
        (report,) = await watch.until_over(running)
        assert (report.code, report.reason) == (6, ExitReason.EXITED)
        filler.unlink()
        await forget(backend, running, late)
        assert await backend.observe() == ()
    finally:
        await host.destroy()


async def test_forgotten_directories_vanish_at_once_and_their_contents_soon(host: ProcessHarness) -> None:
    backend = await host.start()
    await ran(host, "mkdir deep\nfor n in 1 2 3; do echo >deep/$n; done")
    await forget(backend, a_key())
    assert not directory_of(host, a_key()).exists()
    await until(lambda: not any((host.root / TRASH).iterdir()))


async def test_several_nodes_share_the_machine_and_keep_their_devices_apart(host: ProcessHarness) -> None:
    backend = ProcessBackend(host.root, host.logs, SystemClock(), nodes=3, gpus_per_node=2)
    await backend.open()
    try:
        nodes = await backend.nodes()
        assert len({node.name for node in nodes}) == 3
        assert [node.gpus for node in nodes] == [2, 2, 2]
        launches = [
            a_launch(host, a_key(index), "true", node=node.name, devices=(0,), grant=9 - index)
            for index, node in enumerate(nodes)
        ]
        await backend.apply(launches)
        reports = await Watch(backend).until_over(*(launch.key for launch in launches))
        assert {report.reason for report in reports} == {ExitReason.EXITED}
    finally:
        await backend.close()
