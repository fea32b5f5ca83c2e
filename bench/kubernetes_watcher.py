"""A bare watcher: when the events that pods ended arrive in a process that does nothing else.

Run as `python -m bench.kubernetes_watcher KUBECONFIG`. It prints a line once it watches, and when its input ends, as
JSON, when each pod's end arrived, by the pod's name, in seconds of the monotonic clock, which all processes share. An
event is opened only if its pod has succeeded: the processors are those of what is measured.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import msgspec

from openpai.kube import watch_stream
from openpai.kube.client import KubeClient
from openpai.kube.config import cluster_access
from openpai.kube.connection import pieces
from openpai.kube.objects import PODS, protobuf
from openpai.kube.objects.meta import PROTOBUF

_ENDED = b"Succeeded"
_WATCHING = b"watching\n"


class BareWatcher:
    """A process that watches all pods."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.arrived: dict[str, float] = {}
        """When the end of each pod arrived; known once the process is over."""


@asynccontextmanager
async def bare_watcher(kubeconfig: Path) -> AsyncIterator[BareWatcher]:
    """Run a bare watcher."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.kubernetes_watcher", str(kubeconfig),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        if process.stdout is None or await process.stdout.readline() != _WATCHING:
            raise RuntimeError("the bare watcher did not begin")
        watcher = BareWatcher(process.pid)
        yield watcher
        # Which closes its input.
        printed, _ = await process.communicate(b"")
        watcher.arrived.update(json.loads(printed))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def watch(client: KubeClient, arrived: dict[str, float]) -> None:
    """Note when pods have ended, until cancelled."""
    version = msgspec.json.decode(await client.raw("GET", PODS.path(), limit="1"))["metadata"]["resourceVersion"]
    reader = protobuf.PodReader(labels=(), annotations=(), conditions=())
    params = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "3600"}
    accept = f"{PROTOBUF};stream=watch"
    answer = await client.connection.stream(PODS.path(), doing="watch pods", params=params, accept=accept)
    print(_WATCHING.decode(), end="", flush=True)
    now = 0.0

    async def chunks() -> AsyncGenerator[bytes]:
        nonlocal now
        async with aclosing(pieces(answer, "watch pods")) as found:
            async for piece in found:
                now = time.monotonic()
                yield piece

    async with answer, aclosing(watch_stream.frames_of(chunks(), "watch pods")) as frames:
        async for frame in frames:
            if _ENDED in frame:
                arrived.setdefault(reader.read(protobuf.event_of(frame).object).name, now)


async def main(kubeconfig: str) -> None:
    """Watch until the input ends, and print what was noted."""
    arrived: dict[str, float] = {}
    async with KubeClient(cluster_access(kubeconfig)) as client:
        watching = asyncio.create_task(watch(client, arrived))
        ended = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
        await asyncio.wait({watching, ended}, return_when=asyncio.FIRST_COMPLETED)
        if watching.done():
            watching.result()
            raise RuntimeError("the API server ended the watch")
        watching.cancel()
        await asyncio.wait({watching})
    print(json.dumps(arrived))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
