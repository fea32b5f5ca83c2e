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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from openpai.system.garbage import importing

with importing():  # as `pai up` does
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
        self.decisions: list[tuple[str, float, float, float, float]] = []
        """Of each decision: the node, when the last event was read that it needed, when the turn began that made it,
        when it was made, and what the loop's thread computed since the event: neighbours on the machine do not change
        that."""
        self.longest_collection = 0.0
        """The longest garbage collection since the notes were written last; one at the start visits everything."""
        self._freed: dict[str, tuple[float, float]] = {}
        self._ended: set[str] = set()
        self._collects_since = 0.0
        self._turn_at = 0.0

    def install(self) -> None:
        """Note from now on."""
        create, bind, apply = KubeClient.create, KubeClient.bind, KubernetesBackend.apply
        read, turn = watch_stream._event, loops.turn  # noqa: SLF001

        async def noted_create(client: KubeClient, kind: Any, body: Any, *given: Any, **named: Any) -> Any:
            found = await create(client, kind, body, *given, **named)
            if kind is PODS:
                self.created.append(time.monotonic())
            return found

        async def noted_bind(client: KubeClient, *given: Any, **named: Any) -> None:
            await bind(client, *given, **named)
            self.bound.append(time.monotonic())

        async def noted_apply(backend: KubernetesBackend, actions: Sequence[Action]) -> None:
            now = time.monotonic()
            for action in actions:
                if isinstance(action, LaunchTask):
                    self._note_launch(now)
                    if (freed := self._freed.pop(action.node, None)) is not None:
                        read_at, own_s = freed[0], time.thread_time() - freed[1]
                        self.decisions.append((action.node, read_at, self._turn_at, now, own_s))
            await apply(backend, actions)

        async def noted_turn(leader: Leader) -> bool:
            self._turn_at = time.monotonic()
            return await turn(leader)

        def noted_event(kind: Any, content: bytes, doing: str, **named: Any) -> Any:
            now = time.monotonic()
            event = read(kind, content, doing, **named)
            self._note_event(event, now)
            return event

        KubeClient.create = noted_create  # type: ignore[method-assign, assignment]
        self._note_first_body()
        KubeClient.bind = noted_bind  # type: ignore[method-assign, assignment]
        KubernetesBackend.apply = noted_apply  # type: ignore[method-assign, assignment]
        loops.turn = noted_turn
        watch_stream._event = noted_event  # noqa: SLF001
        gc.callbacks.append(self._note_collection)

    def _note_event(self, event: Any, now: float) -> None:
        self.events += 1
        if isinstance(event.object, Pod) and event.type == "MODIFIED":
            pod = event.object
            # What changes of it later is no event that a decision waits for.
            if pod.has_ended and pod.uid not in self._ended:
                self._ended.add(pod.uid)
                self._freed[pod.spec.node_name] = now, time.thread_time()

    def _note_first_body(self) -> None:
        encode = PodBodies.of

        def noted(bodies: PodBodies, launch: LaunchTask, parts: Parts) -> PodBody:
            if not self.body:
                only_json, bodies.only_json = bodies.only_json, True
                self.body = encode(bodies, launch, parts).content.decode()
                bodies.only_json = only_json
            return encode(bodies, launch, parts)

        PodBodies.of = noted  # type: ignore[method-assign, assignment]

    def _note_launch(self, now: float) -> None:
        if not self.first_launch:
            self.first_launch, self.first_launch_cpu_s = now, time.process_time()

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
            "longest_collection",
        )  # fmt: skip
        # It is asked for again and again, and counts as the server's own time.
        part.write_bytes(msgspec.json.encode({name: getattr(self, name) for name in fields}))
        part.replace(self.figures)
        self.longest_collection = 0.0


def run(figures: Path, arguments: list[str]) -> None:
    """Run `pai` with these arguments, and note what it does."""
    notes = Notes(figures)
    notes.install()
    served: Any = serve._serve  # noqa: SLF001  # the first thing that runs on the loop

    async def noted(*given: Any) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, notes.write)
        await served(*given)

    serve._serve = noted  # type: ignore[assignment]  # noqa: SLF001
    from openpai.app import main

    sys.argv = ["pai", *arguments]
    main.run()


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2:])
