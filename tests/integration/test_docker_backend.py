"""The docker backend and a real Engine: limits, strangers, and servers and Engines that go away."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from openpai.backends.host.directory import TaskDirectory
from openpai.lifecycle.model import ExitReason, ExitReport
from openpai.ports.backend import LaunchTask
from openpai.protocol.errors import Unavailable
from tests.contracts.seen import Watch, a_key, a_launch, forget, ran
from tests.integration.docker_engine import IMAGE

pytest.importorskip("aiodocker", reason="the docker backend needs the package 'aiodocker', which is not installed")

from openpai.app.clock import SystemClock
from openpai.backends.docker import engine
from openpai.backends.docker.backend import DockerBackend
from openpai.backends.docker.containers import name_of
from openpai.backends.docker.engine import Engine, NoContainer
from tests.contracts.docker_harness import DockerHarness

EATS_MEMORY = "x=aaaaaaaaaaaaaaaa\nwhile :; do x=$x$x; done"


@pytest_asyncio.fixture
async def direct(harness: DockerHarness) -> AsyncIterator[Engine]:
    """Give a connection of our own to the Engine, for what a stranger may do."""
    asked = Engine(harness.url)
    try:
        yield asked
    finally:
        await asked.close()


class TestLimits:
    async def test_memory_beyond_the_limit_is_reported_as_such(self, harness: DockerHarness) -> None:
        report = await ran(harness, EATS_MEMORY, memory_mb=24)
        assert (report.code, report.reason) == (137, ExitReason.OOM_KILLED)

    async def test_a_task_that_copes_with_a_killed_child_did_not_fail(self, harness: DockerHarness) -> None:
        report = await ran(harness, f"sh -c '{EATS_MEMORY}' || echo coped", memory_mb=24)
        assert (report.code, report.reason) == (0, ExitReason.EXITED)
        assert harness.output(a_key()) == "coped\n"

    async def test_what_was_asked_for_is_what_the_engine_receives(self, harness: DockerHarness) -> None:
        says_shm = "while read -r l; do case $l in *' /dev/shm '*) echo \"$l\";; esac; done </proc/mounts"
        await ran(harness, says_shm, shm_mb=33)
        assert f"size={33 * 1024}k" in harness.output(a_key())

    async def test_more_processors_than_there_are_is_as_many_as_there_are(self, harness: DockerHarness) -> None:
        report = await ran(harness, "exit 3", cpus=1000)
        assert report.code == 3

    async def test_what_cannot_be_made_is_refused(self, harness: DockerHarness) -> None:
        report = await ran(harness, "exit 0", memory_mb=1)
        assert report.reason is ExitReason.LAUNCH_REFUSED
        assert "memory" in report.message.lower()


class TestStrangers:
    async def test_a_removed_container_is_lost(self, harness: DockerHarness, direct: Engine) -> None:
        backend = await harness.start()
        await backend.apply([a_launch(harness, a_key(), harness.programs.waits())])
        watch = Watch(backend)
        await watch.until_running(a_key())
        await direct.remove(name_of(a_key()))
        (report,) = await watch.until_over(a_key())
        assert report.reason is ExitReason.LOST

    async def test_a_killed_container_is_lost(self, harness: DockerHarness, direct: Engine) -> None:
        backend = await harness.start()
        await backend.apply([a_launch(harness, a_key(), harness.programs.waits())])
        watch = Watch(backend)
        await watch.until_running(a_key())
        await direct.signal(name_of(a_key()), "SIGKILL")
        (report,) = await watch.until_over(a_key())
        assert (report.code, report.reason) == (137, ExitReason.LOST)

    async def test_a_container_removed_while_the_server_was_away_is_lost(
        self, harness: DockerHarness, direct: Engine
    ) -> None:
        backend = await harness.start()
        await backend.apply([a_launch(harness, a_key(), harness.programs.waits(), grant=5)])
        await Watch(backend).until_running(a_key())
        await harness.stop()
        await direct.remove(name_of(a_key()))
        backend = await harness.start()
        (report,) = await Watch(backend).until_over(a_key())
        assert report.reason is ExitReason.LOST

    async def test_a_name_that_is_taken_is_refused(self, harness: DockerHarness, direct: Engine) -> None:
        await harness.start()
        await direct.create(name_of(a_key()), {"Image": IMAGE, "Cmd": ["sleep", "1000"]})
        try:
            report = await ran(harness, "exit 0")
            assert report.reason is ExitReason.LAUNCH_REFUSED
        finally:
            await direct.remove(name_of(a_key()))

    async def test_nothing_is_left_of_a_forgotten_attempt_but_its_logs(
        self, harness: DockerHarness, direct: Engine
    ) -> None:
        backend = await harness.start()
        await ran(harness, "echo kept")
        await forget(backend, a_key())
        await harness.stop()
        with pytest.raises(NoContainer):
            await direct.inspect(name_of(a_key()))
        assert harness.output(a_key()) == "kept\n"
        assert not [path for path in harness.root.iterdir() if not path.name.startswith(".")]


SERVER = """
import asyncio, sys
from pathlib import Path
from openpai.backends.docker.backend import DockerBackend
from openpai.app.clock import SystemClock
from tests.integration.test_docker_backend import launches_of

async def main(url, root, logs, count):
    backend = DockerBackend(Path(root), Path(logs), SystemClock(), url=url, gpus_per_node=4)
    await backend.open()
    node = (await backend.nodes())[0].name
    await backend.apply(launches_of(node, int(count)))
    while True:
        for seen in await backend.news():
            print(seen.key.index, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


def launches_of(node: str, count: int) -> list[LaunchTask]:
    """Return launches that say once that they ran, and end with their own code some time later."""
    return [
        LaunchTask(a_key(index), 7, node, (), 1, 64, IMAGE, f"echo ran\nsleep 1\nexit {index}", shm_mb=64)
        for index in range(count)
    ]


async def killed_after_first_news(harness: DockerHarness, count: int) -> None:
    """Run a server that launches `count` tasks and kill it as soon as it has heard of one of them."""
    environment = {"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin", "DOCKER_HOST": harness.url}
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SERVER, harness.url, str(harness.root), str(harness.logs), str(count)),
        stdout=subprocess.PIPE,
        env=environment,
    )
    assert server.stdout is not None
    async with asyncio.timeout(90.0):
        assert (await server.stdout.readline()).strip()
    server.send_signal(signal.SIGKILL)
    await server.wait()


async def test_a_server_that_is_killed_while_it_launches_loses_nothing_and_repeats_nothing(
    harness: DockerHarness,
) -> None:
    count = 12
    await killed_after_first_news(harness, count)
    backend = await harness.start()
    launches = launches_of(harness.node, count)
    await backend.apply(launches)
    reports = await Watch(backend).until_over(*(launch.key for launch in launches))
    assert [(report.code, report.reason) for report in reports] == [(n, ExitReason.EXITED) for n in range(count)]
    assert [harness.output(launch.key) for launch in launches] == ["ran\n"] * count


async def test_one_attempt_that_cannot_be_looked_at_hides_no_other(
    harness: DockerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = TaskDirectory.report

    def unreadable(directory: TaskDirectory) -> ExitReport | None:
        if directory.key == a_key(0):
            raise OSError("the disk is ill")
        return read(directory)

    backend = await harness.start()
    await backend.apply([a_launch(harness, a_key(index), harness.programs.runs_until_resumed(3)) for index in range(2)])
    watch = Watch(backend)
    for index in range(2):
        await watch.until_running(a_key(index))
    monkeypatch.setattr(TaskDirectory, "report", unreadable)
    await harness.resume(a_key(0))
    await harness.until_gone(a_key(0))
    await harness.resume(a_key(1))
    (report,) = await watch.until_over(a_key(1))
    assert report.code == 3


class Wire:
    """A way to the Engine that can be cut."""

    def __init__(self, here: str, there: str) -> None:
        self._here, self._there = here, there
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._copies: set[asyncio.Task[None]] = set()
        self.flows = asyncio.Event()
        self.flows.set()
        self.is_listened_to = asyncio.Event()

    async def join(self) -> None:
        self._server = await asyncio.start_unix_server(self._carry, self._here)

    async def cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        await asyncio.to_thread(Path(self._here).unlink, missing_ok=True)
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.gather(*self._copies, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_unix_connection(self._there)
        self._writers |= {writer, far_writer}
        for source, target in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(self._copy(source, target))
            self._copies.add(task)
            task.add_done_callback(self._copies.discard)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                await self.flows.wait()
                if b"/events?" in data:
                    self.is_listened_to.set()
                writer.write(data)
                await writer.drain()
        self._writers.discard(writer)
        writer.close()


async def test_a_silent_engine_is_a_sick_node_and_what_ended_meanwhile_is_heard_later(harness: DockerHarness) -> None:
    here = str(harness.root.parent / "wire.sock")
    wire = Wire(here, harness.url.removeprefix("unix://"))
    await wire.join()
    backend = DockerBackend(harness.root, harness.logs, SystemClock(), url=f"unix://{here}", gpus_per_node=4)
    await backend.open()
    harness._backend, harness.node = backend, (await backend.nodes())[0].name
    await backend.apply([a_launch(harness, a_key(), harness.programs.runs_until_resumed(8))])
    watch = Watch(backend)
    await watch.until_running(a_key())
    await wire.cut()
    async with asyncio.timeout(90.0):
        while (await backend.nodes())[0].is_healthy:  # noqa: ASYNC110  # a node's health is asked for, not news
            await asyncio.sleep(0.02)
    assert "does not answer" in (await backend.nodes())[0].message
    await harness.resume(a_key())
    await harness.until_gone(a_key())
    await backend.apply([a_launch(harness, a_key(1), "exit 2")])
    await wire.join()
    reports = await watch.until_over(a_key(), a_key(1))
    assert [(report.code, report.reason) for report in reports] == [(8, ExitReason.EXITED), (2, ExitReason.EXITED)]
    assert (await backend.nodes())[0].is_healthy
    await harness.stop()
    await wire.cut()


async def test_an_engine_that_hangs_is_a_sick_node_until_it_goes_on(
    harness: DockerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = str(harness.root.parent / "wire.sock")
    wire = Wire(here, harness.url.removeprefix("unix://"))
    await wire.join()
    backend = DockerBackend(harness.root, harness.logs, SystemClock(), url=f"unix://{here}", compare_every_s=0.05)
    await backend.open()
    try:
        await asyncio.wait_for(wire.is_listened_to.wait(), 90.0)
        for flows, message in ((False, "did not answer within"), (True, "")):
            monkeypatch.setattr(engine, "CALL_PATIENCE_S", 60.0 if flows else 0.3)
            wire.flows.set() if flows else wire.flows.clear()
            async with asyncio.timeout(90.0):
                while (await backend.nodes())[0].is_healthy is not flows:  # noqa: ASYNC110  # as above
                    await asyncio.sleep(0.02)
            assert message in (await backend.nodes())[0].message
    finally:
        wire.flows.set()
        await backend.close()
        await wire.cut()


async def test_without_an_engine_opening_says_what_to_do(tmp_path: Path) -> None:
    backend = DockerBackend(tmp_path / "t", tmp_path / "l", SystemClock(), url=f"unix://{tmp_path}/none.sock")
    with pytest.raises(Unavailable, match="cannot be used") as refused:
        await backend.open()
    assert "--docker-url" in refused.value.advice


async def test_an_engine_that_is_not_ours_to_use_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(_engine: object, url: str) -> None:
        raise ValueError(f"Cannot connect to unix socket {url} [Permission denied]")

    monkeypatch.setattr(Engine, "__init__", closed)
    backend = DockerBackend(tmp_path / "t", tmp_path / "l", SystemClock(), url="unix:///run/docker.sock")
    with pytest.raises(Unavailable, match="Permission denied") as refused:
        await backend.open()
    assert "--groups docker" in refused.value.advice


async def test_two_servers_do_not_share_a_root(harness: DockerHarness) -> None:
    await harness.start()
    second = DockerBackend(harness.root, harness.logs, SystemClock(), url=harness.url)
    with pytest.raises(Unavailable, match="another server"):
        await second.open()
