"""A server on Kubernetes that notes when it reads events, decides, and creates pods.

Run as `python -m bench.kubernetes_server FIGURES up --backend kubernetes ...`: everything after FIGURES is for `pai`.
On SIGUSR1 the figures are written to FIGURES. Times are those of the monotonic clock, which all processes share.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec

from openpai.system.garbage import importing

with importing():  # as `pai up` does
    from aiohttp import ClientResponse, StreamReader

    from bench.kubernetes_decisions import Decision, Device, devices_of
    from openpai.app import loops, serve
    from openpai.backends.kubernetes.backend import KubernetesBackend
    from openpai.backends.kubernetes.pod_bodies import PodBodies, PodBody
    from openpai.backends.kubernetes.pods import Parts
    from openpai.kube import watch_stream
    from openpai.kube.client import KubeClient
    from openpai.kube.objects import PODS
    from openpai.kube.objects.pods import Pod
    from openpai.orchestrator.leader import Leader
    from openpai.ports.backend import Action, LaunchTask


TICK_S = 0.01


class Notes:
    """What the server did, and when."""

    def __init__(self, figures: Path) -> None:
        self.figures = figures
        self.events = 0
        self.created: list[float] = []
        """When the API server had answered each creation of a pod."""
        self.bound: list[float] = []
        self.body = ""
        """The first pod, in JSON."""
        self.first_launch = 0.0
        self.first_launch_cpu_s = 0.0
        """The processor time until then, from the start of the process."""
        self.decisions: list[Decision] = []
        """The decisions that needed an event."""
        self.longest_collection = 0.0
        """The longest garbage collection since the notes were written last; one at the start visits everything."""
        self.late: list[float] = []
        """How late the loop came to each tick, in s: for so long may an event have waited in the socket."""
        self._freed: dict[Device, tuple[float, float, float]] = {}
        self._received: dict[int, tuple[float, float] | None] = {}
        """By watch, when the first of what it has not read yet was received, and what the thread had computed."""
        self._arrived: dict[asyncio.Task[Any] | None, tuple[float, float]] = {}
        """The same of what the task of a watch reads now."""
        self._ended: set[str] = set()
        self._collects_since = 0.0
        self._turn_at = 0.0

    def install(self) -> None:
        """Note from now on."""
        create, bind, apply = KubeClient.create, KubeClient.bind, KubernetesBackend.apply
        read, turn = watch_stream._event, loops.turn  # noqa: SLF001
        pieces, feed = watch_stream.pieces, StreamReader.feed_data

        async def noted_create(client: KubeClient, kind: Any, body: Any, *given: Any, **named: Any) -> Any:
            found = await create(client, kind, body, *given, **named)
            if kind is PODS:
                self.created.append(time.monotonic())
            return found

        async def noted_bind(client: KubeClient, *given: Any, **named: Any) -> None:
            await bind(client, *given, **named)
            self.bound.append(time.monotonic())

        async def noted_apply(backend: KubernetesBackend, actions: Sequence[Action]) -> None:
            self._note_launches([action for action in actions if isinstance(action, LaunchTask)])
            await apply(backend, actions)

        async def noted_turn(leader: Leader) -> bool:
            self._turn_at = time.monotonic()
            return await turn(leader)

        def noted_event(kind: Any, content: bytes, doing: str, **named: Any) -> Any:
            now = time.monotonic()
            event = read(kind, content, doing, **named)
            self._note_event(event, now)
            return event

        async def noted_pieces(answer: ClientResponse, doing: str) -> AsyncGenerator[bytes]:
            stream = id(answer.content)
            self._received[stream] = None
            try:
                async with aclosing(pieces(answer, doing)) as found:
                    async for piece in found:
                        arrived = self._received[stream] or (time.monotonic(), time.thread_time())
                        self._arrived[asyncio.current_task()] = arrived
                        self._received[stream] = None
                        yield piece
            finally:
                del self._received[stream]

        def noted_data(stream: StreamReader, *given: Any, **named: Any) -> Any:
            if self._received.get(id(stream), self) is None:
                self._received[id(stream)] = time.monotonic(), time.thread_time()
            return feed(stream, *given, **named)

        KubeClient.create = noted_create  # type: ignore[method-assign, assignment]
        self._note_first_body()
        KubeClient.bind = noted_bind  # type: ignore[method-assign, assignment]
        KubernetesBackend.apply = noted_apply  # type: ignore[method-assign, assignment]
        loops.turn = noted_turn
        watch_stream._event = noted_event  # noqa: SLF001
        watch_stream.pieces = noted_pieces
        StreamReader.feed_data = noted_data  # type: ignore[method-assign, assignment]
        gc.callbacks.append(self._note_collection)

    def _note_event(self, event: Any, now: float) -> None:
        self.events += 1
        if isinstance(event.object, Pod) and event.type == "MODIFIED":
            pod = event.object
            # What changes of it later is no event that a decision waits for.
            if pod.has_ended and pod.uid not in self._ended:
                self._ended.add(pod.uid)
                at = now, *self._arrived[asyncio.current_task()]
                self._freed.update(dict.fromkeys(devices_of(pod), at))

    def _note_first_body(self) -> None:
        encode = PodBodies.of

        def noted(bodies: PodBodies, launch: LaunchTask, parts: Parts) -> PodBody:
            if not self.body:
                only_json, bodies.only_json = bodies.only_json, True
                self.body = encode(bodies, launch, parts).content.decode()
                bodies.only_json = only_json
            return encode(bodies, launch, parts)

        PodBodies.of = noted  # type: ignore[method-assign, assignment]

    def _note_launches(self, launches: Sequence[LaunchTask]) -> None:
        now, own_s = time.monotonic(), time.thread_time()
        if launches and not self.first_launch:
            self.first_launch, self.first_launch_cpu_s = now, time.process_time()
        devices: dict[str, list[Device]] = {}
        for launch in launches:
            devices.setdefault(launch.key.job, []).extend((launch.node, device) for device in launch.devices)
        for taken in devices.values():
            # The gang waited for the last of its devices, on whichever node that is.
            if freed := [at for device in taken if (at := self._freed.pop(device, None)) is not None]:
                _, arrived_at, own_before_s = max(freed)
                self.decisions.append(Decision(taken, arrived_at, self._turn_at, now, own_s - own_before_s))

    async def tick(self) -> None:
        """Note how late the loop is, again and again."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + TICK_S
            await asyncio.sleep(TICK_S)
            self.late.append(loop.time() - due)

    def _note_collection(self, phase: str, _: Any) -> None:
        now = time.thread_time()
        if phase == "start":
            self._collects_since = now
        else:
            self.longest_collection = max(self.longest_collection, now - self._collects_since)

    def write(self) -> None:
        """Write what was noted."""
        part = self.figures.with_suffix(".part")
        fields = (
            "events", "created", "bound", "body", "first_launch", "first_launch_cpu_s", "decisions",
            "longest_collection", "late",
        )  # fmt: skip
        # It is asked for again and again, and counts as the server's own time.
        part.write_bytes(msgspec.json.encode({name: getattr(self, name) for name in fields}))
        part.replace(self.figures)
        self.longest_collection = 0.0
        self.late.clear()


def run(figures: Path, arguments: list[str]) -> None:
    """Run `pai` with these arguments, and note what it does."""
    notes = Notes(figures)
    notes.install()
    served: Any = serve._serve  # noqa: SLF001  # the first thing that runs on the loop

    async def noted(*given: Any) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, notes.write)
        ticking = asyncio.create_task(notes.tick())
        try:
            await served(*given)
        finally:
            ticking.cancel()

    serve._serve = noted  # type: ignore[assignment]  # noqa: SLF001
    from openpai.app import main

    sys.argv = ["pai", *arguments]
    main.run()


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2:])
