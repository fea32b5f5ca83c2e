"""Reads the parts of a release from the cluster, and waits until they are ready, saying what happens meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from openpai.app.cluster import parts
from openpai.app.cluster.parts import Problem, Snapshot, name_of
from openpai.app.cluster.target import Target
from openpai.cli.output import aside, warn
from openpai.protocol.errors import Unavailable

if TYPE_CHECKING:
    from openpai.kube.client import KubeClient

LOOK_S: Final = 1.0
_BLIPS_MAX: Final = 30
_ALIKE: Final = 80


async def read_list(client: KubeClient, path: str, **params: str) -> list[Any]:
    """Return the objects of a list, as JSON has them."""
    import msgspec

    found: list[Any] = msgspec.json.decode(await client.raw("GET", path, None, **params)).get("items") or []
    return found


async def read_snapshot(client: KubeClient, target: Target) -> Snapshot:
    """Return the parts of a release."""
    place, chosen = f"namespaces/{target.namespace}", {"labelSelector": target.selector}
    # Volumes of a StatefulSet and the pods have the labels of the instance, too.
    deployments, sets, pods, claims, events = await asyncio.gather(
        read_list(client, f"/apis/apps/v1/{place}/deployments", **chosen),
        read_list(client, f"/apis/apps/v1/{place}/statefulsets", **chosen),
        read_list(client, f"/api/v1/{place}/pods", **chosen),
        read_list(client, f"/api/v1/{place}/persistentvolumeclaims", **chosen),
        read_list(client, f"/api/v1/{place}/events"),
    )
    events.sort(key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "")
    return Snapshot(deployments, sets, pods, claims, events)


async def await_ready(
    client: KubeClient, target: Target, timeout_s: float, *, is_over: Callable[[Snapshot], bool] | None = None
) -> Snapshot:
    """Return once everything is ready, or `is_over` holds; say each change. Raises Unavailable, with the problems."""
    began_s, shown, blips = time.monotonic(), _Shown(), 0
    while True:
        try:
            found = await read_snapshot(client, target)
        except Unavailable as error:
            # A control plane that is upgraded is away for a while, and what is waited for goes on.
            blips += 1
            if blips > _BLIPS_MAX:
                raise
            shown.say("cluster", error.message)
        else:
            blips = 0
            shown.update(found)
            if is_over(found) if is_over else found.is_ready:
                return found
            if time.monotonic() - began_s > timeout_s:
                raise _late(parts.problems(found), found, timeout_s)
        await asyncio.sleep(LOOK_S)


class _Shown:
    """What was reported already."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._reported: dict[str, str] = {}

    def update(self, found: Snapshot) -> None:
        for claim in found.claims:
            self.say(f"volume {name_of(claim)}", str(claim.get("status", {}).get("phase", "Pending")).lower())
        for one in found.workloads:
            self.say(f"{one.get('kind', 'part').lower()} {name_of(one)}" if "kind" in one else name_of(one),
                     f"{parts.ready(one)} of {parts.wanted(one)} ready")  # fmt: skip
        for pod in found.pods:
            self.say(f"pod {name_of(pod)}", parts.pod_state(pod))
        for problem in parts.problems(found):
            line = f"{problem.what}: {problem.message}"
            # The same fault comes in several wordings.
            if self._reported.get(line[:_ALIKE]) is None:
                self._reported[line[:_ALIKE]] = ""
                warn(f"{line}; {problem.advice}" if problem.advice else line)

    def say(self, what: str, state: str) -> None:
        if self._reported.get(what) != state:
            self._reported[what] = state
            aside(f"{time.monotonic() - self._began_s:5.0f} s  {what}: {state}")


def _late(found: list[Problem], snapshot: Snapshot, timeout_s: float) -> Unavailable:
    if found:
        first = found[0]
        more = f" ({len(found) - 1} more: `pai cluster status`)" if len(found) > 1 else ""
        return Unavailable(f"not ready after {timeout_s:.0f} s: {first.what}: {first.message}{more}", first.advice)
    waiting = ", ".join(name_of(one) for one in snapshot.workloads if parts.ready(one) < parts.wanted(one)) or "a part"
    return Unavailable(
        f"not ready after {timeout_s:.0f} s: {waiting}",
        "look at `pai cluster status`; the same command again goes on waiting, --timeout-s says how long",
    )
