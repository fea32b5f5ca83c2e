"""Reads which devices a task really got, on nodes whose kubelet chooses them.

The kubelet says it in the status of the pod (from Kubernetes 1.36 on; before, behind a feature gate). Elsewhere the
container is asked, once. An image can answer anything, so its answer can only exchange the indices of devices of that
node that no other task is known to have, and gives way to what the kubelet says.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Final

import structlog

from openpai.backends.kubernetes.attempts import PodAttempt
from openpai.backends.kubernetes.devices import GpuMode
from openpai.backends.kubernetes.nodes import NodeTable
from openpai.backends.kubernetes.pods import CONTAINER
from openpai.backends.kubernetes.verdicts import container
from openpai.kube.client import KubeClient
from openpai.kube.errors import KubeError
from openpai.kube.objects.pods import Pod
from openpai.system.supervision import Background

log: Final = structlog.get_logger(__name__)
_ASK: Final = (
    'printf "%s\\n" "$NVIDIA_VISIBLE_DEVICES"; '
    "for each in /var/run/nvidia-container-devices/* /dev/dri/renderD* /dev/davinci[0-9]*; do "
    'printf "%s\\n" "${each##*/}"; done'
)
_NAMES: Final = {
    "nvidia.com/*": re.compile(r"(?:GPU|MIG)-[0-9a-fA-F-]{36}(?![0-9a-fA-F-])"),
    "amd.com/*": re.compile(r"^renderD[0-9]{1,4}$", re.MULTILINE),
    "huawei.com/*": re.compile(r"^davinci[0-9]{1,4}$", re.MULTILINE),
}
"""By extended resource, how its devices are named in a container."""
_SAID_FROM: Final = (1, 36)
_ANSWER_MAX: Final = 64 * 1024
_PATIENCE_S: Final = 20.0
_TRIES: Final = 3
_AT_ONCE: Final = 8


class ReceivedDevices:
    """Corrects the order of a node's devices, so that the indices of a grant name the devices that its task has."""

    def __init__(self, client: KubeClient, namespace: str, table: NodeTable) -> None:
        self._client = client
        self._namespace = namespace
        self._table = table
        self._known: dict[str, Mapping[str, Collection[str]]] = {}
        """By UID of a pod, what was read last; empty while its container is asked."""
        self._to_ask: deque[tuple[PodAttempt, str]] = deque()
        self._asking = Background()

    async def close(self) -> None:
        """Stop to ask."""
        await self._asking.close()

    def look(self, attempt: PodAttempt, pod: Pod) -> None:
        """Take over what a pod whose task has begun shows of its devices."""
        if not attempt.devices or not attempt.node:
            return
        known = self._known.get(attempt.uid)
        statuses = container(pod).allocated_resources_status
        if not statuses and known is not None:
            return
        devices = self._table.devices(attempt.node)
        if devices.mode is not GpuMode.PLUGIN:
            return
        mine = {devices.remembered[at].source for at in attempt.devices if at < len(devices.remembered)}
        found = {each.name: tuple(one.id for one in each.resources) for each in statuses if each.name in mine}
        if found and found != known:
            self._record(attempt, found, is_proof=True)
        elif not found and known is None:
            self._known[attempt.uid] = {}
            if len(mine) == 1 and not pod.has_ended and not _says_it(self._table.kubelet(attempt.node)):
                self._ask(attempt, mine.pop())

    def forget(self, attempt: PodAttempt) -> None:
        """Forget a task that is over, whose devices are free."""
        self._known.pop(attempt.uid, None)

    def _record(self, attempt: PodAttempt, found: Mapping[str, Collection[str]], *, is_proof: bool) -> None:
        self._known[attempt.uid] = found
        self._table.hold(attempt.node, attempt.uid, attempt.devices)
        if not self._table.got(attempt.node, attempt.uid, found, is_proof=is_proof):
            log.warning("a report of a task's devices contradicts others", pod=attempt.name, node=attempt.node)

    def _ask(self, attempt: PodAttempt, resource: str) -> None:
        self._to_ask.append((attempt, resource))
        if len(self._asking) < _AT_ONCE:
            self._asking.start("ask containers for their devices", self._ask_all())

    async def _ask_all(self) -> None:
        while self._to_ask:
            attempt, resource = self._to_ask.popleft()
            for number in range(_TRIES):
                await asyncio.sleep(number)
                if attempt.exit is not None or self._known.get(attempt.uid):
                    break
                with contextlib.suppress(KubeError, TimeoutError):
                    async with asyncio.timeout(_PATIENCE_S):
                        found = named_in(await self._answer(attempt.name), resource)
                    # It may have ended, or its status may have said it, meanwhile.
                    if found and attempt.exit is None and not self._known.get(attempt.uid):
                        self._record(attempt, {resource: found}, is_proof=False)
                    break

    async def _answer(self, pod: str) -> str:
        command = ("/bin/sh", "-c", _ASK)
        answer = bytearray()
        async with await self._client.exec(pod, self._namespace, command, container=CONTAINER) as session:
            async for output in session:
                answer += output.data
                if len(answer) > _ANSWER_MAX:
                    return ""
        return answer.decode(errors="replace")


@cache
def _says_it(version: str) -> bool:
    """Return whether a kubelet of this version, such as v1.36.2, writes the devices into the status of its pods."""
    major, _, rest = version.removeprefix("v").partition(".")
    minor = rest.partition(".")[0].rstrip("+")
    return major.isdecimal() and minor.isdecimal() and (int(major), int(minor)) >= _SAID_FROM


def named_in(answer: str, resource: str) -> frozenset[str]:
    """Return the devices of an extended resource that a container's answer names."""
    pattern = next((found for wanted, found in _NAMES.items() if fnmatchcase(resource, wanted)), None)
    return frozenset(pattern.findall(answer)) if pattern is not None else frozenset()
