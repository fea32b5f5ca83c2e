"""Fetches what tasks leave in their working directories, which go with their pods.

The wrapper of a task that left something waits, and its container becomes ready, which is an event of the pod. The
server then runs `tar` there, through the API server, as a user's command would run: it needs no way from pods to the
server, and a task gets no credentials. What arrives was made by a task: the archive is of limited size, and only
regular files with plain names below one directory are made of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Final

import structlog

from openpai.backends.kubernetes.archives import Unpacked, unpack
from openpai.backends.kubernetes.attempts import PodAttempt
from openpai.backends.kubernetes.pods import CONTAINER
from openpai.backends.kubernetes.variables import TASK, WORK
from openpai.backends.kubernetes.verdicts import container, is_deleted_while_running
from openpai.kube.client import KubeClient
from openpai.kube.errors import KubeError
from openpai.kube.exec import STDOUT
from openpai.kube.objects.pods import Pod
from openpai.lifecycle.model import ExitReason, ExitReport
from openpai.ports.backend import TaskStep
from openpai.protocol.shown_text import shown_line
from openpai.runtime.outputs import COLLECT, TAKEN
from openpai.system.supervision import background

log: Final = structlog.get_logger(__name__)
AT_ONCE: Final = 8
BEGUN_MAX: Final = 32
"""How many pods have a task of the event loop: those that are fetched, and those that are tried again in a moment."""
_INCOMING: Final = ".incoming-"
_OVERHEAD: Final = 1.1
"""How much longer than its files an archive may be, beside what many small files need."""
_HEADERS: Final = 64 << 20
_NAMES_MAX: Final = 8192
_NAMED: Final = 5
_PATIENCE_S: Final = 900.0
_AGAIN_S: Final = (1.0, 3.0, 10.0, 0.0)
"""The pauses between tries, while the container waits."""
_TAKEN_ALONG: Final = (
    "what it left in its working directory, if anything, is lost: its pod ended before the server could fetch it"
)
_HANDED_OVER: Final = frozenset({ExitReason.EXITED, ExitReason.PORT_TAKEN})
"""Ends before which the wrapper itself has waited for the server, or has not run the task at all."""
_NOTHING: Final = 3
_NO_TAR: Final = 5
Report = Callable[[PodAttempt, str, TaskStep], None]


class WorkFetcher:
    """Fetches the files of ended tasks into directories named like their logs."""

    def __init__(self, client: KubeClient, namespace: str, root: Path, bytes_max: int, report: Report) -> None:
        """`report` is called with a sentence about files that are lost, as a step of their task."""
        self._report = report
        self._client = client
        self._namespace = namespace
        self._root = root
        self._bytes_max = bytes_max
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """By UID of a pod."""
        self._ending: dict[str, tuple[PodAttempt, float]] = {}
        """Pods that end soon, which are fetched before those that wait for it."""
        self._ready: dict[str, tuple[PodAttempt, float]] = {}

    async def open(self) -> None:
        """Remove what an earlier server left half done."""
        await asyncio.to_thread(self._sweep)

    async def close(self) -> None:
        """Stop; the next server begins once more, if the pod still waits."""
        self._ending.clear()
        self._ready.clear()
        for task in list(self._tasks.values()):
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def look(self, attempt: PodAttempt, pod: Pod) -> None:
        """Begin to fetch what a task left if its pod waits for that, or was deleted, by whomever."""
        if not is_deleted_while_running(pod):
            if container(pod).ready:
                self.fetch(attempt)
        elif grace_s := pod.metadata.deletion_grace_period_seconds:
            self.fetch(attempt, patience_s=grace_s)

    def fetch(self, attempt: PodAttempt, patience_s: float = 0.0) -> None:
        """Begin to fetch what a task left, once it has ended: within `patience_s`."""
        uid = attempt.uid
        if uid in self._tasks or uid in self._ending or attempt.is_fetched or attempt.exit is not None:
            return
        if patience_s:
            self._ready.pop(uid, None)
            self._ending[uid] = attempt, patience_s
        else:
            self._ready.setdefault(uid, (attempt, patience_s))
        self._begin()

    def ended(self, attempt: PodAttempt, report: ExitReport) -> None:
        """Report that the files are lost if a task that ran ended with its pod, before anything could be fetched."""
        ran = attempt.started_at_ms is not None and report.reason not in _HANDED_OVER
        if ran and not attempt.is_fetched and not os.path.lexists(self._goal(attempt)):
            self._report(attempt, _TAKEN_ALONG, TaskStep.FILES_LOST)

    def _begin(self) -> None:
        while (waiting := self._ending or self._ready) and len(self._tasks) < BEGUN_MAX:
            uid = next(iter(waiting))
            attempt, patience_s = waiting.pop(uid)
            if attempt.exit is None:
                task = self._tasks[uid] = background("fetch what a task left", self._fetch(attempt, patience_s))
                task.add_done_callback(partial(self._over, uid))

    def _over(self, uid: str, _: object) -> None:
        self._tasks.pop(uid, None)
        self._begin()

    async def _fetch(self, attempt: PodAttempt, patience_s: float) -> None:
        if await asyncio.to_thread(os.path.lexists, self._goal(attempt)):
            # An earlier server did it and could not say so.
            await self._end(attempt, "the files are kept for a while: pai job fetch")
            return
        sentence, is_lost = "", False
        for again_s in _AGAIN_S:
            try:
                async with self._turn, asyncio.timeout(_PATIENCE_S):
                    sentence, is_lost = await self._bring(attempt, patience_s)
                break
            except (KubeError, OSError, TimeoutError) as error:
                if attempt.exit is not None or attempt.is_ending or patience_s:
                    # It has ended meanwhile, most often with nothing to fetch.
                    return
                log.warning("the files of a task were not fetched", pod=attempt.name, error=str(error))
                sentence, is_lost = f"the files are lost: they could not be fetched ({_reason(error)})", True
                await asyncio.sleep(again_s)
        if is_lost:
            self._report(attempt, sentence, TaskStep.FILES_LOST)
        if sentence:
            await self._end(attempt, sentence)

    async def _bring(self, attempt: PodAttempt, patience_s: float) -> tuple[str, bool]:
        """Fetch and keep the files; return a sentence, empty if the task left nothing, and whether some are lost."""
        token = secrets.token_hex(8)
        packed, unpacked = self._root / f"{_INCOMING}{token}.tar", self._root / f"{_INCOMING}{token}"
        try:
            await asyncio.to_thread(self._root.mkdir, mode=0o700, parents=True, exist_ok=True)
            code, is_whole, left_out = await self._receive(attempt, packed, patience_s)
            if code == _NOTHING:
                return "", False
            if code == _NO_TAR:
                return "the files are lost: the image has no tar and find, with which the server fetches them", True
            if not (await asyncio.to_thread(packed.stat)).st_size:
                # The container was ended before `tar` began: whether there was anything nobody knows, as `ended` says.
                return "", False
            found = await asyncio.to_thread(unpack, packed, unpacked, self._bytes_max)
            if found.files:
                await asyncio.to_thread(unpacked.rename, self._goal(attempt))
            is_cut = not is_whole or found.has_more
            return self._sentence(found, left_out, is_cut=is_cut), is_cut or bool(left_out)
        finally:
            await asyncio.to_thread(_remove, packed, unpacked)

    async def _receive(self, attempt: PodAttempt, goal: Path, patience_s: float) -> tuple[int, bool, Sequence[str]]:
        """Write the archive; return the exit code, whether it is whole, and what was left out."""
        limits = (str(self._bytes_max), str(int(patience_s)))
        command = ("/bin/sh", "-c", COLLECT, "pai", TASK, WORK, *limits)
        names, size, most = bytearray(), 0, int(self._bytes_max * _OVERHEAD) + _HEADERS
        with await asyncio.to_thread(goal.open, "wb") as file:
            async with await self._client.exec(attempt.name, self._namespace, command, container=CONTAINER) as session:
                async for output in session:
                    if output.channel != STDOUT:
                        names += output.data[: _NAMES_MAX - len(names)]
                        continue
                    size += len(output.data)
                    if size > most:
                        break
                    await _write(file, output.data)
                code = session.exit_code or 0
        return code, size <= most, [shown_line(line) for line in names.decode(errors="replace").splitlines()]

    def _sentence(self, found: Unpacked, left_out: Sequence[str], *, is_cut: bool) -> str:
        limit = f"{self._bytes_max >> 20} MiB"
        text = f"{found.files} files ({found.bytes:,} bytes) are kept for a while: pai job fetch"
        if not found.files:
            text = "none of the files are kept"
        if is_cut:
            text += f"; others are lost, because at most {limit} of a task are fetched"
        if left_out:
            more = "" if len(left_out) <= _NAMED else " and others"
            names = ", ".join(name.removeprefix("./")[:200] for name in left_out[:_NAMED])
            text += f"; lost, because larger than {limit}: {names}{more}"
        return text

    async def _end(self, attempt: PodAttempt, sentence: str) -> None:
        """Let the container end."""
        attempt.is_fetched = True
        with contextlib.suppress(KubeError):
            command = ("/bin/sh", "-c", TAKEN, "pai", TASK, sentence)
            async with await self._client.exec(attempt.name, self._namespace, command, container=CONTAINER) as session:
                await session.collect()

    def _goal(self, attempt: PodAttempt) -> Path:
        return self._root / attempt.key.path()

    def _sweep(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            for path in list(self._root.iterdir()):
                if path.name.startswith(_INCOMING):
                    _remove(path)


async def _write(file: IO[bytes], data: bytes) -> None:
    await asyncio.to_thread(file.write, data)


def _remove(*paths: Path) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"the server: {error.strerror}"
    return error.message if isinstance(error, KubeError) else "it took too long"
