"""Creates what the pods of a job share, its Secrets and its service, before it is the pods' turn.

A pod has to wait for them, and one that waits keeps another from being created. So while pods are created, what the
jobs behind them in the queue need is created, too, a few jobs ahead. Names follow from the content: what is there
already is recognised.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

import msgspec

from openpai.backends.kubernetes.bundles import Bundle, secret_body
from openpai.backends.kubernetes.names import service_name
from openpai.backends.kubernetes.pods import has_peers, network_service
from openpai.backends.kubernetes.volumes import PodVolumes
from openpai.backends.kubernetes.writes import until_answered
from openpai.kube.client import KubeClient
from openpai.kube.errors import KubeError
from openpai.kube.objects.kinds import SECRETS, SERVICES, Kind
from openpai.ports.backend import LaunchTask
from openpai.protocol.errors import Broken, PaiError
from openpai.system.supervision import Background

AHEAD: Final = 8
"""For so many jobs whose pods wait for their turn."""
Sharers = tuple[str, int, str]
"""The tasks of a role of a job attempt."""


class Preparer:
    """Creates shared objects, each once for all pods that refer to it."""

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        scope: str,
        parts: Callable[[LaunchTask], tuple[Bundle, PodVolumes]],
    ) -> None:
        """`parts` returns what the pod of a launch refers to; raises ValueError and PaiError."""
        self._client = client
        self._namespace = namespace
        self._scope = scope
        self._parts = parts
        self._there: dict[str, asyncio.Future[KubeError | None]] = {}
        """By name, each shared object that was created or is being created."""
        self._expected: dict[Sharers, LaunchTask] = {}
        """A launch of each job whose pods wait for their turn, in the order of the turns."""
        self._ahead: set[Sharers] = set()
        """Those of them that are prepared or being prepared."""
        self._work = Background()

    async def close(self) -> None:
        """Stop what is under way."""
        self._expected.clear()
        await self._work.close()

    def expect(self, launch: LaunchTask) -> None:
        """Prepare for a launch that waits for its turn, when it is near."""
        sharers = _sharers(launch)
        if sharers not in self._expected:
            self._expected[sharers] = launch
            self._look_ahead()

    def begins(self, launch: LaunchTask) -> None:
        """Look further ahead: it is the turn of a launch."""
        sharers = _sharers(launch)
        if self._expected.pop(sharers, None) is not None:
            self._ahead.discard(sharers)
            self._look_ahead()

    def forget(self, name: str) -> None:
        """Note that a shared object is being removed."""
        self._there.pop(name, None)

    async def prepare(self, launch: LaunchTask, bundle: Bundle, volumes: PodVolumes) -> KubeError | None:
        """Create what a pod refers to and is not there yet; return why the API server refuses that."""
        missing: list[tuple[str, Kind[Any], bytes]] = []
        for name, body in bundle.bodies.items():
            if not self._is_there(name):
                missing.append((name, SECRETS, body))
        for name, values in volumes.secrets.items():
            if not self._is_there(name):
                content = {key: text.encode() for key, text in values.items()}
                missing.append((name, SECRETS, secret_body(self._scope, launch.key, "mount", name, content)))
        if has_peers(launch) and not self._is_there(name := service_name(launch.key.job)):
            missing.append((name, SERVICES, msgspec.json.encode(network_service(launch, self._scope))))
        refusals = await asyncio.gather(*(self._ensure(*each) for each in missing)) if missing else ()
        return next((refusal for refusal in refusals if refusal is not None), None)

    def _look_ahead(self) -> None:
        for sharers in [near for near in islice(self._expected, AHEAD) if near not in self._ahead]:
            self._ahead.add(sharers)
            self._work.start("prepare pods", self._prepare_for(self._expected[sharers]))

    async def _prepare_for(self, launch: LaunchTask) -> None:
        # What goes wrong here goes wrong again at the launch, which reports it.
        with contextlib.suppress(ValueError, PaiError):
            await self.prepare(launch, *self._parts(launch))

    def _is_there(self, name: str) -> bool:
        known = self._there.get(name)
        return known is not None and known.done()

    async def _ensure(self, name: str, kind: Kind[Any], body: bytes) -> KubeError | None:
        known = self._there.get(name)
        if known is not None:
            return await asyncio.shield(known)
        made = self._there[name] = asyncio.get_running_loop().create_future()
        try:
            refusal = await self._create(kind, body)
        except BaseException as error:
            self._there.pop(name, None)
            made.set_exception(error if isinstance(error, Exception) else Broken("the server is closing"))
            made.exception()  # it is raised here, and perhaps nothing else waits for it
            raise
        if refusal is not None:
            self._there.pop(name, None)
        made.set_result(refusal)
        return refusal

    async def _create(self, kind: Kind[Any], body: bytes) -> KubeError | None:
        async def call() -> None:
            try:
                await self._client.create(kind, body, self._namespace, only_metadata=True)
            except KubeError as error:
                if not error.is_there_already:
                    raise

        return await until_answered(call)


def _sharers(launch: LaunchTask) -> Sharers:
    return launch.key.job, launch.key.job_attempt, launch.key.role
