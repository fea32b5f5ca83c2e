"""Answers kube-scheduler's questions about pods, from HiveD's cells: pure state, without a clock or a network.

Kubernetes asks about one pod at a time; cells are decided for its whole affinity group when the first pod is asked
about, and each further pod gets its place in the group. What pods ask for is read from the API server's objects, never
from the body of a question. The only state beside the cells is which pod is which member of its group.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from openpai.extender.annotations import BIND_INFO, BIND_INFO_MAX, PodSpec, read_bind_info, read_own_place, read_spec
from openpai.extender.groups import Group, PodRecord, PodState
from openpai.extender.objects import Pod
from openpai.protocol.errors import Refused
from openpai.scheduler.cells.core import Hived
from openpai.scheduler.cells.model import Bind, NodeHealth, Preempt, State, Wait
from openpai.scheduler.cells.restoring import NO_GUARANTEE, Reconfigured
from openpai.scheduler.config.model import HivedConfig


@dataclass(frozen=True, slots=True)
class Decided:
    """The pod goes to this node; `must_force` if kube-scheduler cannot be relied on to bind it there."""

    node: str
    must_force: bool = False


@dataclass(frozen=True, slots=True)
class Blocked:
    """The pod can run once these pods have left: the pods to preempt, by node."""

    victims: Mapping[str, tuple[Pod, ...]]


@dataclass(frozen=True, slots=True)
class Waiting:
    """The pod cannot run now, and preemption would not help."""

    reason: str


Answer = Decided | Blocked | Waiting


@dataclass(slots=True)
class Extender:
    """The pods and affinity groups of a cluster that HiveD schedules."""

    core: Hived
    force_bind_threshold: int = 3
    pods: dict[str, PodRecord] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    unreadable: dict[str, dict[str, str]] = field(default_factory=dict)
    """Bound pods whose place is not known, by node, each with the reason. Nothing new is placed on their nodes."""
    _nodes: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.core.set_nodes({name: NodeHealth(is_healthy=False) for name in self.core.cluster.node_cells})

    def see_nodes(self, nodes: Mapping[str, bool | None]) -> None:
        """Record which nodes are healthy; None for one that is gone."""
        for name, is_healthy in nodes.items():
            if is_healthy is None:
                self._nodes.pop(name, None)
            else:
                self._nodes[name] = is_healthy
        known = self.core.cluster.node_cells
        self.core.set_nodes({name: self._health(name) for name in nodes if name in known})

    @property
    def healthy_nodes(self) -> frozenset[str]:
        """Return the nodes that are healthy."""
        return frozenset(name for name, is_healthy in self._nodes.items() if is_healthy)

    def _health(self, node: str) -> NodeHealth:
        return NodeHealth(self._nodes.get(node, False), is_draining=node in self.unreadable)

    def see_pod(self, pod: Pod) -> None:
        """Record a pod that is live, as the API server shows it now."""
        record = self.pods.get(pod.uid)
        if record is None:
            record = self.pods[pod.uid] = PodRecord(pod)
        if record.pod.spec != pod.spec:
            record.spec = None
        record.pod = pod
        if not pod.node or record.state is PodState.BOUND:
            return
        if record.member is not None and self.groups[record.group].spots[record.member].node != pod.node:
            self._give_up_place(record)  # something else bound it, and not where it was decided
        self._stop_preempting(record)
        record.state = PodState.BOUND
        if record.member is None:
            self._recover(record)

    def lose_pod(self, uid: str) -> None:
        """Record that a pod is over or gone. Its group's cells are free once all of the group's pods are."""
        record = self.pods.pop(uid, None)
        if record is None:
            return
        self._give_up_place(record)
        self._stop_preempting(record)
        node = record.pod.node
        if uid in self.unreadable.get(node, ()):
            del self.unreadable[node][uid]
            if not self.unreadable[node]:
                del self.unreadable[node]
                self.see_nodes({node: self._nodes.get(node)})

    def recover(self, pods: Iterable[Pod]) -> None:
        """Record the pods of a cluster at the start: those that are bound have their cells."""
        found = list(pods)
        found.sort(key=lambda pod: (not pod.node, pod.since_ms is None, pod.since_ms or 0, pod.key))
        for pod in found:
            self.see_pod(pod)
        self.core.restored()

    def reconfigure(self, config: HivedConfig) -> Reconfigured:
        """Switch to another configuration; no pod is stopped."""
        report = self.core.reconfigure(config)
        self.see_nodes({name: self._nodes.get(name) for name in self.core.cluster.node_cells})
        return report

    def filter(self, uid: str, suggested: Collection[str], now_ms: int | None = None) -> Answer:
        """Return where a pod goes, whose pods it waits for, or why it waits; refuse one that can never run."""
        record = self._unbound(uid)
        if record.state is PodState.BINDING:
            record.attempts += 1
            return self._decided(record, suggested)
        spec = self._spec_of(record)
        group = self._group_of(spec)
        if group is None or group.preempting:
            group, answer = self._decide(record, spec, group, suggested, now_ms, may_reserve=False)
            if group is None:
                record.is_blocked = isinstance(answer, Blocked) and bool(answer.victims)
                return answer
        record.is_blocked = False
        return self._join(record, spec, group, suggested)

    def preempt(self, uid: str, suggested: Collection[str], now_ms: int | None = None) -> Blocked | Waiting:
        """Return which pods of one node must leave for a pod, and reserve their cells for its group."""
        record = self._unbound(uid)
        if record.state is PodState.BINDING:
            message = f"pod {record.pod.key} is being bound to node {self._place(record)}"
            raise Refused("ConflictJobError", message, "wait until it is bound")
        record.is_blocked = False
        spec = self._spec_of(record)
        group = self._group_of(spec)
        if group is not None and not group.preempting:
            return Waiting("free cells appeared")
        if (
            group is not None
            and not spec.ignores_suggested_nodes
            and {spot.node for spot in group.spots} - {*suggested}
        ):
            self._drop(spec.group)
            group = None
        _, answer = self._decide(record, spec, group, suggested, now_ms, may_reserve=True)
        if not isinstance(answer, Blocked):
            return answer if isinstance(answer, Waiting) else Waiting("free cells appeared")
        return _on_one_node(answer, list(self.groups[spec.group].preempting).index(uid))

    def preempt_unasked(self, uid: str, suggested: Collection[str], now_ms: int | None = None) -> tuple[Pod, ...]:
        """Return the pods to delete for a pod that waits for preemption, if kube-scheduler did not ask about it.

        It asks only about nodes that are full for Kubernetes, too. Its other rules hold here as well: only pods of a
        lower priority in Kubernetes leave, and none for a pod that says never.
        """
        record = self.pods.get(uid)
        if record is None or not record.is_blocked or not record.pod.may_preempt:
            return ()
        spec = self._spec_of(record)
        group = self._group_of(spec)
        decision = self.core.schedule(spec.request([*suggested]) if group is None else group.request, now_ms)
        self.core.roll_back()
        if not isinstance(decision, Preempt):
            return ()
        leaving = [pod for pods in self._victims(decision).values() for pod in pods]
        if not leaving or any(pod.priority >= record.pod.priority for pod in leaving):
            return ()
        chosen = self.preempt(uid, suggested, now_ms)
        return tuple([pod for pods in chosen.victims.values() for pod in pods]) if isinstance(chosen, Blocked) else ()

    def binding(self, uid: str, node: str) -> dict[str, Any] | None:
        """Return the Binding that puts a pod where it was decided; None if it is bound there already."""
        record = self.pods.get(uid)
        if record is None:
            raise Refused(
                "NoJobError", f"pod {uid} is over, or was never seen", "wait until kube-scheduler has noticed"
            )
        if record.state is PodState.BOUND and record.pod.node == node:
            return None
        if record.state is not PodState.BINDING:
            message = f"pod {record.pod.key} is {record.state.value}, so it cannot be bound to node {node}"
            raise Refused("ConflictJobError", message, "ask with filter first")
        if self._place(record) != node:
            message = f"pod {record.pod.key} was decided for node {self._place(record)}, not {node}"
            raise Refused("ConflictJobError", message, "bind it where filter said")
        pod = record.pod
        assert record.member is not None  # noqa: S101  it has the state Binding
        annotations = self.groups[record.group].annotations(record.member)
        metadata = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid, "annotations": annotations}
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}

    def _unbound(self, uid: str) -> PodRecord:
        record = self.pods.get(uid)
        if record is None:
            message = f"pod {uid} is over, does not ask for HiveD, or was not seen yet"
            raise Refused("NoJobError", message, "kube-scheduler asks again")
        if record.state is PodState.BOUND:
            message = f"pod {record.pod.key} is bound to node {record.pod.node}"
            raise Refused("ConflictJobError", message, "kube-scheduler will notice")
        return record

    def _spec_of(self, record: PodRecord) -> PodSpec:
        if record.spec is None:
            try:
                record.spec = read_spec(record.pod.spec, record.pod.key)
            except Refused as error:
                record.spec = error
        if isinstance(record.spec, Refused):
            raise record.spec
        return record.spec

    def _group_of(self, spec: PodSpec) -> Group | None:
        """Return the group of a pod if it has cells or has reserved them."""
        group = self.groups.get(spec.group)
        if group is None:
            return None
        if spec.group not in self.core.cluster.gangs:
            # It was waiting for its victims, and lost what was reserved for it.
            self._drop(spec.group)
            return None
        if group.request.virtual_cluster != spec.virtual_cluster:
            owner = group.request.virtual_cluster
            message = f"affinity group {spec.group} runs in virtual cluster {owner}, not {spec.virtual_cluster}"
            raise Refused("ConflictJobError", message, "give the group another name; names count in the whole cluster")
        return group

    def _decide(
        self,
        record: PodRecord,
        spec: PodSpec,
        group: Group | None,
        suggested: Collection[str],
        now_ms: int | None,
        *,
        may_reserve: bool,
    ) -> tuple[Group | None, Answer]:
        """Decide for a group without cells; return it if it has them now. Cells are reserved only if `may_reserve`."""
        request = group.request if group is not None else spec.request([*suggested])
        decision = self.core.schedule(request, now_ms)
        if isinstance(decision, Wait):
            record.state = PodState.WAITING
            return None, Waiting(f"{decision.message}. Waiting for {decision.unblock}.")
        if isinstance(decision, Bind) and may_reserve:
            self.core.roll_back()
            return None, Waiting("free cells appeared")
        if isinstance(decision, Bind):
            self.core.commit(request.id, now_ms)
            group = self._admit(Group(request, decision.chain))
            return group, Waiting("")
        blocked = Blocked(self._victims(decision))
        if may_reserve:
            self.core.commit(request.id, now_ms)
            if group is None:
                group = self.groups[request.id] = Group(request, decision.chain, decision.spots)
            group.preempting[record.pod.uid] = None
            record.group, record.state = request.id, PodState.PREEMPTING
        else:
            self.core.roll_back()
        return None, blocked

    def _admit(self, group: Group) -> Group:
        """Record a group that has its cells, or refuse it without a trace if its placement fits no annotation."""
        name = group.request.id
        for uid in self.groups[name].preempting if name in self.groups else ():
            self.pods[uid].state = PodState.WAITING
        group.spots = self.core.spots_held(name)
        group.cell_types = tuple([kind or NO_GUARANTEE for kind in self.core.binding(name)])
        length = len(group.annotations(0)[BIND_INFO])
        if length > BIND_INFO_MAX:
            self.core.release(name)
            self.groups.pop(name, None)
            message = f"the placement of affinity group {name} takes {length} bytes; a pod holds {BIND_INFO_MAX}"
            raise Refused("InvalidParametersError", message, "divide it into smaller affinity groups")
        self.groups[name] = group
        return group

    def _join(self, record: PodRecord, spec: PodSpec, group: Group, suggested: Collection[str]) -> Answer:
        """Give a pod its place in a group that has its cells."""
        if self.core.cluster.gangs[spec.group].state is State.BEING_PREEMPTED:
            return Waiting(f"affinity group {spec.group} is being preempted by a group of higher priority.")
        member = group.free_member(spec.leaves)
        if member is None:
            if not group.pods:
                self._drop(spec.group)  # its first pod asks for another size than the pod that reserved the cells
            size = sum(count for count, leaves in group.request.members if leaves == spec.leaves)
            message = f"affinity group {spec.group} has {size} pods of {spec.leaves} leaf cells, and none is missing"
            raise Refused("ConflictJobError", message, "wait until one ends, or give the pod a group of its own")
        group.pods[member] = record.pod.uid
        record.group, record.member, record.state, record.attempts = spec.group, member, PodState.BINDING, 0
        return self._decided(record, suggested)

    def _decided(self, record: PodRecord, suggested: Collection[str]) -> Decided:
        node = self._place(record)
        is_stale = node not in self._nodes or node not in suggested
        return Decided(node, is_stale or record.attempts >= self.force_bind_threshold)

    def _place(self, record: PodRecord) -> str:
        return "" if record.member is None else self.groups[record.group].spots[record.member].node

    def _victims(self, decision: Preempt) -> dict[str, tuple[Pod, ...]]:
        """Return the pods that must leave, by node. Those that are not bound yet cannot be preempted so far."""
        found: dict[str, list[Pod]] = {}
        for name in decision.victims:
            group = self.groups.get(name)
            for uid in group.pods.values() if group is not None else ():
                pod = self.pods[uid].pod
                if pod.node:
                    found.setdefault(pod.node, []).append(pod)
        return {node: tuple(found[node]) for node in sorted(found)}

    def _give_up_place(self, record: PodRecord) -> None:
        if record.member is None:
            return
        group = self.groups[record.group]
        group.pods.pop(record.member, None)
        record.member = None
        if not group.pods:
            self._drop(record.group)

    def _stop_preempting(self, record: PodRecord) -> None:
        group = self.groups.get(record.group)
        if record.state is PodState.PREEMPTING and group is not None and record.pod.uid in group.preempting:
            del group.preempting[record.pod.uid]
            if not group.preempting:
                self._drop(record.group)

    def _drop(self, name: str) -> None:
        """Forget a group: its cells are free, and its victims may stay."""
        self.groups.pop(name, None)
        self.core.release(name)

    def _recover(self, record: PodRecord) -> None:
        """Give a bound pod the place that its annotation names; keep its node from new pods if that is impossible."""
        try:
            self._restore(record, self._spec_of(record))
        except Refused as error:
            node = record.pod.node
            self.unreadable.setdefault(node, {})[record.pod.uid] = f"{record.pod.key}: {error.message}"
            self.see_nodes({node: self._nodes.get(node)})

    def _restore(self, record: PodRecord, spec: PodSpec) -> None:
        own = read_own_place(record.pod.bind_info)
        if own.node != record.pod.node:
            message = f"it is bound to node {record.pod.node}, and annotation {BIND_INFO} says {own.node or 'nothing'}"
            raise Refused("InvalidParametersError", message, "delete the pod")
        group = self._group_of(spec)
        if group is not None and group.preempting:
            self._drop(spec.group)
            group = None
        if group is None:
            info = read_bind_info(record.pod.bind_info)
            spots = tuple([spot for spot, _ in info.placements])
            types = tuple([name for _, name in info.placements])
            request = replace(spec.request(()), members=info.members(), nodes=None)
            self.core.restore(request, spots, record.pod.since_ms, types)
            group = self.groups[spec.group] = Group(request, info.chain, spots, types)
        member = group.member_at(own)
        if member is None:
            message = f"another pod of affinity group {spec.group} runs there, or the group was placed elsewhere"
            raise Refused("ConflictJobError", message, "delete the pod, or the others of its group")
        group.pods[member] = record.pod.uid
        record.group, record.member = spec.group, member


def _on_one_node(blocked: Blocked, turn: int) -> Blocked | Waiting:
    """Return the victims of one node, since kube-scheduler preempts on one at a time; another one for each pod."""
    able = {node: pods for node, pods in blocked.victims.items() if not all(pod.is_leaving for pod in pods)}
    if not able:
        return Waiting("the pods to preempt are ending, or are not bound yet")
    node = list(able)[turn % len(able)]
    return Blocked({node: able[node]})
