"""The marketplace over HTTP: who sees, changes, approves and runs items, and what is counted."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from openpai.access.accounts import DEFAULT_GROUP, Group, User
from openpai.market.items import Content
from openpai.ports.market import ItemEdit
from openpai.protocol.errors import Unavailable

from .api_world import World, job_file

ITEMS = "/market/items"


def item(name: str = "train", **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "template", "title": name.title(), "protocol": job_file(name), **more}


def text(**more: Any) -> dict[str, Any]:
    return {key: value for key, value in item(**more).items() if key not in ("name", "kind")}


async def published(world: World, user: str = "ann", **more: Any) -> dict[str, Any]:
    answer = await world.ask("POST", ITEMS, user, json=item(**more))
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def names(world: World, user: str, **where: Any) -> list[str]:
    return [one["name"] for one in (await world.get(ITEMS, user, **where))["items"]]


async def test_an_item_that_may_not_be_seen_is_in_no_list_and_is_not_found(world: World) -> None:
    await world.users.add_group(Group("vision"))
    await world.users.add_user(User("vic", "", 1, groups=(Group(DEFAULT_GROUP), Group("vision"))))
    world.tokens["vic"] = await world.api.state.context.sessions.open("vic", lifetime_s=999)
    await published(world, name="open")
    await published(world, name="own", visibility="private")
    await published(world, name="ours", visibility="shared", groups=["vision"])
    assert await names(world, "ann", order="name") == ["open", "ours", "own"]
    assert await names(world, "bob") == ["open"]
    assert await names(world, "vic", order="name") == ["open", "ours"]
    assert len(await names(world, "root")) == 3
    for path in ("own", "ours", "none"):
        answer = await world.ask("GET", f"{ITEMS}/{path}", "bob")
        assert (answer.status_code, answer.json()["code"]) == (404, "NoMarketItemError")
        for method, tail in (("PUT", "/star"), ("POST", "/run"), ("DELETE", "")):
            assert (await world.ask(method, f"{ITEMS}/{path}{tail}", "bob")).status_code == 404


async def test_secrets_are_refused_with_their_line_and_are_nowhere_in_the_answer(world: World) -> None:
    body = item(protocol=job_file(more="secrets:\n  token: very-secret-word\n"))
    answer = await world.ask("POST", ITEMS, json=body)
    assert answer.status_code == 400
    assert [(fault["path"], fault["line"]) for fault in answer.json()["faults"]] == [("secrets.token", 14)]
    assert "very-secret-word" not in answer.text
    assert "very-secret-word" not in (await world.ask("GET", "/audit", "root")).text


async def test_of_two_edits_of_one_revision_one_wins(world: World) -> None:
    first = await published(world)
    edits = [
        world.ask("PUT", f"{ITEMS}/train", json={**text(summary=word), "revision": first["newest"]}) for word in "ab"
    ]
    assert sorted(answer.status_code for answer in await asyncio.gather(*edits)) == [200, 409]
    stale = await world.ask("PUT", f"{ITEMS}/train", json={**text(), "revision": 1})
    assert stale.json()["code"] == "ConflictMarketItemError"
    assert [one["revision"] for one in await world.get(f"{ITEMS}/train/revisions")] == [2, 1]
    assert (await world.get(f"{ITEMS}/train/revisions/1"))["summary"] == ""


async def test_with_approval_others_see_items_and_edits_only_once_they_are_approved(world: World) -> None:
    assert (await world.ask("PUT", "/market/settings", "ann", json={"approval": True})).status_code == 403
    assert (await world.ask("PUT", "/market/settings", "root", json={"approval": True})).json() == {"approval": True}
    assert (await published(world))["status"] == "pending"
    assert await names(world, "bob") == []
    assert await names(world, "root", status="waiting") == ["train"]
    assert (await world.ask("PUT", f"{ITEMS}/train/review", "ann", json={"approved": True})).status_code == 403
    assert (await world.ask("PUT", f"{ITEMS}/train/review", "root", json={"approved": True})).status_code == 200
    assert await names(world, "bob") == ["train"]
    await world.ask("PUT", f"{ITEMS}/train", json=text(summary="better"))
    assert (await world.get(f"{ITEMS}/train", "bob"))["summary"] == ""
    assert (await world.get(f"{ITEMS}/train", "bob"))["proposed"] is None
    assert (await world.get(f"{ITEMS}/train"))["proposed"]["summary"] == "better"
    assert await names(world, "root", status="waiting") == ["train"]
    stale = await world.ask("PUT", f"{ITEMS}/train/review", "root", json={"approved": True, "revision": 1})
    assert stale.status_code == 409
    await world.ask("PUT", f"{ITEMS}/train/review", "root", json={"approved": False, "reason": "too short"})
    assert (await world.get(f"{ITEMS}/train"))["reason"] == "too short"
    assert (await world.get(f"{ITEMS}/train", "bob"))["reason"] == ""
    assert await names(world, "root", status="waiting") == []
    await world.ask("PUT", f"{ITEMS}/train", json=text(summary="best"))
    await world.ask("PUT", f"{ITEMS}/train/review", "root", json={"approved": True, "revision": 3})
    assert (await world.get(f"{ITEMS}/train", "bob"))["summary"] == "best"


async def test_a_user_has_one_star_for_each_item_and_may_take_it_back(world: World) -> None:
    await published(world)
    for user in ("ann", "ann", "bob"):
        answer = await world.ask("PUT", f"{ITEMS}/train/star", user)
    assert (answer.json()["stars"], answer.json()["starred"]) == (2, True)
    assert await names(world, "bob", starred="true") == ["train"]
    assert (await world.ask("DELETE", f"{ITEMS}/train/star", "bob")).json()["stars"] == 1
    assert (await world.ask("DELETE", f"{ITEMS}/train/star", "bob")).json()["stars"] == 1


async def test_a_run_submits_a_job_that_says_what_it_was_made_from_and_is_counted_once(world: World) -> None:
    protocol = job_file(more="parameters: {lr: 0.1}\n").replace('"true"', '"train <% $parameters.lr %>"')
    await published(world, protocol=protocol)
    body = {"parameters": {"lr": 7}}
    headers = {"Idempotency-Key": "key-1234ab"}
    answers = [await world.ask("POST", f"{ITEMS}/train/run", "bob", json=body, headers=headers) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 202]
    run = answers[0].json()
    assert run["id"] == answers[1].json()["id"]
    job = f"bob~{run['name']}"
    assert "lr: 7" in (await world.ask("GET", f"/jobs/{job}/config", "bob")).text
    events = await world.get(f"/jobs/{job}/events", "bob")
    assert "from item train of the marketplace, revision 1" in str(events)
    assert [one["name"] for one in await world.get("/jobs", "bob", tagsContain="market:train")] == [run["name"]]
    forged = await world.ask("PUT", f"/jobs/{job}/tag", "bob", json={"value": "market:other"})
    assert forged.status_code == 400
    await world.ask("POST", f"{ITEMS}/train/run", "bob", json={"name": "second"})
    found = await world.get(f"{ITEMS}/train", "ann")
    assert (found["uses"], found["users"], found["parameters"]) == (2, 1, [{"name": "lr", "value": 0.1}])


async def test_a_run_that_is_refused_is_no_use(world: World) -> None:
    await published(world)
    for body in ({"parameters": {"lr": 1}}, {"virtualCluster": "none"}, {"secrets": {"x": "y"}}, {"file": "name: x"}):
        assert 400 <= (await world.ask("POST", f"{ITEMS}/train/run", "bob", json=body)).status_code < 500
    assert (await world.get(f"{ITEMS}/train"))["uses"] == 0


async def test_a_later_user_of_the_authors_name_does_not_get_the_items(world: World) -> None:
    await published(world, name="own", visibility="private")
    await published(world, name="open")
    await world.ask("DELETE", "/users/ann", "root")
    world.clock.at_ms += 10_000
    token = None
    await world.users.add_user(replace(User("ann", "", world.clock.at_ms), groups=(Group(DEFAULT_GROUP),)))
    token = await world.api.state.context.sessions.open("ann", lifetime_s=999)
    world.tokens["ann"] = token
    assert await names(world, "ann") == ["open"]
    assert (await world.ask("DELETE", f"{ITEMS}/open")).status_code == 403
    assert (await world.get(f"{ITEMS}/open"))["editable"] is False
    assert (await world.ask("DELETE", f"{ITEMS}/open", "root")).status_code == 200


async def test_official_items_and_other_authors_are_for_administrators(world: World) -> None:
    assert (await world.ask("POST", ITEMS, json=item(official=True))).status_code == 403
    assert (await world.ask("POST", ITEMS, json=item(author="bob"))).status_code == 403
    await published(world, "root", author="ann", official=True)
    assert (await world.ask("PUT", f"{ITEMS}/train", json=text())).status_code == 403
    await world.ask("PUT", f"{ITEMS}/train", "root", json=text(official=False))
    assert (await world.ask("PUT", f"{ITEMS}/train", json=text())).status_code == 200


async def test_lists_are_searched_sorted_counted_and_paged(world: World) -> None:
    for number in range(5):
        await published(world, name=f"item-{number}", categories=["vision" if number % 2 else "text"], tags=["x"])
        world.clock.at_ms += 1000
    await world.ask("PUT", f"{ITEMS}/item-3/star", "bob")
    assert await names(world, "bob", order="stars", limit=2) == ["item-3", "item-0"]
    assert await names(world, "bob", order="newest", offset=1, limit=1) == ["item-3"]
    page = await world.get(ITEMS, "bob", category="vision", limit=1)
    assert (page["total"], len(page["items"])) == (2, 1)
    assert await names(world, "bob", keyword="ITEM-4 ann") == ["item-4"]
    assert await names(world, "bob", keyword="%") == []
    assert await world.get("/market/categories", "bob") == [
        {"name": "text", "items": 3},
        {"name": "vision", "items": 2},
    ]


@pytest.mark.parametrize(
    "change", [{"name": "a\u202eb"}, {"title": "\x1b[2J"}, {"description": "\u2066"}, {"kind": "x"}]
)
async def test_harmful_texts_are_refused(world: World, change: dict[str, str]) -> None:
    assert (await world.ask("POST", ITEMS, json={**item(), **change})).status_code == 400


async def test_examples_are_added_once_and_stay_removed(world: World) -> None:
    market = world.api.state.context.services.market
    found = [(name, ItemEdit(Content(name, protocol=job_file(name)), is_official=True)) for name in ("one", "two")]
    assert await market.seed(found, "openpai") == 2
    await world.ask("DELETE", f"{ITEMS}/one", "root")
    assert await market.seed(found, "openpai") == 0
    await published(world, name="three")
    more = [*found, ("three", found[0][1]), ("four", found[0][1])]
    assert await market.seed(more, "openpai") == 1
    assert await names(world, "bob", order="name") == ["four", "three", "two"]
    assert (await world.get(f"{ITEMS}/three"))["author"] == "ann"


async def test_a_repeated_request_counts_the_use_that_could_not_be_counted(world: World) -> None:
    await published(world)
    context = world.api.state.context
    market = context.services.market

    class Failing:
        def __getattr__(self, name: str) -> Any:
            return getattr(market, name)

        async def used(self, *_: Any) -> None:
            raise Unavailable("the database cannot be written")

    headers = {"Idempotency-Key": "key-12345678"}
    world.api.state.context = replace(context, services=replace(context.services, market=Failing()))
    assert (await world.ask("POST", f"{ITEMS}/train/run", "bob", headers=headers)).status_code == 503
    world.api.state.context = context
    assert (await world.ask("POST", f"{ITEMS}/train/run", "bob", headers=headers)).status_code == 202
    assert (await world.get(f"{ITEMS}/train"))["uses"] == 1
    assert len(await world.get("/jobs", "bob")) == 1
