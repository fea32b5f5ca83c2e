"""Applications that are ready, used, idle, and stopped for that."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest_asyncio

from openpai.ports.applications import ApplicationState
from openpai.ports.platform import NotLeading
from openpai.protocol.applications import Kind

from .api_world import World
from .application_world import ApplicationWorld, Leading, application_world


@pytest_asyncio.fixture
async def place(world: World, tmp_path: Path) -> AsyncIterator[ApplicationWorld]:
    async with application_world(world, tmp_path) as opened:
        yield opened


async def _ready(place: ApplicationWorld) -> None:
    """Wait until the platform has seen that the application answers."""
    async with asyncio.timeout(30):
        while place.entrance.views(place.job).get("web", (None,))[0] is not ApplicationState.READY:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def _with(place: ApplicationWorld, **changes: object) -> None:
    one, other = place.platform.placed
    place.platform.placed = [replace(one, application=replace(one.application, **changes)), other]  # type: ignore[arg-type]


async def test_the_job_shows_its_applications_with_their_state(place: ApplicationWorld) -> None:
    await _ready(place)
    place.platform.placed[0] = replace(place.platform.placed[0], key=None)
    await place.entrance.watch.look()
    assert place.entrance.views(place.job)["web"].state is ApplicationState.WAITING
    place.platform.placed[0] = replace(place.platform.placed[0], is_over=True)
    await place.entrance.watch.look()
    assert place.entrance.views(place.job)["web"].state is ApplicationState.GONE
    shown = (await place.world.get("/jobs/ann~train"))["applications"]
    assert [(one["name"], one["taskRoleName"], one["state"]) for one in shown] == [
        ("web", "worker", "waiting"),
        ("chat", "worker", "waiting"),
    ]


async def test_an_idle_job_is_warned_and_then_stopped_with_the_reason(place: ApplicationWorld) -> None:
    _with(place, idle_s=1000.0)
    watch = place.entrance.watch
    await _ready(place)
    await watch.look()
    found = watch._watched[f"web-{place.job}"]
    found.used_s -= 900
    for _ in range(2):
        await watch.look()
    [warning] = place.platform.warned
    assert "application web was not used for 15 minutes" in warning
    assert "pai job open ann~train" in warning
    async with place.browser() as http:
        await http.get("/")
    await watch.look()
    assert place.platform.stopped == []
    found.used_s -= 900
    await watch.look()
    assert len(place.platform.warned) == 2
    found.used_s -= 200
    await watch.look()
    assert place.platform.stopped == ["application web was not used for 17 minutes"]


async def test_only_jobs_that_ask_for_it_or_exist_for_it_are_stopped(place: ApplicationWorld) -> None:
    watch = place.entrance.watch
    watch._services = replace(watch._services, limits=replace(watch._services.limits, idle_s=0.01))
    await _ready(place)
    await watch.look()
    assert place.entrance.views(place.job)["web"].stops_at_ms is None
    _with(place, owns_job=True, idle_s=0.0)
    await watch.look()
    assert place.platform.stopped == []
    _with(place, owns_job=True, idle_s=None)
    await asyncio.sleep(0.02)
    await watch.look()
    assert place.platform.stopped == ["application web was not used for 0 seconds"]


async def test_a_busy_kernel_is_use_and_an_open_page_is_not(place: ApplicationWorld) -> None:
    kernels = [{"execution_state": "idle", "last_activity": "2020-01-01T00:00:00.000000Z"}]

    class Jupyter(ApplicationWorld):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            body = json.dumps(kernels if b"/api/kernels" in head else []).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            await writer.drain()
            writer.close()

    place.__class__ = Jupyter
    _with(place, idle_s=100.0, kind=Kind.JUPYTER)
    watch = place.entrance.watch
    await _ready(place)
    label = f"web-{place.job}"
    found = watch._watched[label]
    for state, is_used in (("idle", False), ("busy", True)):
        kernels[0]["execution_state"] = state
        found.used_s -= 50
        found.kernels_at_s = 0
        before = found.used_s
        await watch._look_at_kernels(found)
        assert (found.used_s > before) is is_used
    for method, path, query, is_use in (
        ("GET", b"/api/kernels", b"", False),
        ("GET", b"/api/contents", b"", False),
        ("PUT", b"/api/contents/x", b"", True),
        ("GET", b"/lab/tree/x", b"", True),
        ("GET", b"/files/x", b"no_track_activity=1", False),
    ):
        assert watch.is_use(Kind.JUPYTER, method, path, query) is is_use, path
        assert watch.is_use(Kind.WEB, method, path, query)


async def test_a_server_that_does_not_lead_uses_up_no_ticket(place: ApplicationWorld) -> None:
    uri = await place.uri()

    class Following(Leading):
        async def require_leader(self) -> None:
            raise NotLeading("http://10.0.0.2:9186")

    async with httpx.AsyncClient(headers={"Accept": "text/html"}) as http:
        place.platform.__class__ = Following
        refused = await http.get(uri)
        assert (refused.status_code, 'http-equiv="refresh"' in refused.text) == (503, True)
        place.platform.__class__ = Leading
        assert (await http.get(uri)).status_code == 303
