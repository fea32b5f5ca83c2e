"""The machines of a cluster and their kubelets: containers that really run, whatever the API server believes.

A kubelet sees the API server only while its machine is on and connected. Containers go on while it is not. What
happened to each attempt is kept, for the checkers.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from openpai.backends.simulated.programs import TERMINATED, Program, program_of
from openpai.kube.objects.kinds import LEASES, NODES, SECRETS
from openpai.lifecycle.model import AttemptKey
from tests.kube.standin import Event, Object, StandInApi
from tests.simulation.kubernetes.control import (
    GPU,
    NAMESPACE,
    Container,
    Control,
    Machine,
    container,
    ended_status,
    running_status,
    unknown_status,
)

TRY_AGAIN_S: Final = 1.0


class Machines(Control):
    """All machines with their kubelets."""

    def __init__(self, api: StandInApi, chance: Random, loop: Any, *, nodes: int, gpus: int, has_driver: bool) -> None:
        self.refuses = 0.0
        """How likely a kubelet refuses a pod, or cannot pull its image."""
        self.starts: dict[AttemptKey, int] = {}
        self.causes: dict[AttemptKey, set[str]] = {}
        """What else than its own program may have ended an attempt, by attempt."""
        self.removed: set[str] = set()
        """The nodes that an administrator has ever removed."""
        self.codes: dict[AttemptKey, int] = {}
        """The exit codes of containers that ended by themselves or by SIGTERM."""
        self._chance = chance
        machines = {
            name: Machine(name, f"10.0.0.{number}", tuple(f"GPU-{name}-{gpu}" for gpu in range(gpus)))
            for number in range(1, nodes + 1)
            for name in [f"node-{number}"]
        }
        super().__init__(api, loop, machines, has_driver=has_driver)
        api.listeners.append(self._changed)

    # What checkers ask.

    def running(self) -> tuple[Container, ...]:
        """Return the containers that run."""
        return tuple(one for machine in self.machines.values() for one in self._of(machine) if one.code is None)

    def pods(self) -> Iterator[tuple[AttemptKey, Object]]:
        """Yield the pods of attempts, fences too."""
        for pod in self.api.all("pods"):
            if pod["metadata"]["namespace"] == NAMESPACE and (key := _identity(pod)) is not None:
                yield key[0], pod

    # What happens to machines.

    def turn_off(self, name: str) -> None:
        """Take a machine its power."""
        machine = self.machines[name]
        machine.is_on = False
        for one in self._of(machine):
            if one.code is None:
                self._blame(one.key, "node_lost", "lost")
                one.code, one.turn = 137, one.turn + 1
        machine.containers.clear()

    def turn_on(self, name: str) -> None:
        """Give a machine its power and its network back."""
        machine = self.machines[name]
        machine.is_on, machine.is_cut = True, False
        if self.is_api_up():
            self._join(machine)
            self._look_at_all(machine)

    def cut(self, name: str) -> None:
        """Break the network of a machine; what runs on it goes on."""
        self.machines[name].is_cut = True
        for one in self._of(self.machines[name]):
            self._blame(one.key, "node_lost")

    def break_cards(self, name: str, broken: frozenset[int]) -> None:
        """Let these devices of a machine be broken, and all others be well."""
        self.machines[name].broken = broken
        if self._hears(self.machines[name]):
            self._join(self.machines[name])

    def remove(self, name: str) -> None:
        """Remove a Node object, as the administrator of a dead machine does."""
        self.removed.add(name)
        for kind, namespace in ((NODES, ""), (LEASES, "kube-node-lease")):
            self.api.handle("DELETE", kind.path(namespace, name), {})

    def lose(self, one: Container) -> None:
        """Kill a container as the kernel does that is short of memory on the node."""
        self._blame(one.key, "exited")
        self._ended(one, 137)

    def evict(self, one: Container) -> None:
        """Evict a pod as a kubelet under pressure does."""
        self._blame(one.key, "evicted")
        one.printed = {"reason": "Evicted", "message": "The node was low on resource: memory."}
        self._ended(one, 137)

    def catch_up(self) -> None:
        """Let every kubelet look at all its pods, as after the API server was away."""
        for machine in self.machines.values():
            if self._hears(machine):
                self._join(machine)
                self._look_at_all(machine)

    def blame(self, key: AttemptKey, *reasons: str) -> None:
        """Note that something beside its program may end an attempt with these reasons."""
        self._blame(key, *reasons)

    # The kubelet.

    def _changed(self, event: Event) -> None:
        node = event.now["spec"].get("nodeName") if event.plural == "pods" else None
        if node in self.machines:
            delay_s = self._chance.choice((0.0, 0.05, 0.3))
            self._loop.call_later(delay_s, self._look, self.machines[node], event.now["metadata"]["name"])

    def _look_at_all(self, machine: Machine) -> None:
        names = {pod["metadata"]["name"] for pod in self.api.all("pods") if pod["spec"].get("nodeName") == machine.name}
        for name in sorted(names | {one.pod for one in self._of(machine)}):
            self._look(machine, name)

    def _look(self, machine: Machine, name: str) -> None:
        """Make the containers of a pod what the API server says, and report what they are."""
        if not self._hears(machine):
            return
        pod = self.api.get("pods", name, NAMESPACE)
        uid = pod["metadata"]["uid"] if pod else ""
        for one in self._of(machine):
            if one.pod == name and one.uid != uid:
                # Its pod is gone: nobody waits for its end.
                self._terminate(one, 30.0)
                if one.code is not None:
                    del machine.containers[one.uid]
        if pod is None or pod["spec"].get("nodeName") != machine.name:
            return
        meta, one_or_none = pod["metadata"], machine.containers.get(uid)
        is_deleted, has_ended = "deletionTimestamp" in meta, pod["status"].get("phase") in ("Succeeded", "Failed")
        if one_or_none is None:
            self._look_withoutcontainer(machine, pod, is_deleted=is_deleted, has_ended=has_ended)
        elif one_or_none.code is not None:
            if not has_ended:
                self._report(pod, ended_status(one_or_none))
            if is_deleted:
                self._confirm(pod)
        elif is_deleted:
            self._terminate(one_or_none, float(meta.get("deletionGracePeriodSeconds") or 1))
        elif pod["status"].get("phase") != "Running":
            self._report(pod, running_status(one_or_none))

    def _look_withoutcontainer(self, machine: Machine, pod: Object, *, is_deleted: bool, has_ended: bool) -> None:
        meta = pod["metadata"]
        identity = _identity(pod)
        if has_ended:
            if is_deleted:
                self._confirm(pod)
        elif meta["uid"] in machine.began:
            # It was running when the machine lost its power.
            if identity:
                self._blame(identity[0], "lost")
            self._report(pod, unknown_status())
        elif is_deleted:
            self._report(pod, unknown_status())
            self._confirm(pod)
        elif identity is not None:
            self._start(machine, pod, identity)

    def _start(self, machine: Machine, pod: Object, identity: tuple[AttemptKey, Object]) -> None:
        key, fields = identity
        trouble = self._chance.random() < self.refuses and not pod["status"].get("reason")
        if trouble:
            self._fail_to_start(pod, key)
            return
        if pod["status"].get("containerStatuses"):
            # Its image cannot be pulled, and will not be.
            return
        cards = self._cards(machine, pod)
        script = self._script(pod)
        if cards is None or script is None:
            self._loop.call_later(TRY_AGAIN_S, self._look, machine, pod["metadata"]["name"])
            return
        taken = frozenset[str]().union(*(one.cards for one in self._of(machine) if one.code is None))
        if taken & cards or not cards <= set(machine.cards):
            self._blame(key, "node_failed")
            failed = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no device is free"}
            self._report(pod, failed)
            return
        one = Container(
            pod["metadata"]["uid"], pod["metadata"]["name"], key, fields["grant"], machine.name,
            tuple(fields["devices"]), cards, bool(fields.get("unique")), self._now(),
        )  # fmt: skip
        machine.containers[one.uid] = one
        machine.began.add(one.uid)
        self.starts[key] = self.starts.get(key, 0) + 1
        env = {each["name"]: each["value"] for each in pod["spec"]["containers"][0]["env"]}
        self._report(pod, running_status(one))
        self._follow(one, program_of(script, env, 1000))

    def _fail_to_start(self, pod: Object, key: AttemptKey) -> None:
        how = self._chance.choice(("OutOfcpu", "NodePorts", "image"))
        if how == "image":
            self._blame(key, "image_missing")
            waiting = {"reason": "ImagePullBackOff", "message": "manifest unknown"}
            self._report(pod, {"phase": "Pending", "containerStatuses": [container({"waiting": waiting})]})
        else:
            self._blame(key, "out_of_resources" if how == "OutOfcpu" else "port_taken")
            self._report(pod, {"phase": "Failed", "reason": how, "message": "Pod was rejected"})

    def _cards(self, machine: Machine, pod: Object) -> frozenset[str] | None:
        """Return the devices of a pod; None while its claim is not allocated."""
        if not pod["spec"].get("resourceClaims"):
            wanted = int(pod["spec"]["containers"][0]["resources"]["limits"].get(GPU, 0))
            taken = frozenset[str]().union(*(one.cards for one in self._of(machine) if one.code is None))
            free = [card for card in machine.cards if card not in taken]
            # Kubelets choose as they like.
            self._chance.shuffle(free)
            return frozenset(free[:wanted]) if len(free) >= wanted else frozenset({"none is free"})
        claim = self.api.get("resourceclaims", pod["spec"]["resourceClaims"][0]["resourceClaimName"], NAMESPACE)
        status = claim["status"] if claim else {}
        if not any(user["uid"] == pod["metadata"]["uid"] for user in status.get("reservedFor", ())):
            return None
        results = status["allocation"]["devices"]["results"]
        return frozenset(f"GPU-{each['pool']}-{each['device'].removeprefix('gpu-')}" for each in results)

    def _script(self, pod: Object) -> str | None:
        """Return the user's commands, once the Secret with them is there."""
        for volume in pod["spec"]["volumes"]:
            for source in volume.get("projected", {}).get("sources", ()):
                secret = self.api.get(SECRETS.plural, source["secret"]["name"], NAMESPACE)
                if secret and "user.sh" in secret["data"]:
                    text = base64.b64decode(secret["data"]["user.sh"]).decode()
                    return text.partition("trap 'exit 143' TERM\n")[2]
        return None

    def _follow(self, one: Container, program: Program) -> None:
        one.program = program
        one.turn += 1
        if program.ends_after_ms is not None:
            self._loop.call_later(program.ends_after_ms / 1000, self._finish, one, one.turn, program.code)

    def _finish(self, one: Container, turn: int, code: int) -> None:
        if one.turn == turn and one.code is None:
            self._ended(one, code)

    def _terminate(self, one: Container, grace_s: float) -> None:
        if one.code is not None:
            return
        if not one.is_terminating:
            one.is_terminating = True
            program = one.program
            if not program.ignores_term:
                self._follow(one, program.on_term or Program(ends_after_ms=0, code=TERMINATED))
        self._loop.call_later(max(grace_s, 1.0), self._kill, one)

    def _kill(self, one: Container) -> None:
        if one.code is None:
            self._ended(one, 137)

    def _ended(self, one: Container, code: int) -> None:
        one.code, one.turn, one.ended_at = code, one.turn + 1, self._now()
        self.codes[one.key] = code
        self._look(self.machines[one.node], one.pod)

    def _of(self, machine: Machine) -> list[Container]:
        return list(machine.containers.values())

    def _blame(self, key: AttemptKey, *reasons: str) -> None:
        self.causes.setdefault(key, set()).update(reasons)

    def _now(self) -> str:
        return self.api.now().strftime("%Y-%m-%dT%H:%M:%SZ")


def _identity(pod: Object) -> tuple[AttemptKey, Object] | None:
    """Return the attempt of a pod and its identity, as it is written there."""
    text = (pod["metadata"].get("annotations") or {}).get("openpai/identity")
    if not text or "openpai/exit" not in (pod["metadata"].get("finalizers") or ()):
        return None
    fields = json.loads(text)
    return AttemptKey.parse(fields["attempt"]), fields
