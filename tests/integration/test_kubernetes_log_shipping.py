"""Logs of pods reach the server's files whole, whatever happens to connections, the server and the disk."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from openpai.backends.kubernetes.log_files import CURSOR_FILE
from openpai.backends.kubernetes.log_lines import MARK
from openpai.backends.kubernetes.log_shipping import LogShipper
from openpai.kube.errors import KubeError, error_of, silent
from openpai.lifecycle.model import AttemptKey
from openpai.logs.files import FileLogs

KEY = AttemptKey("job", 0, "worker", 0, 0)
START = 1_800_000_000


class Pods:
    """Serves the logs of pods as a kubelet does, and breaks streams on demand."""

    def __init__(self) -> None:
        self.lines: dict[str, list[tuple[float, bytes]]] = {}
        self.over: set[str] = set()
        self.failing: Callable[[], KubeError] | None = None
        self.is_hanging = False
        self.answer = b""
        """What the kubelet says instead of a log."""
        self.break_after: int | None = None
        self.open = self.most_open = self.requests = self.looks = 0
        self.changed = asyncio.Event()
        self.seconds = 0.0

    def write(self, pod: str, *lines: bytes, rotate: bool = False) -> None:
        if rotate:
            self.lines[pod] = []
        for line in lines:
            self.seconds += 0.3
            self.lines.setdefault(pod, []).append((START + self.seconds, line))
        self.wake()

    def end(self, pod: str) -> None:
        self.over.add(pod)
        self.wake()

    def wake(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    def __call__(
        self, pod: str, *, follow: bool, since: datetime | None, limit_bytes: int | None = None
    ) -> AsyncGenerator[bytes]:
        served = self._serve(pod, follow, since.timestamp() if since else 0.0)
        return served if limit_bytes is None else self._answer(pod, served, limit_bytes)

    async def _answer(self, pod: str, served: AsyncGenerator[bytes], limit_bytes: int) -> AsyncGenerator[bytes]:
        """Serve what is there whole, as the client yields it, or nothing of it."""
        if limit_bytes < 100:
            self.looks += 1
            for at, line in self.lines[pod][:1]:
                yield (stamp(at) + line)[:limit_bytes]
            return
        async with contextlib.aclosing(served):
            yield b"".join([piece async for piece in served])[:limit_bytes]

    async def _serve(self, pod: str, follow: bool, since_s: float) -> AsyncGenerator[bytes]:
        self.requests += 1
        if self.failing is not None:
            raise self.failing()
        self.open += follow
        self.most_open = max(self.most_open, self.open)
        try:
            if self.answer:
                yield self.answer
                return
            log, sent = self.lines.setdefault(pod, []), 0
            budget = self.break_after
            while True:
                changed = self.changed
                if self.lines[pod] is not log:
                    # As a kubelet goes on to a new part: what it had not read of the old one is lost.
                    log, sent = self.lines[pod], 0
                for at, line in log[sent:]:
                    sent += 1
                    if at >= since_s:
                        data = stamp(at) + line
                        if budget is not None and (budget := budget - len(data)) < 0:
                            yield data[: len(data) // 2]
                            raise silent("read a log", "broken", was_sent=True)
                        yield data
                if not self.is_hanging and (not follow or pod in self.over):
                    return
                await changed.wait()
        finally:
            self.open -= follow


def stamp(at: float) -> bytes:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z ").encode()


@asynccontextmanager
async def shipper(pods: Pods, root: Path, **options: float) -> AsyncIterator[LogShipper]:
    made = LogShipper(pods, root, **options)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        await made.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  # files have no events
            await asyncio.sleep(0.005)


def stdout(root: Path, key: AttemptKey = KEY, stream: str = "stdout") -> bytes:
    with contextlib.suppress(FileNotFoundError):
        return (root / key.path() / f"{stream}.log").read_bytes()
    return b""


def runtime(root: Path) -> bytes:
    return stdout(root, stream="runtime")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "logs"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("AGAIN_S", 0.01), ("AGAIN_MAX_S", 0.05), ("END_PATIENCE_S", 0.1)):
        monkeypatch.setattr(f"openpai.backends.kubernetes.log_reading.{name}", seconds)


async def test_a_log_is_there_while_it_grows_and_after_its_pod_is_gone(root: Path) -> None:
    pods = Pods()
    pods.write("p", MARK + b"task starts\n", b"one\n")
    async with shipper(pods, root) as ships:
        ships.ship(KEY, "p")
        await until(lambda: stdout(root) == b"one\n")
        pods.write("p", b"two\n")
        await until(lambda: stdout(root) == b"one\ntwo\n")
        pods.write("p", b"no end of line")
        pods.end("p")
        ships.ended(KEY)
        assert await ships.finished(KEY, 60)
    pods.lines.clear()

    logs = FileLogs(root, lambda _: True)
    assert await logs.streams(KEY) == ("stdout", "runtime")
    assert (await logs.read(KEY, "stdout", 0, 100)).data == b"one\ntwo\nno end of line"
    assert (await logs.read(KEY, "runtime", 0, 100)).data == MARK + b"task starts\n"
    await logs.close()


async def test_readers_of_an_ended_attempt_get_the_end_that_is_on_its_way(root: Path) -> None:
    pods = Pods()
    pods.write("p", b"one\n")
    pods.is_hanging = True
    logs = FileLogs(root, lambda _: True, period_s=0.01, may_arrive=True)

    async def followed() -> bytes:
        return b"".join([chunk.data async for chunk in logs.follow(KEY, ("stdout",), {})])

    async def read() -> bytes:
        await logs.arrived(KEY)
        return (await logs.read(KEY, "stdout", 0, 100)).data

    async with shipper(pods, root) as ships:
        ships.ship(KEY, "p")
        await until(lambda: stdout(root) == b"one\n")
        ships.ended(KEY)
        assert not ships.is_complete(KEY)
        readers = asyncio.gather(followed(), read())
        await until(lambda: pods.requests > 1)
        assert not readers.done()
        pods.write("p", b"two\n")
        pods.is_hanging = False
        pods.end("p")
        assert await readers == [b"one\ntwo\n"] * 2
        assert await ships.finished(KEY, 60)
        assert ships.is_complete(KEY)
    # A server that goes on with a log that is complete expects nothing more.
    async with shipper(pods, root) as ships:
        ships.ship(KEY, "p")
        ships.ended(KEY)
        assert await ships.finished(KEY, 60)
    assert await asyncio.gather(followed(), read()) == [b"one\ntwo\n"] * 2
    await logs.close()


async def test_streams_that_break_everywhere_lose_and_repeat_nothing(root: Path) -> None:
    pods = Pods()
    lines = [b"line %d\n" % number for number in range(300)]
    pods.write("p", *lines[:150])
    pods.break_after = 4000
    async with shipper(pods, root) as ships:
        ships.ship(KEY, "p")
        await until(lambda: pods.requests > 1)
        pods.write("p", *lines[150:])
        pods.end("p")
        ships.ended(KEY)
        await until(lambda: pods.requests > 4)
        pods.break_after = None
        assert await ships.finished(KEY, 60)
    assert stdout(root) == b"".join(lines)


@pytest.mark.parametrize("extra", [b"", b"two, of which the cursor knows nothing\nthr"])
async def test_a_server_that_was_killed_is_continued_by_the_next(root: Path, extra: bytes) -> None:
    pods = Pods()
    pods.write("p", b"one\n", b"two\n")
    async with shipper(pods, root) as ships:
        ships.ship(KEY, "p")
        await until(lambda: stdout(root) == b"one\ntwo\n")
    with (root / KEY.path() / "stdout.log").open("ab") as file:
        file.write(extra)
    pods.write("p", b"three\n")
    pods.end("p")
    async with shipper(pods, root) as ships:
        ships.ship(KEY, "p")
        ships.ended(KEY)
        assert await ships.finished(KEY, 60)
    assert stdout(root) == b"one\ntwo\nthree\n"


async def test_a_complete_log_is_not_read_again(root: Path) -> None:
    pods = Pods()
    pods.write("p", b"one\n")
    pods.end("p")
    for _ in range(2):
        async with shipper(pods, root) as ships:
            ships.ship(KEY, "p")
            ships.ended(KEY)
            assert await ships.finished(KEY, 60)
        before, pods.requests = pods.requests, 0
    assert before == 0
    assert stdout(root) == b"one\n"


async def test_a_damaged_cursor_loses_nothing_and_says_that_lines_may_be_repeated(root: Path) -> None:
    pods = Pods()
    pods.write("p", b"one\n")
    async with shipper(pods, root) as ships:
        ships.ship(KEY, "p")
        await until(lambda: stdout(root) == b"one\n")
    (root / KEY.path() / CURSOR_FILE).write_text('{"recent": [[1,')
    async with shipper(pods, root) as ships:
        ships.ship(KEY, "p")
        pods.write("p", b"two\n")
        await until(lambda: stdout(root).endswith(b"two\n"))
    assert b"lines above may be repeated" in runtime(root)


async def test_a_node_that_dies_does_not_hold_a_log_open_for_ever(root: Path) -> None:
    pods = Pods()
    pods.write("p", b"one\n")
    pods.is_hanging = True
    async with shipper(pods, root) as ships:
        ships.ship(KEY, "p")
        await until(lambda: stdout(root) == b"one\n")
        pods.failing = lambda: silent("read the log of pods/p", "no route to host", was_sent=False)
        ships.ended(KEY)
        assert await ships.finished(KEY, 60)
    assert stdout(root) == b"one\n"
    assert b"the end of the log may be missing" in runtime(root)


async def test_a_pod_that_is_gone_ends_its_log(root: Path) -> None:
    pods = Pods()
    pods.failing = lambda: error_of("read the log of pods/p", 404, b"{}")
    async with shipper(pods, root) as ships:
        ships.ship(KEY, "p")
        assert await ships.finished(KEY, 60)
    assert b"HTTP 404" in runtime(root)


async def test_more_logs_than_streams_all_arrive(root: Path) -> None:
    pods = Pods()
    keys = [AttemptKey("job", 0, "worker", index, 0) for index in range(40)]
    for key in keys:
        pods.write(f"p{key.index}", b"first\n")
    async with shipper(pods, root, streams=5, poll_every_s=0.02) as ships:
        for key in keys:
            ships.ship(key, f"p{key.index}")
        await until(lambda: all(stdout(root, key) == b"first\n" for key in keys))
        for key in keys:
            pods.write(f"p{key.index}", b"last\n")
            pods.end(f"p{key.index}")
            ships.ended(key)
        for key in keys:
            assert await ships.finished(key, 60)
    assert {stdout(root, key) for key in keys} == {b"first\nlast\n"}
    assert pods.most_open == 5


async def test_logs_of_many_pods_are_read_within_a_budget_and_one_that_ended_at_once(root: Path) -> None:
    keys = [AttemptKey("many", 0, "worker", index, 0) for index in range(400)]
    pods = Pods()
    async with shipper(pods, root, streams=0, poll_every_s=0.01) as ships:
        for key in keys:
            pods.write(f"p{key.index}", b"line\n")
            ships.ship(key, f"p{key.index}")
        # 400 logs at 40 a second: the last one is due after ten seconds, but its task has ended.
        last = keys[-1]
        pods.end(f"p{last.index}")
        ships.ended(last)
        assert await ships.finished(last, 60)
        assert pods.requests < len(keys)
    assert stdout(root, last) == b"line\n"


async def test_a_full_disk_delays_a_log_and_damages_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from openpai.backends.kubernetes.log_files import AttemptLog

    pods = Pods()
    pods.write("p", *(b"line %d\n" % number for number in range(50)))
    real, tries = AttemptLog.save, 0

    def full(self: AttemptLog) -> None:
        nonlocal tries
        tries += 1
        if tries < 5:
            raise OSError(28, "No space left on device")
        real(self)

    monkeypatch.setattr(AttemptLog, "save", full)
    async with shipper(pods, root) as ships:
        ships.ship(KEY, "p")
        pods.end("p")
        ships.ended(KEY)
        assert await ships.finished(KEY, 60)
    assert stdout(root) == b"".join(b"line %d\n" % number for number in range(50))


async def test_a_disk_that_is_full_before_anything_was_recorded_loses_no_line(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from openpai.backends.kubernetes.log_files import AttemptLog

    pods = Pods()
    pods.write("p", b"one\n", b"two\n")
    real, tries = AttemptLog._append, 0

    def full(self: AttemptLog, stream: str, data: bytes) -> int:
        nonlocal tries
        tries += 1
        if tries == 1:
            with (root / KEY.path() / f"{stream}.log").open("ab") as file:
                file.write(data[:5])
            raise OSError(28, "No space left on device")
        return real(self, stream, data)

    monkeypatch.setattr(AttemptLog, "_append", full)
    async with shipper(pods, root) as ships:
        ships.ship(KEY, "p")
        pods.end("p")
        ships.ended(KEY)
        assert await ships.finished(KEY, 60)
    assert stdout(root) == b"one\ntwo\n"


async def test_logs_of_adopted_pods_wait_unless_their_container_has_ended(tmp_path: Path) -> None:
    pods = Pods()
    ended, runs, launched = KEY, *(AttemptKey("job", 0, "worker", index, 0) for index in (1, 2))
    for pod in ("ended", "runs", "launched"):
        pods.write(pod, b"hello\n")
    async with shipper(pods, tmp_path) as made:
        with made.adopting(3600):
            made.ship(runs, "runs")
            made.ship(ended, "ended")
        pods.end("ended")
        made.ended(ended)
        assert await made.finished(ended, 60)
        assert pods.requests == 1
        made.ship(launched, "launched")
        await until(lambda: pods.requests == 2)
