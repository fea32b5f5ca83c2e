"""A world whose servers run the Kubernetes backend: over a stand-in API server, machines with kubelets, and bad luck.

The backend, its caches, its retries and its writes are the product's own, in virtual time. What goes wrong is what goes
wrong in clusters: API servers that are away, watches that break or expire, requests that arrive late or lose their
answer, machines that die or lose their network, pods that others delete, evict or forge.
"""

from __future__ import annotations

import asyncio
import copy
import json
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from openpai.backends.kubernetes.attempts import PodAttempt
from openpai.backends.kubernetes.backend import KubernetesBackend, KubernetesOptions
from openpai.kube import client
from openpai.kube.objects.kinds import NODES, PODS
from openpai.lifecycle.model import ExitReport
from openpai.ports.backend import Action, KillTask, LaunchTask
from tests.kube.standin import Object, Refusal, StandInApi
from tests.kube.standin_connection import Network, StandInAccess, connection_of
from tests.simulation.checkers import Checkers, Violation
from tests.simulation.kubernetes.checkers import KubeCheckers
from tests.simulation.kubernetes.machines import NAMESPACE, Machines
from tests.simulation.loop import VirtualLoop
from tests.simulation.server import Server
from tests.simulation.world import World

LATE_S: Final = (0.02, 0.3, 3.0, 20.0)
"""Below the patience of a request: a client that gives up closes its connection."""
BUSY: Final = ((429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable"))
SECRET: Final = b"simulation"


class Weather:
    """The network between all servers and the API server, and how the API server is."""

    def __init__(self, chance: Random, loop: VirtualLoop) -> None:
        self.chance = chance
        self.loop = loop
        self.is_calm = False
        self.down_until_s = 0.0
        self.late, self.busy, self.lossy = (chance.choice((0.0, rate)) for rate in (0.1, 0.05, 0.03))

    @property
    def is_up(self) -> bool:
        """Return whether the API server answers."""
        return self.is_calm or self.loop.time() >= self.down_until_s


class ServerNetwork(Network):
    """The network of one server, which may be paused or dead."""

    def __init__(self, weather: Weather) -> None:
        self._weather = weather
        self.was_killed = False
        self.is_frozen: Callable[[], float] = lambda: 0.0
        """Returns for how much longer the process is paused."""

    def is_up(self) -> bool:
        return self._weather.is_up

    def delay_s(self, method: str) -> float:
        if not self._often(self._weather.late):
            return 0.0
        return self._weather.chance.uniform(0.0, self._weather.chance.choice(LATE_S))

    def refusal(self, method: str) -> tuple[int, str] | None:
        if not self._often(self._weather.busy):
            return None
        # The counter of a quota, which every creation changes, is busy at times.
        busy = (*BUSY, (409, "Conflict")) if method == "POST" else BUSY
        return self._weather.chance.choice(busy)

    def loses_answer(self, method: str) -> bool:
        return self._often(self._weather.lossy)

    async def passes(self) -> None:
        while not self.was_killed and (left_s := self.is_frozen()) > 0:  # noqa: ASYNC110  # it may be paused once more
            await asyncio.sleep(left_s)

    @property
    def is_dead(self) -> bool:
        return self.was_killed

    def _often(self, rate: float) -> bool:
        return not self._weather.is_calm and self._weather.chance.random() < rate


class JudgedBackend(KubernetesBackend):
    """The backend, with its actions shown to the checkers first, and what else may end an attempt noted."""

    judge: Callable[[Action], None]
    cluster: Machines

    def reason_to_refuse(self, launch: LaunchTask) -> ExitReport | None:
        report = super().reason_to_refuse(launch)
        # The node may be back, and not yet known to this server.
        if report is not None and launch.node in self.cluster.removed:
            self.cluster.blame(launch.key, "node_lost")
        return report

    def destroy(self, attempt: PodAttempt) -> None:
        # As for kills, if this server never saves the end of a pod that cannot start.
        self.cluster.blame(attempt.key, "lost")
        super().destroy(attempt)

    async def apply(self, actions: Sequence[Action]) -> None:
        for action in actions:
            self.judge(action)
            if isinstance(action, KillTask):
                # A later server does not know that an earlier one deleted the pod, and takes it for a user's deletion.
                self.cluster.blame(action.key, "lost")
        await super().apply(actions)


class KubeServer(Server):
    """A server that runs tasks on Kubernetes."""

    network: ServerNetwork

    def cut_off(self) -> None:
        self.network.was_killed = True


class KubeWorld(World):
    """Everything of one seed on Kubernetes."""

    # Shared objects of jobs are removed by a sweep that comes every ten minutes and wants to see them twice.
    silence_s = 1600
    on = " ON=kubernetes"

    def __init__(self, seed: int, loop: VirtualLoop) -> None:
        # Pauses between tries are random.
        random.seed(seed)
        self._connection, client.Connection = client.Connection, connection_of  # type: ignore[misc, assignment]
        dice = Random(f"kubernetes {seed}")
        self.weather = Weather(dice, loop)
        # The clock of the API server is not ours.
        skew = timedelta(seconds=dice.choice((0, 0, -240, 240)))
        self.api = StandInApi(now=lambda: datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC) + skew)
        self.api.admission.append(self._refuse_earlier_leaders)
        self.has_driver = dice.random() < 0.5
        self.gives_up_after_s = dice.choice((25.0, 25.0, 0.0))
        self.access: dict[str, StandInAccess] = {}
        self.rates = {
            name: dice.choice((0.0, 1.0, 3.0)) for name in ("api", "watches", "pods", "networks", "administrators")
        }
        super().__init__(seed, loop)
        self.cluster.refuses = dice.choice((0.0, 0.0, 0.05))
        self.luck = replace(self.luck, unique=dice.choice((0.0, 0.5)))

    def make_cluster(self) -> Machines:
        made = Machines(
            self.api, self.chance, self.loop, nodes=self.luck.nodes, gpus=self.luck.gpus, has_driver=self.has_driver
        )
        made.is_api_up = lambda: self.weather.is_up
        return made

    def make_checkers(self, connection: Any) -> Checkers:
        return KubeCheckers(connection, self.cluster, proof_only=self.gives_up_after_s == 0)

    def make_server(self, place: str, number: int) -> Server:
        network = ServerNetwork(self.weather)
        access = StandInAccess(api=self.api, network=network, namespace=NAMESPACE)
        options = KubernetesOptions(namespace=NAMESPACE, gives_up_after_s=self.gives_up_after_s)
        backend = JudgedBackend(access, SECRET, self.clock, options)
        backend.judge, backend.cluster = self.judge, self.cluster

        @asynccontextmanager
        async def term(epoch: int) -> AsyncIterator[None]:
            backend.lead_in(epoch)
            await backend.open()
            try:
                yield
            finally:
                await backend.close()

        server = KubeServer(place, number, self.database, backend, self.clock, self.names, self.look, term=term)
        server.network = network
        network.is_frozen = lambda: max(0.0, (server.frozen_until_ms - self.clock.now_ms()) / 1000)
        self.access[place] = access
        return server

    def troubles(self) -> list[tuple[float, Callable[[], Coroutine[Any, Any, None]]]]:
        rates = self.rates
        return [
            (rates["api"], self.lose_api),
            (rates["watches"], self.break_watches),
            (rates["watches"], self.expire_versions),
            (rates["pods"], self.lose_task),
            (rates["pods"], self.evict),
            (rates["pods"], self.delete_pod),
            (rates["pods"] / 2, self.forge_pod),
            (rates["networks"] * 2, self.cut_node),
            (rates["networks"] * 2, self.heal_node),
            (rates["administrators"], self.cordon),
            (rates["administrators"], self.remove_dead_node),
        ]

    # Steps.

    async def let_time_pass(self) -> None:
        await asyncio.sleep(self.chance.choice((0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)))
        self.look("time passes")

    async def lose_api(self) -> None:
        """Let the API server be away for seconds or minutes."""
        away_s = self.chance.choice((1.0, 10.0, 60.0, 300.0))
        self.note(f"the API server is away for {away_s} s")
        self.weather.down_until_s = self.loop.time() + away_s
        self._reset()
        self.loop.call_later(away_s + 0.001, self.cluster.catch_up)

    async def break_watches(self) -> None:
        """Break every watch in the middle of an event."""
        self.note("watches break")
        self._reset()

    async def expire_versions(self) -> None:
        """Let the API server forget every earlier version, and the watches find out by stream or by status."""
        self.note("versions expire")
        self.api.compact()
        for stream in self._streams():
            if self.chance.random() < 0.5:
                stream.expire()
            else:
                stream.reset()

    async def kill_node(self) -> None:
        name = self._node()
        self.note(f"{name} dies")
        self.cluster.turn_off(name)
        self.look(f"{name} dies")

    async def revive_node(self) -> None:
        name = self._node()
        self.cluster.turn_on(name)
        self.look(f"{name} comes back")

    async def break_devices(self) -> None:
        broken = frozenset(device for device in range(self.luck.gpus) if self.chance.random() < 0.3)
        self.cluster.break_cards(self._node(), broken)
        self.look("devices break")

    async def cut_node(self) -> None:
        """Break the network of a node, on which everything runs on."""
        name = self._node()
        self.cluster.cut(name)
        self.look(f"{name} is cut off")

    async def heal_node(self) -> None:
        """Mend the network of a node."""
        cut = [name for name, machine in sorted(self.cluster.machines.items()) if machine.is_cut and machine.is_on]
        if cut:
            name = self.chance.choice(cut)
            self.cluster.turn_on(name)
            self.look(f"{name} is heard again")

    async def lose_task(self) -> None:
        if one := self._a_container():
            self.cluster.lose(one)
            self.look(f"{one.key.path()} is killed by the kernel")

    async def evict(self) -> None:
        """Let a kubelet evict a pod."""
        if one := self._a_container():
            self.cluster.evict(one)
            self.look(f"{one.key.path()} is evicted")

    async def delete_pod(self) -> None:
        """Let a user of the cluster delete a pod, perhaps by force."""
        pods = [(key, pod) for key, pod in self.cluster.pods() if "fence" not in json.dumps(pod["metadata"]["labels"])]
        if not pods or not self.weather.is_up:
            return
        key, pod = self.chance.choice(pods)
        self.cluster.blame(key, "lost")
        grace_s = self.chance.choice((None, 0, 2))
        options = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        path = PODS.path(NAMESPACE, pod["metadata"]["name"])
        self.api.handle("DELETE", path, {}, json.dumps(options).encode())
        self.look(f"the pod of {key.path()} is deleted by hand with {options}")

    async def forge_pod(self) -> None:
        """Let a user create a pod that claims to be one of ours."""
        if not self.weather.is_up or not (pods := list(self.cluster.pods())):
            return
        key, pod = self.chance.choice(pods)
        forged: Object = copy.deepcopy(pod)
        forged["metadata"] = {
            "name": f"{pod['metadata']['name'][:40]}-{self.steps}",
            "labels": pod["metadata"]["labels"],
            "annotations": pod["metadata"]["annotations"],
        }
        forged["spec"].pop("resourceClaims", None)
        forged["spec"]["nodeName"] = ""
        self.api.handle("POST", PODS.path(NAMESPACE), {}, json.dumps(forged).encode())
        self.look(f"a pod is forged after that of {key.path()}")

    async def cordon(self) -> None:
        """Cordon a node, or uncordon it."""
        self._write_node(self._node(), {"spec": {"unschedulable": self.chance.random() < 0.5}})

    async def remove_dead_node(self) -> None:
        """Let an administrator take a dead machine out of the cluster, or out of service."""
        dead = [name for name, machine in sorted(self.cluster.machines.items()) if not machine.is_on]
        if not dead or not self.weather.is_up:
            return
        name = self.chance.choice(dead)
        if self.chance.random() < 0.5:
            self.cluster.remove(name)
            self.look(f"{name} is removed from the cluster")
        else:
            taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
            self._write_node(name, {"spec": {"taints": [taint]}})
            self.look(f"{name} is out of service")

    # The calm.

    async def calm_down(self) -> None:
        self.weather.is_calm = True
        self.cluster.refuses = 0.0
        for name, machine in self.cluster.machines.items():
            machine.broken = frozenset()
            self.cluster.turn_on(name)
            self._write_node(name, {"spec": {"unschedulable": None, "taints": None}})
        self._reset()
        self.note("calm")
        self.faults.is_calm = True
        for number in range(self.luck.servers):
            if "ab"[number] not in self.servers:
                await self.start_server("ab"[number])
        for server in self.servers.values():
            server.frozen_until_ms = 0
            server.turnstile.open()
        await self.settle()
        await self.put_right()

    def look_at_offices(self) -> None:
        super().look_at_offices()
        for plural in ("pods", "secrets", "services", "resourceclaims"):
            left = [each["metadata"]["name"] for each in self.api.all(plural) if _is_ours(plural, each)]
            if left:
                raise Violation(f"{plural} are left: {left}")

    async def end(self) -> None:
        await super().end()
        client.Connection = self._connection  # type: ignore[misc]

    def _node(self) -> str:
        return self.chance.choice(sorted(self.cluster.machines))

    def _a_container(self) -> Any:
        running = sorted(self.cluster.running(), key=lambda one: one.key)
        return self.chance.choice(running) if running else None

    def _write_node(self, name: str, body: Object) -> None:
        if self.weather.is_up:
            content = json.dumps(body).encode()
            self.api.handle("PATCH", NODES.path("", name), {}, content, "application/merge-patch+json")

    def _streams(self) -> list[Any]:
        return [stream for _, access in sorted(self.access.items()) for stream in list(access.streams)]

    def _reset(self) -> None:
        for stream in self._streams():
            stream.reset()

    def _refuse_earlier_leaders(self, plural: str, found: Object) -> None:
        """Refuse what an earlier leader creates, as the admission policy of the chart does."""
        epoch = (found["metadata"].get("labels") or {}).get("openpai/epoch")
        if plural != "pods" or epoch is None:
            return
        for each in self.api.all("configmaps"):
            labels = each["metadata"].get("labels") or {}
            if labels.get("openpai/part") == "leader" and int(each["data"]["epoch"]) > int(epoch):
                raise Refusal(422, "Invalid", "ValidatingAdmissionPolicy 'epochs' denied the request: another leads")


def _is_ours(plural: str, found: Object) -> bool:
    meta = found["metadata"]
    # What others forged stays theirs.
    is_forged = plural == "pods" and "openpai/exit" not in (meta.get("finalizers") or ())
    return "openpai/scope" in (meta.get("labels") or {}) and not is_forged
