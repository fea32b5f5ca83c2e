"""The nodes of a cluster as the backend reports them: their health, their devices, and what others leave of them.

`NodeTable` takes objects as they arrive, in any order, and asks nothing. A change is worked out for the nodes that it
is about, once they are asked for. What the table has to keep beyond a restart, the order of each node's devices, it
hands out for saving.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Final

from openpai.backends.kubernetes.devices import (
    DEVICES_MAX,
    Found,
    GpuMode,
    NodeDevices,
    Remembered,
    counted,
    numbered,
    with_grant,
)
from openpai.backends.kubernetes.foreign import ForeignPods, Use
from openpai.backends.kubernetes.leases import NodeLeases
from openpai.backends.kubernetes.node_checks import DRIFT_S, checks, with_drift
from openpai.backends.kubernetes.node_health import NodeRules, is_reachable, is_worker, problems
from openpai.backends.kubernetes.resource_slices import Place, places_of, pools_of, with_holders, with_rules
from openpai.kube.objects.devices import DeviceTaintRule, ResourceClaim, ResourceSlice
from openpai.kube.objects.nodes import Node
from openpai.kube.objects.pods import Pod
from openpai.kube.quantities import milli, whole
from openpai.ports.backend import NodeCheck, NodeSeen

MODE_LABEL: Final = "openpai/gpu-mode"
"""Chooses the mode of a node where more than one would do, and is the only way to the mode env."""
_MODEL_LABELS: Final = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "accelerator", "openpai/gpu-model")
_NOT_RENEWED: Final = "its kubelet does not renew its lease"
_COUNT_LABELS: Final = ("openpai/gpus", "nvidia.com/gpu.count")


@dataclass(frozen=True, slots=True)
class DeviceRules:
    """What counts as a device."""

    resources: tuple[str, ...] = ("nvidia.com/gpu", "nvidia.com/mig-*", "amd.com/gpu", "huawei.com/Ascend*")
    """Extended resources; `*` stands for any end."""
    classes: Mapping[str, str] = field(
        default_factory=lambda: {"gpu.nvidia.com": "gpu.nvidia.com", "gpu.amd.com": "gpu.amd.com"}
    )
    """The DeviceClass of each driver whose devices count."""


class NodeTable:
    """All nodes of a cluster, up to date with what was put in."""

    def __init__(
        self,
        is_ours: Callable[[Pod | ResourceClaim], bool],
        rules: NodeRules | None = None,
        device_rules: DeviceRules | None = None,
        remembered: Mapping[str, Sequence[Remembered]] | None = None,
    ) -> None:
        """`is_ours` recognises the platform's own pods and claims. `remembered` was saved by an earlier server."""
        self.leases = NodeLeases()
        self._known: dict[str, tuple[NodeSeen, NodeDevices]] = {}
        """By node, what was worked out and still holds, but for the Lease."""
        self._order: tuple[str, ...] | None = None
        self._foreign = ForeignPods(is_ours, self._touch)
        self._is_ours = is_ours
        self._rules = rules or NodeRules()
        self._device_rules = device_rules or DeviceRules()
        self._counting: dict[str, bool] = {}
        """Whether a resource counts devices, by its name: thousands of nodes have the same few."""
        self._remembered = {node: tuple(devices) for node, devices in (remembered or {}).items()}
        self._unsaved: set[str] = set()
        self._nodes: dict[str, Node] = {}
        self._slices: dict[str, dict[str, ResourceSlice]] = {}
        self._pools: dict[str, dict[tuple[str, str], tuple[Found, ...]]] = {}
        self._claims: dict[str, tuple[Place, ...]] = {}
        self._holders: dict[Place, str] = {}
        self._taints: dict[str, DeviceTaintRule] = {}
        self._held: dict[str, dict[str, tuple[int, ...]]] = {}
        self._reported: dict[str, dict[str, bool]] = {}
        """By node and pod of ours, whether its kubelet said which devices it got, and not only the pod itself."""

    def put_node(self, node: Node) -> None:
        """Record a node as it is now. One that was a worker once stays, with what is wrong with it."""
        if node.name in self._nodes or is_worker(node, self._rules):
            if node.name not in self._nodes:
                self._order = None
            self._nodes[node.name] = node
            self._touch(node.name)

    def drop_node(self, name: str) -> None:
        """Forget a node that was deleted. The order of its devices stays known, since it may join again."""
        if self._nodes.pop(name, None) is not None:
            self._order = None
            self._touch(name)

    def put_pod(self, pod: Pod) -> None:
        """Record a pod as it is now; what pods of others take of a node is subtracted."""
        self._foreign.put(pod)

    def drop_pod(self, uid: str) -> None:
        """Forget a pod that is gone."""
        self._foreign.drop(uid)

    def put_slice(self, each: ResourceSlice) -> None:
        """Record a slice of a driver whose devices count."""
        if each.spec.driver in self._device_rules.classes and each.spec.node_name:
            self._slices.setdefault(each.spec.node_name, {})[each.name] = each
            self._read_pools(each.spec.node_name)

    def drop_slice(self, name: str) -> None:
        """Forget a slice that was deleted."""
        for node, slices in self._slices.items():
            if slices.pop(name, None) is not None:
                self._read_pools(node)

    def _read_pools(self, node: str) -> None:
        slices = self._slices[node].values()
        there = {(each.spec.driver, each.spec.pool.name) for each in slices}
        before = {pool: found for pool, found in self._pools.get(node, {}).items() if pool in there}
        self._pools[node] = {**before, **pools_of(slices)}
        self._touch(node)

    def put_claim(self, claim: ResourceClaim) -> None:
        """Record a claim, which may hold devices."""
        self.drop_claim(claim.uid)
        places = () if self._is_ours(claim) else places_of(claim)
        if places:
            self._claims[claim.uid] = places
            self._holders.update(dict.fromkeys(places, f"{claim.namespace}/{claim.name}"))
            self._touch_pools(places)

    def drop_claim(self, uid: str) -> None:
        """Forget a claim that is gone."""
        places = self._claims.pop(uid, ())
        for place in places:
            self._holders.pop(place, None)
        if places:
            self._touch_pools(places)

    def put_taint_rule(self, rule: DeviceTaintRule) -> None:
        """Record a DeviceTaintRule."""
        self._taints[rule.name] = rule
        self._known.clear()

    def drop_taint_rule(self, name: str) -> None:
        """Forget a DeviceTaintRule that was deleted."""
        self._taints.pop(name, None)
        self._known.clear()

    def hold(self, node: str, pod_uid: str, indices: tuple[int, ...]) -> None:
        """Record which devices a pod of ours holds, so that no other is taken for them; none when it has ended."""
        held = self._held.setdefault(node, {})
        # As it is given: a set of each of ten thousand pods would take a megabyte and more.
        if indices:
            held[pod_uid] = indices
        else:
            held.pop(pod_uid, None)
            self._reported.get(node, {}).pop(pod_uid, None)
        self._touch(node)

    def got(self, node: str, pod_uid: str, found: Mapping[str, Collection[str]], *, is_proof: bool) -> bool:
        """Record the devices, by extended resource, that a pod of ours got on a node whose kubelet chooses them.

        `is_proof` is whether the kubelet says so. What a container says gives way to that, and counts only where it
        contradicts no other report. Returns False if it changes nothing because it does.
        """
        held, reported = self._held.get(node, {}), self._reported.setdefault(node, {})
        settled = frozenset[int]().union(
            *(held.get(uid, ()) for uid, proof in reported.items() if uid != pod_uid and proof >= is_proof)
        )
        before = after = self.devices(node).remembered
        for source, uuids in sorted(found.items()):
            mine = [at for at in sorted(held.get(pod_uid, ())) if at < len(before) and before[at].source == source]
            exchanged = with_grant(after, mine, uuids, settled)
            if exchanged is None:
                return False
            after = exchanged
        for uid in [uid for uid, proof in reported.items() if not proof and uid != pod_uid]:
            if any(before[at] != after[at] for at in held.get(uid, ())):
                del reported[uid]
        reported[pod_uid] = is_proof
        self._remember(node, after)
        return True

    def unsaved(self) -> dict[str, tuple[Remembered, ...]]:
        """Return the nodes whose devices are to be saved, each once."""
        found = {node: self._remembered[node] for node in sorted(self._unsaved)}
        self._unsaved.clear()
        return found

    def dead(self) -> frozenset[str]:
        """Return the nodes whose kubelets have stopped: their tasks are lost, or cannot be reached."""
        unreachable = {node.name for node in self._nodes.values() if not is_reachable(node) and node.status.conditions}
        return frozenset((self.leases.dead() | unreachable) & self._nodes.keys())

    def names(self) -> tuple[str, ...]:
        """Return the names of all nodes, in order."""
        if self._order is None:
            self._order = tuple(sorted(self._nodes))
        return self._order

    def seen(self, among: Iterable[str] | None = None) -> tuple[NodeSeen, ...]:
        """Return every node, or those of these that are there, as they are now, by name."""
        return tuple([self._now(name) for name in (self.names() if among is None else among) if name in self._nodes])

    def devices(self, node: str) -> NodeDevices:
        """Return the devices of a node; none for an unknown one."""
        return self._worked_out(node)[1] if node in self._nodes else NodeDevices()

    def named(self, marks: Mapping[str, Mapping[int, str]]) -> dict[tuple[str, str], tuple[Found, str]]:
        """Return these devices that are there, by node and identity, each with what was said of it by its index."""
        found: dict[tuple[str, str], tuple[Found, str]] = {}
        for node, texts in marks.items():
            devices = self.devices(node).devices
            for index, text in texts.items():
                device = devices[index] if index < len(devices) else None
                if device is not None:
                    found[node, device.identity] = (device, text)
        return found

    def gpu_resource(self) -> str:
        """Return the resource or driver of most GPUs; empty without any."""
        found = Counter(each.source for node in self._nodes for each in self.devices(node).devices if each is not None)
        return found.most_common(1)[0][0] if found else ""

    def kubelet(self, node: str) -> str:
        """Return the version of a node's kubelet; empty for an unknown node."""
        return self._nodes[node].status.node_info.kubelet_version if node in self._nodes else ""

    def _touch(self, node: str) -> None:
        """Work a node out once more when it is asked for next."""
        self._known.pop(node, None)

    def _touch_pools(self, places: Iterable[Place]) -> None:
        touched = {(driver, pool) for driver, pool, _ in places}
        for node, pools in self._pools.items():
            if not touched.isdisjoint(pools):
                self._touch(node)

    def _worked_out(self, name: str) -> tuple[NodeSeen, NodeDevices]:
        found = self._known.get(name)
        if found is None:
            node = self._nodes[name]
            devices = self._devices(node)
            found = self._known[name] = (self._seen(node, devices), devices)
        return found

    def _now(self, name: str) -> NodeSeen:
        seen = self._worked_out(name)[0]
        # No event says that a Lease ran out.
        if abs(drift_s := self.leases.drift_s(name)) >= DRIFT_S:
            seen = replace(seen, checks=with_drift(seen.checks, drift_s))
        if not self.leases.is_dead(name):
            return seen
        message = "; ".join(filter(None, (_NOT_RENEWED, seen.message)))
        lease = NodeCheck("lease", "failed", _NOT_RENEWED)
        return replace(seen, is_healthy=False, message=message, checks=(*seen.checks, lease))

    def _seen(self, node: Node, devices: NodeDevices) -> NodeSeen:
        use = self._foreign.of(node.name)
        wrong = list(problems(node, self._rules))
        bad = devices.problems
        allocatable = node.status.allocatable
        return NodeSeen(
            name=node.name,
            address=node.address("InternalIP") or node.address("ExternalIP") or node.address("Hostname"),
            cpus=max(milli(allocatable.get("cpu", "0")) - use.cpu_milli, 0) // 1000,
            memory_mb=max(whole(allocatable.get("memory", "0")) - use.memory_bytes, 0) >> 20,
            gpus=len(devices.devices),
            is_healthy=not wrong,
            bad_devices=frozenset(bad),
            devices=tuple(was.identity for was in devices.remembered),
            gpu_model=devices.model or _label(node, _MODEL_LABELS) if devices.devices else "",
            message="; ".join([*wrong, *(f"GPU {index}: {problem}" for index, problem in sorted(bad.items()))]),
            checks=tuple(checks(node, self._rules, bad)),
        )

    def _devices(self, node: Node) -> NodeDevices:
        wanted = node.metadata.label(MODE_LABEL)
        capacity = {name: count for name, count in node.status.capacity.items() if self._counts(name) and count != "0"}
        pools = self._pools.get(node.name, {})
        known = self._remembered.get(node.name, ())
        # Keep nothing of other modes: their devices are the same cards under other names.
        of_drivers = [was for was in known if was.source in self._device_rules.classes]
        if wanted == GpuMode.ENV:
            found = _named(GpuMode.ENV, [was for was in known if was.source == GpuMode.ENV], _labelled(node))
        elif (pools or (of_drivers and not capacity)) and wanted != GpuMode.PLUGIN:
            there = with_rules((device for pool in pools.values() for device in pool), self._taints.values())
            found = _named(GpuMode.DRA, of_drivers, with_holders(there, self._holders))
        else:
            found = self._counted(node, [was for was in known if self._counts(was.source)], capacity)
        self._remember(node.name, found.remembered)
        return found

    def _counted(self, node: Node, known: Sequence[Remembered], capacity: Mapping[str, str]) -> NodeDevices:
        usable = {name: whole(node.status.allocatable.get(name, "0")) for name in capacity}
        found = counted(known, {name: whole(count) for name, count in capacity.items()}, usable)
        held = frozenset[int]().union(*self._held.get(node.name, {}).values())
        return without_foreign(found, self._foreign.of(node.name), held)

    def _counts(self, resource: str) -> bool:
        counts = self._counting.get(resource)
        if counts is None:
            counts = any(fnmatchcase(resource, pattern) for pattern in self._device_rules.resources)
            self._counting[resource] = counts
        return counts

    def _remember(self, node: str, devices: tuple[Remembered, ...]) -> None:
        if self._remembered.get(node, ()) != devices:
            self._remembered[node] = devices
            self._unsaved.add(node)
            self._touch(node)


def without_foreign(devices: NodeDevices, use: Use, held: frozenset[int]) -> NodeDevices:
    """Return the devices of a node that counts them, with as many marked as pods of others took.

    The API does not show which devices these pods got, so the last ones are marked that no task of ours holds.
    """
    left = dict(use.resources)
    marked = list(devices.devices)
    for index in reversed(range(len(marked))):
        device = marked[index]
        if device and not device.problem and index not in held and left.get(device.resource, 0) > 0:
            left[device.resource] -= 1
            marked[index] = replace(device, problem="in use by a pod of another user of the cluster")
    return replace(devices, devices=tuple(marked))


def _named(mode: GpuMode, known: Sequence[Remembered], found: Iterable[Found]) -> NodeDevices:
    devices, remembered = numbered(known, found)
    return NodeDevices(mode if devices else GpuMode.NONE, devices, remembered)


def _labelled(node: Node) -> list[Found]:
    """Return the devices of a node in the mode env, which only a label counts."""
    count = _label(node, _COUNT_LABELS)
    number = min(int(count), DEVICES_MAX) if count.isdecimal() else 0
    return [Found(slot=f"{index:03}", resource=GpuMode.ENV) for index in range(number)]


def _label(node: Node, names: Iterable[str]) -> str:
    return next((found for found in map(node.metadata.label, names) if found), "")
