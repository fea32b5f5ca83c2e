"""Indices of devices stay, whatever drivers and kubelets do, and a pod asks for exactly the devices at its indices."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openpai.backends.kubernetes.devices import (
    Found,
    GpuMode,
    NodeDevices,
    Remembered,
    counted,
    device_request,
    numbered,
    with_grant,
)


def gpu(uuid: str, slot: str = "", name: str = "") -> Found:
    return Found(uuid, slot, "gpu.nvidia.com", "n1", name or f"name-of-{uuid}", model="H100")


def uuids(devices: tuple[Found | None, ...]) -> list[str | None]:
    return [device.uuid if device else None for device in devices]


def test_devices_are_numbered_by_their_slots_at_first_sight() -> None:
    devices, _ = numbered((), [gpu("b", "0000:02"), gpu("a", "0000:03"), gpu("c", "0000:01")])

    assert uuids(devices) == ["c", "b", "a"]


def test_a_renamed_device_in_another_slot_keeps_its_index() -> None:
    _, remembered = numbered((), [gpu("a", "1", "gpu-0"), gpu("b", "2", "gpu-1")])

    devices, _ = numbered(remembered, [gpu("b", "1", "gpu-0"), gpu("a", "2", "gpu-1")])

    assert uuids(devices) == ["a", "b"]


def test_a_missing_device_leaves_the_others_their_indices_and_comes_back_to_its_own() -> None:
    _, remembered = numbered((), [gpu("a", "1"), gpu("b", "2"), gpu("c", "3")])

    without, remembered = numbered(remembered, [gpu("c", "3"), gpu("a", "1")])
    again, _ = numbered(remembered, [gpu("b", "7"), gpu("c", "3"), gpu("a", "1")])

    assert uuids(without) == ["a", None, "c"]
    assert uuids(again) == ["a", "b", "c"]
    assert NodeDevices(GpuMode.DRA, without).problems == {1: "is missing"}


def test_a_replaced_card_takes_the_index_of_its_slot() -> None:
    _, remembered = numbered((), [gpu("a", "1"), gpu("b", "2"), gpu("c", "3")])

    devices, remembered = numbered(remembered, [gpu("a", "1"), gpu("new", "2"), gpu("c", "3")])

    assert uuids(devices) == ["a", "new", "c"]
    assert remembered[1].identity == "new"


def test_a_new_card_in_a_new_slot_fills_the_gap_before_it_adds_an_index() -> None:
    _, remembered = numbered((), [gpu("a", "1"), gpu("b", "2")])

    devices, _ = numbered(remembered, [gpu("b", "2"), gpu("x", "8"), gpu("y", "9")])

    assert uuids(devices) == ["x", "b", "y"]


def test_partitions_of_one_card_are_not_taken_for_replacements_of_each_other() -> None:
    _, remembered = numbered((), [gpu("m1", "1"), gpu("m2", "1"), gpu("b", "2")])

    devices, _ = numbered(remembered, [gpu("m2", "1"), gpu("m3", "1"), gpu("b", "2")])

    assert uuids(devices) == ["m3", "m2", "b"]


devices_of_a_node = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["", "1", "2", "3", "4"])), unique_by=lambda pair: pair[0]
)


@given(st.lists(devices_of_a_node, min_size=2, max_size=6))
def test_no_history_moves_a_device_that_stays_and_none_is_lost_or_doubled(history: list[list[tuple[str, str]]]) -> None:
    remembered: tuple[Remembered, ...] = ()
    before: dict[str, int] = {}
    for step in history:
        found = [gpu(uuid, slot) for uuid, slot in step]
        devices, remembered = numbered(remembered, found)
        now = {device.uuid: index for index, device in enumerate(devices) if device}
        assert sorted(now) == sorted(uuid for uuid, _ in step)
        assert all(now[uuid] == before[uuid] for uuid in now.keys() & before.keys())
        assert (devices, remembered) == numbered(remembered, reversed(found))
        before = now


def test_a_driver_with_countless_devices_does_not_fill_the_memory() -> None:
    devices, remembered = numbered((), (gpu(f"{number:05}") for number in range(5000)))

    assert len(devices) == len(remembered) == 256


def test_counted_devices_stay_when_the_kubelet_loses_some() -> None:
    first = counted((), {"nvidia.com/gpu": 4}, {"nvidia.com/gpu": 4})
    sick = counted(first.remembered, {"nvidia.com/gpu": 4}, {"nvidia.com/gpu": 3})
    gone = counted(first.remembered, {"nvidia.com/gpu": 2}, {"nvidia.com/gpu": 2})
    none = counted(first.remembered, {}, {})

    assert first.problems == {}
    assert sick.problems == {3: "its kubelet does not offer it"}
    assert gone.problems == {2: "is missing", 3: "is missing"}
    assert len(none.devices) == 4
    assert len(none.problems) == 4


def test_counted_devices_of_all_nodes_are_one_object() -> None:
    one, other = (counted((), {"nvidia.com/gpu": 2}, {"nvidia.com/gpu": 2}).devices for _ in range(2))
    assert one[0] is one[1] is other[0]


def test_counted_partitions_are_asked_for_by_their_kinds() -> None:
    node = counted(
        (),
        {"nvidia.com/mig-1g.5gb": 2, "nvidia.com/mig-3g.20gb": 1},
        {"nvidia.com/mig-1g.5gb": 2, "nvidia.com/mig-3g.20gb": 1},
    )

    request = device_request(node, (1, 2))

    assert request.resources == {"nvidia.com/mig-1g.5gb": 1, "nvidia.com/mig-3g.20gb": 1}
    assert not request.is_exact


def test_a_task_that_takes_all_devices_gets_exactly_these() -> None:
    node = counted((), {"nvidia.com/gpu": 4}, {"nvidia.com/gpu": 3})

    assert device_request(node, (0, 1, 2)).is_exact
    assert not device_request(node, (0, 1)).is_exact


def test_a_counting_kubelet_sets_the_variable_itself() -> None:
    request = device_request(counted((), {"nvidia.com/gpu": 4}, {"nvidia.com/gpu": 4}), (2, 3))

    assert request.resources == {"nvidia.com/gpu": 2}
    assert request.unset == {"NVIDIA_VISIBLE_DEVICES"}
    assert request.env == {"CUDA_VISIBLE_DEVICES": "0,1"}
    assert request.claim == ()


def test_a_claim_names_the_devices_and_the_runtime_adds_none() -> None:
    devices, remembered = numbered((), [gpu("a", "1"), gpu("b", "2"), gpu("c", "3")])

    request = device_request(NodeDevices(GpuMode.DRA, devices, remembered), (2, 0))

    assert [device.uuid for device in request.claim] == ["c", "a"]
    assert request.env == {"CUDA_VISIBLE_DEVICES": "0,1", "NVIDIA_VISIBLE_DEVICES": "void"}
    assert request.resources == {}
    assert request.is_exact


def test_a_task_without_devices_sees_none_in_any_mode() -> None:
    request = device_request(counted((), {"nvidia.com/gpu": 4}, {"nvidia.com/gpu": 4}), ())

    assert request.env["NVIDIA_VISIBLE_DEVICES"] == "none"
    assert request.env["CUDA_VISIBLE_DEVICES"] == ""
    assert request.resources == {}


def test_the_mode_env_names_devices_in_a_variable() -> None:
    devices, remembered = numbered((), [gpu("a", "1"), gpu("b", "2")])

    assert device_request(NodeDevices(GpuMode.ENV, devices, remembered), (1,)).env["NVIDIA_VISIBLE_DEVICES"] == "b"


@pytest.mark.parametrize("index", [-1, 3, 99])
def test_a_device_that_is_not_there_is_an_error(index: int) -> None:
    devices, remembered = numbered((), [gpu("a", "1"), gpu("b", "2"), gpu("c", "3")])
    node = NodeDevices(GpuMode.DRA, (*devices[:2], devices[2], None), remembered)

    with pytest.raises(LookupError, match=f"no GPU {index}"):
        device_request(replace(node, devices=(*devices, None)), (0, index))


def identities(remembered: tuple[Remembered, ...] | None) -> list[str] | None:
    return None if remembered is None else [was.identity for was in remembered]


def test_what_the_kubelet_chose_exchanges_its_index_with_what_was_planned() -> None:
    node = counted((), {"nvidia.com/gpu": 4}, {"nvidia.com/gpu": 4}).remembered

    first = with_grant(node, (0, 1), ["d", "c"], frozenset())
    assert identities(first) == ["c", "d", "", ""]
    second = with_grant(first or (), (2,), ["a"], frozenset({0, 1}))
    assert identities(second) == ["c", "d", "a", ""]
    later = with_grant(second or (), (3,), ["c"], frozenset({2}))
    assert identities(later) == ["", "d", "a", "c"]
    assert with_grant(second or (), (3,), ["c"], frozenset({0, 1, 2})) is None


@pytest.mark.parametrize(("indices", "got"), [((0, 1), ["a"]), ((0,), []), ((7,), ["a"]), ((0, 1), ["a", "a"])])
def test_a_report_about_other_devices_changes_nothing(indices: tuple[int, ...], got: list[str]) -> None:
    node = counted((), {"nvidia.com/gpu": 4}, {"nvidia.com/gpu": 4}).remembered

    assert with_grant(node, indices, got, frozenset()) is None
