"""Alert rules, channels, silences and subscriptions over HTTP: who sees what, and what is never returned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from openpai.alerts.series import as_labels
from openpai.alerts.states import Alert, State
from openpai.ports.alerts import Changes

from .api_world import World


def fired(world: World, user: str, since_ms: int | None = None) -> Alert:
    labels = as_labels({"alertname": "Low", "severity": "warn", "job_name": f"{user}~train", "username": user})
    at_ms = world.clock.at_ms if since_ms is None else since_ms
    return Alert("Low", labels, State.FIRING, 1.0, at_ms, 0, at_ms, annotations={"summary": f"of {user}"})


async def stored(world: World, *alerts: Alert) -> None:
    await world.api.state.context.services.alerts.save(Changes(alerts), world.clock.at_ms, None)


async def test_users_see_the_alerts_of_rules_about_their_own_jobs_only(world: World) -> None:
    await stored(world, fired(world, "ann"), fired(world, "bob"))
    [own] = await world.get("/alerts", "ann")
    assert (own["labels"]["job_name"], own["annotations"]["summary"]) == ("ann~train", "of ann")
    assert [each["labels"].get("username") for each in await world.get("/alerts", "root")] == [None, "ann", "bob"]


async def test_an_alert_of_an_earlier_user_of_the_name_or_with_a_made_up_label_is_not_shown(world: World) -> None:
    old = fired(world, "ann", 1)
    strange = replace(fired(world, "bob"), labels=as_labels({"alertname": "X", "severity": "info", "username": "ann"}))
    await stored(world, old, strange)
    assert await world.get("/alerts", "ann") == []


async def test_what_is_over_or_pending_is_not_in_the_feed(world: World) -> None:
    pending, over = (
        replace(fired(world, "ann"), state=State.PENDING),
        replace(fired(world, "bob"), state=State.RESOLVED),
    )
    await stored(world, pending, over)
    assert [each["labels"]["alertname"] for each in await world.get("/alerts", "root")] == ["NodeGpuBad"]


async def test_the_feed_says_since_when_a_gpu_is_bad_as_the_rule_about_it_saw(world: World) -> None:
    labels = {"alertname": "NodeGpuBad", "severity": "error", "node_name": "n1", "minor_number": "1"}
    began = replace(fired(world, "ann"), rule="NodeGpuBad", labels=as_labels(labels))
    await stored(world, began)
    world.clock.at_ms += 3_600_000
    [found] = await world.get("/alerts", "root")
    assert found["startsAt"] == "2023-11-14T22:13:20.000Z"


async def test_credentials_of_channels_are_sealed_and_never_returned(world: World) -> None:
    data = {"host": "mail", "from": "pai@example.org", "username": "pai", "password": "s3cret-word"}
    answer = await world.ask("PUT", "/alert-channels/mail", "root", json={"kind": "mail", "data": data})
    assert answer.status_code == 200
    shown = await world.ask("GET", "/alert-channels", "root")
    for text in (answer.text, shown.text):
        assert "s3cret-word" not in text
    assert "s3cret-word" not in str((await world.ask("GET", "/audit", "root")).text)
    [kept] = await world.api.state.context.services.alerts.channels()
    assert b"s3cret-word" not in kept.sealed.data
    # Left out, they stay; for another server they are dropped.
    for change, remain in (({"from": "x@example.org"}, ["sealed"]), ({"host": "evil"}, [])):
        plain = {key: value for key, value in {**data, **change}.items() if key != "password"}
        answer = await world.ask("PUT", "/alert-channels/mail", "root", json={"kind": "mail", "data": plain})
        assert answer.json()["secrets"] == remain


@pytest.mark.parametrize("url", ["http://127.0.0.1/x", "http://169.254.169.254/latest", "http://[::1]/", "file:///etc"])
async def test_a_user_cannot_point_a_webhook_at_the_platform_itself(world: World, url: str) -> None:
    body: dict[str, Any] = {"on": ["end"], "url": url}
    assert (await world.ask("PUT", "/alerts/subscription", "ann", json=body)).status_code == 400
    assert (await world.get("/alerts/subscription", "ann"))["on"] == []


@pytest.mark.parametrize("kind", ["webhook", "slack", "alertmanager"])
async def test_a_channel_to_an_address_that_is_never_reached_is_refused_when_it_is_set(world: World, kind: str) -> None:
    body = {"kind": kind, "data": {"url": "http://169.254.169.254/latest"}}
    answer = await world.ask("PUT", "/alert-channels/hook", "root", json=body)
    assert (answer.status_code, "169.254.169.254, which webhooks may not reach" in answer.text) == (400, True)
    assert await world.get("/alert-channels", "root") == []
    # The cluster's own network is the administrator's.
    inside = {"kind": kind, "data": {"url": "http://10.1.2.3/hook"}}
    assert (await world.ask("PUT", "/alert-channels/hook", "root", json=inside)).status_code == 200


async def test_a_subscription_is_kept_in_the_profile(world: World) -> None:
    answer = await world.ask("PUT", "/alerts/subscription", "ann", json={"on": ["failure", "end"], "waitingMinutes": 5})
    kept = {"on": ["end", "failure"], "waitingMinutes": 5, "url": "", "shape": "webhook"}
    assert answer.json().items() >= kept.items()
    assert await world.get("/alerts/subscription", "ann") == answer.json()
    assert (await world.get("/alerts/subscription", "bob"))["on"] == []


async def test_a_subscription_that_cannot_arrive_says_why(world: World) -> None:
    async def problem(**wanted: Any) -> str:
        answer = await world.ask("PUT", "/alerts/subscription", "ann", json={"on": ["end"], **wanted})
        return str(answer.json()["problem"])

    assert "you have no e-mail address" in await problem()
    assert await problem(on=[]) == ""
    assert await problem(url="https://93.184.215.14/hook") == ""
    await world.users.change_user("ann", lambda user: replace(user, email="ann@example.org"))
    assert "set a channel of mail" in await problem()
    channel = {"kind": "mail", "data": {"host": "mail", "from": "pai@example.org"}}
    await world.ask("PUT", "/alert-channels/mail", "root", json=channel)
    assert await problem() == ""


async def test_rules_are_listed_and_a_faulty_one_is_refused_with_its_place(world: World) -> None:
    found = {each["name"]: each for each in await world.get("/alert-rules", "root")}
    assert found["NvidiaSmiDoubleEccError"]["actions"] == ["cordon"]
    assert found["PAIJobGpuPercentLowerThan30For1h"]["enabled"] is False
    answer = await world.ask("POST", "/alert-rules/test", "root", json={"text": "alert: A\nexpr: x >\n"})
    assert (answer.status_code, answer.json()["message"][:17]) == (400, "line 2, column 10")
    missing = await world.ask("GET", "/alert-rules/Nothing", "root")
    assert (missing.status_code, missing.json()["code"]) == (404, "NoAlertRuleError")
