"""Which jobs changed: listed after a number, and followed over a connection by those who may read them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import cast

import httpx

from openpai.api import changes
from openpai.api.changes import ChangeFeed
from openpai.ports.queries import ChangedJob, Changes, JobQueries

from .api_world import World
from .log_readers import Events, running, serving

PRIVATE = "extras: {private: true}"


async def test_the_jobs_that_changed_are_listed_after_a_number(world: World):
    start = await world.get("/changes")
    assert (start["jobs"], start["complete"]) == ([], False)
    assert (await world.get("/changes", after=start["next"]))["jobs"] == []
    await running(world)
    found = await world.get("/changes", after=start["next"])
    assert (found["jobs"], found["others"], found["complete"]) == (["ann~train"], False, True)
    assert (await world.get("/changes", after=found["next"])) == {**found, "jobs": []}


async def test_of_jobs_that_a_user_may_not_read_only_their_existence_is_said(world: World):
    start = await world.get("/changes", "bob")
    await world.submit("secret", more=PRIVATE)
    found = await world.get("/changes", "bob", after=start["next"])
    assert (found["jobs"], found["others"]) == ([], True)
    assert (await world.get("/changes", "ann", after=start["next"]))["jobs"] == ["ann~secret"]
    assert (await world.get("/changes", "root", after=start["next"]))["jobs"] == ["ann~secret"]


async def test_too_many_changes_are_not_named(world: World, monkeypatch):
    monkeypatch.setattr(changes, "NAMED_MAX", 1)
    start = await world.get("/changes")
    await world.submit("one")
    await world.submit("two")
    found = await world.get("/changes", after=start["next"])
    assert (found["jobs"], found["complete"]) == ([], False)
    monkeypatch.setattr(changes, "READ_MAX", 1)
    assert not (await world.get("/changes", after=start["next"]))["complete"]
    # A number of another database, or of one that was restored from a backup.
    assert not (await world.get("/changes", after=10_000))["complete"]


async def test_a_reader_learns_each_change_at_once_and_continues_after_it(world: World):
    async with serving(world) as http:
        async with http.stream("GET", "/changes", params={"follow": "true"}) as response:
            events = Events(response)
            assert not (await _changed(events))["complete"]
            await world.submit("one")
            assert (await _changed(events))["jobs"] == ["ann~one"]
            await world.submit("two")
            assert (await _changed(events))["jobs"] == ["ann~two"]
            last = events.last_id
        await world.submit("three")
        headers = {"Last-Event-ID": last}
        async with http.stream("GET", "/changes", params={"follow": "true"}, headers=headers) as response:
            found = await _changed(Events(response))
            assert found["complete"]
            assert "ann~three" in found["jobs"]


async def test_a_stream_ends_with_its_login(world: World):
    async with serving(world) as http, http.stream("GET", "/changes", params={"follow": "true"}) as response:
        events = Events(response)
        await _changed(events)
        await world.ask("DELETE", "/authn/basic/logout")
        await _ended(events)


async def test_a_stream_ends_when_the_server_stops(world: World):
    async with serving(world) as http, http.stream("GET", "/changes", params={"follow": "true"}) as response:
        events = Events(response)
        await _changed(events)
        world.is_ready = False
        await _ended(events)
    assert not world.api.state.context.changes.readers


async def test_a_user_has_a_limit_of_streams_that_does_not_hold_for_others(world: World, monkeypatch):
    monkeypatch.setattr(changes, "READERS_PER_USER", 1)
    bob = await world.login("bob")
    async with serving(world) as http, http.stream("GET", "/changes?follow=true") as response:
        await _changed(Events(response))
        assert (await http.get("/changes?follow=true")).status_code == 429
        async with http.stream("GET", "/changes?follow=true", headers=bob) as other:
            assert other.status_code == 200


async def _changed(events: Events):
    while True:
        kind, data = await asyncio.wait_for(events.next(), 30)
        if kind == "changes":
            return data


async def _ended(events: Events):
    try:
        while True:
            await asyncio.wait_for(events.next(), 30)
    except (EOFError, httpx.RemoteProtocolError):
        return


@dataclass
class Log:
    """An event log by hand."""

    jobs: list[ChangedJob] = field(default_factory=list)
    looks: int = 0

    def add(self, number: int) -> None:
        self.jobs.append(ChangedJob(number, "ann", f"job-{number}", "default", 0, False))

    async def changes(self, after: int, limit: int) -> Changes:
        self.looks += 1
        found = sorted((one for one in self.jobs if one.id > after), key=lambda one: one.id)
        return Changes(max((one.id for one in self.jobs), default=0), tuple(found[:limit]))


async def test_an_event_that_is_committed_after_a_later_one_is_not_missed():
    log = Log()
    for number in range(1, 100):
        log.add(number)
    feed = ChangeFeed(cast("JobQueries", log))
    position = await feed.begin()
    log.add(102)
    await feed._look()
    log.add(101)
    await feed._look()
    position, found = feed.since(position)
    assert [one.id for one in found or ()] == [102, 101]
    await feed._look()
    assert feed.since(position)[1] == []


async def test_numbers_that_are_used_again_make_everything_unknown():
    log = Log()
    for number in range(1, 4):
        log.add(number)
    feed = ChangeFeed(cast("JobQueries", log))
    position = await feed.begin()
    log.jobs = log.jobs[:1]
    await feed._look()
    position, found = feed.since(position)
    assert found is None
    log.add(2)
    await feed._look()
    assert [one.id for one in feed.since(position)[1] or ()] == [2]


async def test_all_readers_share_one_look():
    log = Log()
    feed = ChangeFeed(cast("JobQueries", log))
    await feed.begin()
    before = log.looks
    await asyncio.gather(*(feed.wait() for _ in range(50)))
    assert log.looks == before + 1
