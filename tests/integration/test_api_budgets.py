"""Budgets over HTTP: who sets and sees them, what is refused, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from .sharing_world import Sharing
from .test_api_quotas import submitted, world  # noqa: F401

VISION = {"kind": "vc", "name": "vision", "gpuHours": 0.0, "contact": "room 5"}


async def test_a_budget_is_set_listed_replaced_and_removed(world: Sharing) -> None:  # noqa: F811
    await world.put("/budgets", VISION | {"period": "quarter", "warnAt": [0.9, 0.5, 0.5]}, status=201)
    (found,) = await world.get("/budgets")
    assert found["usedUpAt"] is None or isinstance(found["usedUpAt"], int)
    assert found["renewsAt"] > 0
    expected = {"period": "quarter", "warnAt": [0.5, 0.9], "stops": "none", "noticeMinutes": 60.0, "gpuHoursUsed": 0.0}
    assert {key: found[key] for key in (*VISION, *expected)} == VISION | expected
    await world.put("/budgets", VISION | {"period": "quarter", "gpuHours": 5}, status=201)
    assert [one["gpuHours"] for one in await world.get("/budgets")] == [5]
    where = {"kind": "vc", "name": "vision", "period": "quarter"}
    assert (await world.ask("DELETE", "/budgets", params=where)).status_code == 200
    assert await world.refused("DELETE", "/budgets", params=where) == (404, "NoBudgetError")
    entries = (await world.get("/audit?action=budget.change"))["entries"]
    assert [entry["target"] for entry in entries] == ["vc/vision/quarter"] * 4


async def test_a_used_up_budget_refuses_in_words_that_help(world: Sharing) -> None:  # noqa: F811
    await world.put("/budgets", VISION, status=201)
    answer = await submitted(world, "train")
    assert (answer.status_code, answer.json()["code"]) == (400, "NoEnoughQuotaError")
    message = answer.json()["message"]
    assert "the budget of virtual cluster vision is used up: 0 of its 0 GPU hours of this month are used" in message
    assert (await submitted(world, "plain", gpus=0)).status_code == 202
    await world.put("/budgets", VISION | {"gpuHours": 1}, status=201)
    assert (await submitted(world, "train")).status_code == 202


async def test_users_see_the_budgets_that_concern_them(world: Sharing) -> None:  # noqa: F811
    for kind, name in (("user", "ann"), ("user", "max"), ("group", "seers"), ("vc", "vision"), ("vc", "speech")):
        await world.put("/budgets", {"kind": kind, "name": name, "gpuHours": 10}, status=201)
    assert [one["name"] for one in await world.get("/budgets", "ann")] == ["ann", "vision"]
    # A manager sees those of their virtual cluster, and sets none.
    assert [one["name"] for one in await world.get("/budgets", "max")] == ["seers", "max", "vision"]
    assert await world.refused("PUT", "/budgets", "max", json=VISION) == (403, "ForbiddenUserError")
    assert len(await world.get("/budgets")) == 5


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"kind": "user", "name": "nobody"}, "NoUserError"),
        ({"kind": "group", "name": "nobody"}, "NoGroupError"),
        ({"name": "nowhere"}, "NoVirtualClusterError"),
        ({"kind": "rack"}, "InvalidParametersError"),
        ({"name": ""}, "InvalidParametersError"),
        ({"period": "week"}, "InvalidParametersError"),
        ({"gpuHours": -1}, "InvalidParametersError"),
        ({"gpuHours": "NaN"}, "InvalidParametersError"),
        ({"warnAt": [1.5]}, "InvalidParametersError"),
        ({"noticeMinutes": -1}, "InvalidParametersError"),
        ({"contact": "a\nb"}, "InvalidParametersError"),
    ],
)
async def test_a_budget_that_makes_no_sense_is_refused(world: Sharing, more: dict[str, Any], code: str) -> None:  # noqa: F811
    assert (await world.refused("PUT", "/budgets", json=VISION | more))[1] == code
    assert await world.get("/budgets") == []
