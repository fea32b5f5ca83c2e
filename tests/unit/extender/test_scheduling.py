"""What the extender answers about pods of affinity groups, and what it keeps of them."""

from __future__ import annotations

import random

import pytest

from openpai.extender.groups import PodState
from openpai.extender.objects import Pod
from openpai.extender.scheduling import Blocked, Decided, Waiting
from openpai.extender.server import group_document, group_list
from openpai.protocol.errors import Refused
from openpai.scheduler.config.reading import read_config
from tests.unit.extender.cluster import CONFIG, NODES, Pods


@pytest.fixture
def pods() -> Pods:
    return Pods()


def test_a_gang_is_decided_with_its_first_pod(pods: Pods) -> None:
    gang = pods.gang("train", 2)
    assert len({*pods.run(*gang)}) == 2
    assert pods.used() == 8
    late = pods.create("late", affinityGroup={"name": "train", "members": [{"podNumber": 2, "leafCellNumber": 4}]})
    with pytest.raises(Refused, match="has 2 pods of 4 leaf cells, and none is missing"):
        pods.ask(late)


def test_pods_share_a_switch_where_they_can(pods: Pods) -> None:
    pods.run(pods.create("one", leaves=1))
    (place,) = pods.run(pods.create("two", leaves=2))
    assert place.split(":")[1] in ("0,1", "2,3")


def test_a_pod_that_does_not_fit_says_why(pods: Pods) -> None:
    pods.run(*pods.gang("train", 2))
    answer = pods.ask(pods.create("more", leaves=2))
    assert isinstance(answer, Waiting)
    assert "virtual cluster a uses 8 of its 8" in answer.reason
    assert pods.used() == 8


def test_a_group_that_is_larger_than_its_virtual_cluster_waits_and_says_so(pods: Pods) -> None:
    answer = pods.ask(pods.gang("huge", 3)[0])
    assert isinstance(answer, Waiting)
    assert "12" in answer.reason


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"vc": "none"}, "there is no virtual cluster 'none'"),
        ({"leafCellType": "H100"}, "there is no SKU type 'H100'"),
        ({"pinnedCellId": "p"}, "has no pinned cell 'p'"),
    ],
)
def test_a_pod_that_can_never_run_is_refused(pods: Pods, spec: dict[str, str], message: str) -> None:
    with pytest.raises(Refused, match=message):
        pods.ask(pods.create("wrong", **spec))


def test_preemption_is_announced_by_filter_and_reserved_by_preempt(pods: Pods) -> None:
    pods.run(*pods.gang("low", 2))
    high = pods.gang("high", 2, priority=10)
    answer = pods.ask(high[0])
    assert isinstance(answer, Blocked)
    assert sorted(pod.name for victims in answer.victims.values() for pod in victims) == ["low-0", "low-1"]
    assert [group["metadata"]["name"] for group in group_list(pods.extender)["items"]] == ["low"]
    nodes = [pods.preempt(name) for name in high]
    # Each pod of the preemptor names the victims of another node, since kube-scheduler preempts on one at a time.
    assert len({next(iter(blocked.victims)) for blocked in nodes if isinstance(blocked, Blocked)}) == 2
    status = group_document(pods.extender, "high")["status"]
    assert (status["state"], status["preemptingPods"]) == ("Preempting", high)
    assert group_document(pods.extender, "low")["status"]["state"] == "BeingPreempted"
    pods.delete("low-0")
    assert isinstance(pods.ask(high[0]), Blocked)
    pods.delete("low-1")
    assert len(pods.run(*high)) == 2
    assert group_document(pods.extender, "high")["status"]["allocatedPods"] == high


def test_victims_stay_when_the_preemptor_is_deleted(pods: Pods) -> None:
    low = pods.gang("low", 2)
    pods.run(*low)
    high = pods.gang("high", 2, priority=10)
    for name in high:
        pods.preempt(name)
    pods.delete(*high)
    assert group_document(pods.extender, "low")["status"]["state"] == "Allocated"
    assert [group["metadata"]["name"] for group in group_list(pods.extender)["items"]] == ["low"]


def test_a_group_of_pods_that_disagree_holds_no_cells(pods: Pods) -> None:
    pods.run(*pods.gang("low", 2))
    high = pods.gang("high", 2, priority=10)
    pods.preempt(high[0])
    other = pods.create(
        "other",
        leaves=1,
        priority=10,
        affinityGroup={"name": "high", "members": [{"podNumber": 1, "leafCellNumber": 1}]},
    )
    pods.delete("low-0", "low-1")
    with pytest.raises(Refused, match="has 0 pods of 1 leaf cells"):
        pods.ask(other)
    assert pods.used() == 0
    pods.run(*high)
    pods.delete(*high)
    assert pods.used() == 0


def test_a_new_pod_of_a_group_that_is_being_preempted_waits(pods: Pods) -> None:
    low = pods.gang("low", 2)
    pods.run(low[0])
    pods.preempt(pods.gang("high", 2, priority=10)[0])
    answer = pods.ask(low[1])
    assert isinstance(answer, Waiting)
    assert "being preempted" in answer.reason


def test_an_opportunistic_pod_leaves_for_a_guaranteed_one(pods: Pods) -> None:
    borrowers = [pods.create(f"idle-{i}", "b", priority=-1) for i in range(4)]
    pods.run(*borrowers)
    guaranteed = pods.gang("mine", 2)
    blocked = pods.preempt(guaranteed[0])
    assert isinstance(blocked, Blocked)
    for pod in next(iter(blocked.victims.values())):
        pods.delete(pod.uid)
    while isinstance(blocked := pods.preempt(guaranteed[1]), Blocked):
        for pod in next(iter(blocked.victims.values())):
            pods.delete(pod.uid)
    pods.run(*guaranteed)
    assert sum(name in pods.live for name in borrowers) == 2


def test_a_group_keeps_its_cells_until_its_last_pod_is_gone(pods: Pods) -> None:
    gang = pods.gang("train", 2)
    places = pods.run(*gang)
    pods.delete("train-0")
    assert pods.used() == 8
    again = pods.create("again", affinityGroup={"name": "train", "members": [{"podNumber": 2, "leafCellNumber": 4}]})
    assert pods.run(again) == places[:1]
    pods.delete("again", "train-1")
    assert pods.used() == 0
    assert group_list(pods.extender) == {"items": None}


def test_a_restart_finds_everything_where_it_was(pods: Pods) -> None:
    half = pods.gang("half", 2, "b", 2)
    pods.run(*pods.gang("train", 2), half[0], pods.create("idle", "b", 2, priority=-1))
    before = {name: pods.where(name) for name, pod in pods.live.items() if pod.node}
    documents = group_list(pods.extender)
    place = pods.extender.groups["half"].spots[1]
    pods.restart()
    assert {name: pods.where(name) for name in before} == before
    assert group_list(pods.extender) == documents
    assert pods.run(half[1]) == [f"{place.node}:{','.join(map(str, place.devices))}"]


def test_a_preemption_starts_again_after_a_restart(pods: Pods) -> None:
    pods.run(*pods.gang("low", 2))
    high = pods.gang("high", 2, priority=10)
    pods.preempt(high[0])
    pods.restart()
    assert isinstance(pods.preempt(high[0]), Blocked)


def test_a_bad_node_is_avoided_and_what_runs_there_stays(pods: Pods) -> None:
    (place,) = pods.run(pods.create("first"))
    node = place.split(":")[0]
    pods.extender.see_nodes({node: False})
    (other,) = pods.run(pods.create("second"))
    assert other.split(":")[0] != node
    assert pods.where("first") == place
    pods.delete("second", "first")
    pods.extender.see_nodes(dict.fromkeys(NODES, False))
    answer = pods.ask(pods.create("third"))
    assert isinstance(answer, Waiting)
    assert "bad" in answer.reason


def test_a_reservation_on_a_node_that_goes_bad_is_given_up(pods: Pods) -> None:
    pods.run(*pods.gang("low", 2))
    high = pods.gang("high", 2, priority=10)
    blocked = pods.preempt(high[0])
    assert isinstance(blocked, Blocked)
    pods.extender.see_nodes({next(iter(blocked.victims)): None})
    pods.check()
    assert group_document(pods.extender, "low")["status"]["state"] == "Allocated"
    again = pods.ask(high[0])
    assert isinstance(again, Blocked)


def test_nothing_is_placed_on_a_node_where_a_pod_holds_unknown_devices(pods: Pods) -> None:
    stranger = Pod("x", "default", "x", node="n0", spec='{"virtualCluster": "a", "leafCellNumber": 1}')
    pods.extender.see_pod(stranger)
    assert "default/x: annotation hivedscheduler.microsoft.com/pod-bind-info" in pods.extender.unreadable["n0"]["x"]
    places = pods.run(*pods.gang("train", 2), *[pods.create(f"idle-{i}", "b", priority=-1) for i in range(1)])
    assert "n0" not in {place.split(":")[0] for place in places}
    pods.extender.lose_pod("x")
    assert pods.run(pods.create("last", "b", priority=-1))[0].startswith("n0")


def test_a_placement_that_another_pod_has_is_not_believed(pods: Pods) -> None:
    (place,) = pods.run(pods.create("real"))
    node = place.split(":")[0]
    forged = Pod("f", "default", "f", node, pods.live["real"].spec, pods.live["real"].bind_info)
    pods.extender.see_pod(forged)
    assert list(pods.extender.unreadable) == [node]
    pods.check()
    pods.restart()
    assert pods.where("real") == place


def test_a_pod_that_is_asked_about_again_keeps_its_node_and_is_bound_by_force(pods: Pods) -> None:
    pod = pods.create("slow")
    first = pods.ask(pod)
    assert isinstance(first, Decided)
    assert [pods.ask(pod) for _ in range(3)] == [
        Decided(first.node), Decided(first.node), Decided(first.node, must_force=True),
    ]  # fmt: skip
    assert pods.extender.filter(pods.create("other"), [first.node]).must_force  # type: ignore[union-attr]


def test_suggested_nodes_count_where_the_pod_says_so(pods: Pods) -> None:
    for node in NODES:
        name = pods.create(f"only-{node}", "b", priority=-1, ignoreK8sSuggestedNodes=False)
        assert pods.extender.filter(name, [node]) == Decided(node)
    waits = pods.extender.filter(pods.create("none", "b", priority=-1, ignoreK8sSuggestedNodes=False), [])
    assert isinstance(waits, Waiting)


def test_binding_is_refused_elsewhere_than_decided_and_repeated_in_vain(pods: Pods) -> None:
    pod = pods.create("one")
    with pytest.raises(Refused, match="Waiting"):
        pods.extender.binding(pod, "n0")
    (place,) = pods.run(pod)
    assert pods.extender.binding(pod, place.split(":")[0]) is None
    with pytest.raises(Refused):
        pods.extender.binding(pod, "elsewhere")
    with pytest.raises(Refused, match="is bound to node"):
        pods.ask(pod)
    with pytest.raises(Refused, match="not seen yet"):
        pods.ask("unknown")


def test_a_group_of_another_virtual_cluster_cannot_be_joined(pods: Pods) -> None:
    gang = pods.gang("train", 2)
    pods.run(gang[0])
    members = {"name": "train", "members": [{"podNumber": 2, "leafCellNumber": 4}]}
    with pytest.raises(Refused, match="runs in virtual cluster a, not b"):
        pods.ask(pods.create("thief", "b", affinityGroup=members))


def test_a_group_takes_no_cells_if_its_placement_fits_no_annotation() -> None:
    nodes = tuple(f"node-{'0' * 200}{number:05}" for number in range(900))
    children = ", ".join(f"{{cellAddress: {node}}}" for node in nodes)
    config = CONFIG.split("  physicalCells", maxsplit=1)[0].replace("childCellNumber: 4}", "childCellNumber: 900}")
    pods = Pods(
        f"{config}  physicalCells: [{{cellType: RACK, cellChildren: [{children}]}}]\n"
        "virtualClusters: {a: {virtualCells: [{cellType: RACK, cellNumber: 1}]}}\n",
        nodes,
    )
    members = {"name": "huge", "members": [{"podNumber": 900, "leafCellNumber": 4}]}
    with pytest.raises(Refused, match="the placement of affinity group huge takes"):
        pods.extender.filter(pods.create("huge-0", affinityGroup=members), nodes)
    assert pods.used() == 0


def test_a_new_configuration_stops_no_pod(pods: Pods) -> None:
    places = pods.run(*pods.gang("train", 2))
    smaller = CONFIG.replace("cellNumber: 2}]}\n  b", "cellNumber: 1}]}\n  b")
    assert smaller != CONFIG
    assert pods.extender.reconfigure(read_config(smaller)).demoted == ("train",)
    pods.check()
    assert [pods.where(name) for name in ("train-0", "train-1")] == places


@pytest.mark.parametrize("seed", range(12))
def test_any_history_keeps_every_device_with_one_pod(seed: int) -> None:
    chance = random.Random(seed)
    pods = Pods()
    for step in range(120):
        act = chance.random()
        if act < 0.35:
            priority = chance.choice((-1, 0, 0, 10))
            pods.gang(
                f"g{step}", chance.choice((1, 1, 2)), chance.choice("ab"), chance.choice((1, 2, 4)), priority=priority
            )
        elif act < 0.7:
            _schedule(pods, chance)
        elif act < 0.85 and pods.live:
            pods.delete(chance.choice(sorted(pods.live)))
        elif act < 0.95:
            pods.extender.see_nodes({chance.choice(NODES): chance.choice((True, True, False, None))})
        else:
            pods.nodes = dict(pods.extender._nodes)
            before = {name: pods.where(name) for name, pod in pods.live.items() if pod.node}
            pods.restart()
            assert {name: pods.where(name) for name in before} == before
        pods.check()
    assert not pods.extender.unreadable
    pods.delete(*pods.live)
    assert pods.used() == 0
    assert not pods.extender.groups


def _schedule(pods: Pods, chance: random.Random) -> None:
    """Do as kube-scheduler would with one waiting pod."""
    waiting = [name for name in sorted(pods.live) if pods.extender.pods[name].state is not PodState.BOUND]
    if not waiting:
        return
    name = chance.choice(waiting)
    answer = pods.ask(name)
    if isinstance(answer, Decided) and chance.random() < 0.8:
        pods._run(name)
    elif isinstance(answer, Blocked):
        blocked = pods.preempt(name)
        victims = (
            [pod.uid for of_node in blocked.victims.values() for pod in of_node] if isinstance(blocked, Blocked) else []
        )
        pods.delete(*victims[: chance.randint(0, len(victims))])
