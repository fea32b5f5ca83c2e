"""HiveD's HTTP API, as kube-schedulers of different ages use it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from openpai.extender.objects import Pod
from openpai.extender.server import application
from openpai.extender.service import Service
from openpai.extender.serving import Answering
from openpai.protocol.errors import PaiError, Refused
from tests.unit.extender.cluster import NODES, Pods


class Api:
    """The extender's HTTP API over pods that exist by hand; bindings are written down."""

    def __init__(self) -> None:
        self.pods = Pods()
        self.bound: list[dict[str, Any]] = []
        self.deleted: list[str] = []
        self.woken: list[str] = []
        self.refusal: PaiError | None = None
        self.service = Service(self.pods.extender, self, lambda: 0)
        transport = httpx.ASGITransport(application(Answering(self.service)), raise_app_exceptions=False)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://extender")

    async def bind(self, binding: dict[str, Any]) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.bound.append(binding)

    async def delete(self, pod: Pod) -> None:
        self.deleted.append(pod.name)

    async def wake(self, pod: Pod) -> None:
        self.woken.append(pod.name)

    async def idle(self) -> None:
        """Wait until nothing runs beside the requests."""
        while self.service._running:
            await asyncio.gather(*self.service._running)

    async def post(self, verb: str, body: Any) -> Any:
        answer = await self.http.post(f"/v1/extender/{verb}", content=json.dumps(body))
        return answer.status_code, answer.json()

    async def filter(self, uid: str, **body: Any) -> Any:
        return await self.post("filter", {"Pod": {"metadata": {"uid": uid}}, "NodeNames": NODES, **body})

    async def inspect(self, path: str) -> Any:
        answer = await self.http.get(f"/v1/inspect/{path}")
        return answer.status_code, answer.json()


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    found = Api()
    async with found.http:
        yield found


async def test_a_pod_is_filtered_and_bound(api: Api) -> None:
    api.pods.create("one", leaves=2)
    status, answer = await api.filter("one")
    (node,) = answer["NodeNames"]
    assert (status, answer) == (200, {"Nodes": None, "NodeNames": [node], "FailedNodes": None, "Error": ""})
    body = {"PodName": "one", "PodNamespace": "default", "PodUID": "one", "Node": node}
    assert await api.post("bind", body) == (200, {"Error": ""})
    (binding,) = api.bound
    assert (binding["kind"], binding["target"]["name"], binding["metadata"]["uid"]) == ("Binding", node, "one")
    assert binding["metadata"]["annotations"]["hivedscheduler.microsoft.com/pod-leaf-cell-isolation"] == "0,1"


async def test_old_kube_schedulers_write_keys_in_lower_case(api: Api) -> None:
    api.pods.run(api.pods.create("low"), api.pods.create("low2"))
    api.pods.create("high", priority=5)
    _, answer = await api.post("filter", {"pod": {"metadata": {"uid": "high"}}, "nodenames": NODES})
    assert all("has preemptible Pods: low" in text for text in answer["FailedNodes"].values())
    body = {"pod": {"metadata": {"uid": "high"}}, "nodeNameToMetaVictims": {"n0": {"pods": []}}}
    status, answer = await api.post("preempt", body)
    ((_, victims),) = answer["NodeNameToMetaVictims"].items()
    assert (status, victims["NumPDBViolations"], len(victims["Pods"])) == (200, 0, 1)


async def test_a_kube_scheduler_that_sends_whole_nodes_gets_whole_nodes(api: Api) -> None:
    api.pods.create("one")
    items = [{"metadata": {"name": node, "labels": {"zone": "1"}}} for node in NODES]
    _, answer = await api.filter("one", NodeNames=None, Nodes={"items": items})
    assert answer["NodeNames"] is None
    assert answer["Nodes"]["items"][0] in items


async def test_a_pod_that_waits_shows_the_reason_on_a_node_of_that_name(api: Api) -> None:
    api.pods.run(*api.pods.gang("train", 2))
    api.pods.create("more", leaves=1)
    _, answer = await api.filter("more")
    assert "virtual cluster a uses 8 of its 8" in answer["FailedNodes"]["hivedscheduler"]
    assert (await api.post("preempt", {"Pod": {"metadata": {"uid": "more"}}}))[1] == {"NodeNameToMetaVictims": None}


async def test_a_question_waits_for_the_watch_to_show_the_pod(api: Api) -> None:
    asking = asyncio.create_task(api.filter("late"))
    await asyncio.sleep(0)
    spec = json.dumps({"virtualCluster": "a", "leafCellNumber": 1})
    api.service.see_pod(Pod("late", "default", "late", spec=spec))
    assert (await asking)[1]["NodeNames"]


async def test_errors_are_answered_as_hived_answers_them(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openpai.extender.service.SEEN_WITHIN_S", 0.01)
    assert "was not seen yet" in (await api.filter("unknown"))[1]["Error"]
    assert "not JSON" in (await api.http.post("/v1/extender/filter", content=b"{")).json()["Error"]
    assert "no Pod with a uid" in (await api.post("filter", {"Pod": {}}))[1]["Error"]
    assert "PodUID" in (await api.post("bind", {"PodName": "x"}))[1]["Error"]
    status, text = await api.post("preempt", {"Pod": {"metadata": {"uid": "unknown"}}})
    assert (status, "was not seen yet" in text) == (400, True)
    assert (await api.inspect("affinitygroups/none"))[0] == 400
    assert (await api.inspect("clusterstatus/virtualclusters/none"))[0] == 400
    assert (await api.http.get("/v1/other")).status_code == 404


async def test_a_binding_that_the_api_server_refuses_is_an_error(api: Api) -> None:
    api.pods.create("one")
    _, answer = await api.filter("one")
    api.refusal = Refused("ConflictJobError", "pod one is already bound")
    body = {"PodName": "one", "PodNamespace": "default", "PodUID": "one", "Node": answer["NodeNames"][0]}
    assert "already bound" in (await api.post("bind", body))[1]["Error"]


async def test_a_pod_that_kube_scheduler_does_not_bind_is_bound_by_force(api: Api) -> None:
    api.pods.create("one")
    for _ in range(4):
        _, answer = await api.filter("one")
    await asyncio.sleep(0)
    assert [binding["target"]["name"] for binding in api.bound] == answer["NodeNames"]


async def test_groups_and_cells_can_be_inspected(api: Api) -> None:
    assert await api.inspect("affinitygroups/") == (200, {"items": None})
    api.pods.run(api.pods.create("one"))
    _, groups = await api.inspect("affinitygroups/")
    assert [group["status"]["allocatedPods"] for group in groups["items"]] == [["one"]]
    assert await api.inspect("affinitygroups/default/one") == (200, groups["items"][0])
    _, status = await api.inspect("clusterstatus")
    assert await api.inspect("clusterstatus/physicalcluster") == (200, status["physicalCluster"])
    assert await api.inspect("clusterstatus/virtualclusters/") == (200, status["virtualClusters"])
    assert await api.inspect("clusterstatus/virtualclusters/a") == (200, status["virtualClusters"]["a"])
    paths = (await api.http.get("/")).json()["paths"]
    assert "/v1/inspect/clusterstatus/virtualclusters/" in paths


@pytest.mark.parametrize(("priority", "may_preempt", "deleted"), [(5, True, 1), (5, False, 0), (0, True, 0)])
async def test_pods_are_preempted_where_kube_scheduler_does_not_ask(
    api: Api, monkeypatch: pytest.MonkeyPatch, priority: int, may_preempt: bool, deleted: int
) -> None:
    monkeypatch.setattr("openpai.extender.service.ASKED_WITHIN_S", 0.0)
    api.pods.run(*api.pods.gang("low", 2))
    name = api.pods.create("high", priority=5)
    api.service.see_pod(replace(api.pods.live[name], priority=priority, may_preempt=may_preempt))
    await api.filter("high")
    await api.idle()
    assert len(api.deleted) == deleted
    _, groups = await api.inspect("affinitygroups/")
    states = {group["metadata"]["name"]: group["status"]["state"] for group in groups["items"]}
    assert states == ({"low": "BeingPreempted", "default/high": "Preempting"} if deleted else {"low": "Allocated"})


async def test_pods_are_not_preempted_twice_where_kube_scheduler_asks(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openpai.extender.service.ASKED_WITHIN_S", 0.05)
    api.pods.run(*api.pods.gang("low", 2))
    api.pods.create("high", priority=5)
    await api.filter("high")
    await api.post("preempt", {"Pod": {"metadata": {"uid": "high"}}})
    await api.idle()
    assert api.deleted == []


async def test_kube_scheduler_is_made_to_ask_again_about_pods_it_asked_about_too_early(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openpai.extender.service.WAKES_AFTER_S", 0.05)
    nodes = api.pods.run(*[api.pods.create(f"b{i}", "b") for i in range(2)])
    for name in ("early", "prompt"):
        api.pods.create(name, "b")
        await api.filter(name)
    assert len(nodes) == 2
    api.service.see_nodes({"n0": True})
    assert not api.service._running
    # It asked about both when it saw that the pod was gone; this was seen here only between the two questions.
    api.service.lose_pod("b0")
    await api.filter("prompt")
    await api.idle()
    assert api.woken == ["early"]
    # One that is not asked about although it was woken is not woken again and again.
    api.service.changed()
    await api.idle()
    assert api.woken == ["early"]
