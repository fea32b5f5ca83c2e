"""Announcements over HTTP: what all users see, from a time on and until another one."""

from __future__ import annotations

from typing import Any

from .api_world import World

HOUR_MS = 3_600_000


async def announced(world: World, text: str, **more: Any) -> Any:
    answer = await world.ask("POST", "/announcements", "root", json={"text": text, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def texts(world: World, user: str = "ann", **params: Any) -> list[str]:
    return [f"{one['text']}: {one['state']}" for one in await world.get("/announcements", user, **params)]


async def test_users_see_what_is_announced_from_its_time_until_its_end(world: World) -> None:
    now_ms = world.clock.at_ms
    assert await texts(world) == []
    made = await announced(world, " the cluster is upgraded \n", level="warning", toTime=now_ms + HOUR_MS)
    assert (made["text"], made["level"], made["by"]) == ("the cluster is upgraded", "warning", "root")
    await announced(world, "new GPUs", fromTime=now_ms + 2 * HOUR_MS)
    assert await texts(world) == ["the cluster is upgraded: shown"]
    assert await texts(world, "root", all="true") == ["new GPUs: waiting", "the cluster is upgraded: shown"]
    world.clock.at_ms += 3 * HOUR_MS
    assert await texts(world) == ["new GPUs: shown"]
    assert await texts(world, "root", all="true") == ["new GPUs: shown", "the cluster is upgraded: over"]
    world.clock.at_ms += 31 * 24 * HOUR_MS
    world.tokens.clear()
    assert await texts(world, "root", all="true") == ["new GPUs: shown"]


async def test_a_removed_announcement_is_not_listed(world: World) -> None:
    made = await announced(world, "wrong")
    assert (await world.ask("DELETE", f"/announcements/{made['id']}", "root")).status_code == 200
    assert await texts(world, "root", all="true") == []
    again = await world.ask("DELETE", f"/announcements/{made['id']}", "root")
    assert (again.status_code, again.json()["code"]) == (404, "NoAnnouncementError")


async def test_an_announcement_without_a_text_or_a_time_is_refused(world: World) -> None:
    now_ms = world.clock.at_ms
    for body in (
        {"text": "  "},
        {"text": "x", "toTime": now_ms},
        {"text": "x", "fromTime": now_ms + HOUR_MS, "toTime": now_ms + 1},
        {"text": "x", "level": "loud"},
        {"text": "x" * 2001},
    ):
        answer = await world.ask("POST", "/announcements", "root", json=body)
        assert (answer.status_code, answer.json()["code"]) == (400, "InvalidParametersError"), body
    assert await texts(world, "root", all="true") == []


async def test_only_administrators_see_those_to_come(world: World) -> None:
    assert (await world.ask("GET", "/announcements?all=true", "ann")).status_code == 403


async def test_there_is_a_limit(world: World) -> None:
    for number in range(50):
        await announced(world, str(number))
    answer = await world.ask("POST", "/announcements", "root", json={"text": "one more"})
    assert (answer.status_code, "remove one first" in answer.text) == (400, True)
