"""Browsers at the applications of jobs: how they get in, and what passes in both directions."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import h11
import httpx
import pytest
import pytest_asyncio
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError, InvalidStatus

from .api_world import World
from .application_world import TOKEN, ApplicationWorld, application_world, cookies_of


@pytest_asyncio.fixture
async def place(world: World, tmp_path: Path) -> AsyncIterator[ApplicationWorld]:
    async with application_world(world, tmp_path) as opened:
        yield opened


async def test_a_ticket_lets_one_browser_in_once_and_leaves_the_address(place: ApplicationWorld) -> None:
    uri = await place.uri()
    async with httpx.AsyncClient() as http:
        first = await http.get(uri)
        assert (first.status_code, first.headers["location"]) == (303, "/start?at=1")
        cookie = first.headers["set-cookie"]
        assert cookie.endswith("; Path=/; HttpOnly; SameSite=Lax")
        assert first.headers["referrer-policy"] == "no-referrer"
        assert "cookies" not in first.headers["clear-site-data"]
        again = await http.get(uri, headers={"Cookie": ""})
        assert (again.status_code, again.json()["code"]) == (401, "UnauthorizedUserError")
    [entry] = [one for one in await place.entries() if "application" in one.detail]
    assert (entry.actor, entry.target, entry.owner, entry.detail["application"]) == ("ann", "ann~train", "ann", "web")
    assert "ticket" not in repr(entry)


async def test_a_ticket_is_old_after_a_minute_and_is_for_one_application(place: ApplicationWorld) -> None:
    web, chat = await place.uri("web"), await place.uri("chat")
    async with httpx.AsyncClient() as http:
        elsewhere = chat.partition("/.pai/")[0] + web[web.index("/.pai/") :]
        assert (await http.get(elsewhere)).status_code == 401
        old = await place.uri("web")
        place.world.clock.at_ms += 60_000
        assert (await http.get(old)).status_code == 401


async def test_only_those_who_may_run_commands_in_a_task_get_an_address(place: ApplicationWorld) -> None:
    assert (await place.ticket(user="bob")).status_code == 403
    assert (await place.ticket(user="root")).status_code == 200
    assert (await place.ticket("other")).json()["code"] == "NoApplicationError"


async def test_a_session_ends_with_the_login_and_with_the_right(place: ApplicationWorld) -> None:
    async with place.browser(user="root") as http:
        assert (await http.get("/")).text == "ok"
        await place.world.api.state.context.sessions.revoke_all("root")
        place.world.clock.at_ms += 10_000
        refused = await http.get("/", headers={"Accept": "text/html"})
        assert refused.status_code == 401
        assert "pai job open" in refused.text


async def test_an_application_gets_its_token_and_nothing_of_the_platform(place: ApplicationWorld) -> None:
    async with place.browser() as http:
        headers = {
            "Authorization": "Bearer secret-1",
            "X-Pai-Page-Key": "secret-2",
            "X_Pai_Page_Key": "secret-3",
            "Cookie": f"{cookies_of(http)}; pai_session=secret-4; token=secret-5; pa-0123456789abcdef-a=secret-6",
            "Forwarded": "for=secret-7",
            "X-Real-IP": "secret-8",
        }
        assert (await http.get("/a%20b?c=%64", headers=headers)).text == "ok"
    head = place.heads[-1].decode()
    assert head.startswith("GET /a%20b?c=%64 HTTP/1.1\r\n")
    assert "secret" not in head
    assert "cookie" not in head.lower()
    assert f"authorization: Bearer {TOKEN}\r\n" in head.replace("Authorization", "authorization")


async def test_cookies_of_an_application_are_its_own(place: ApplicationWorld) -> None:
    async def answer(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nSet-Cookie: pai_session=evil; Domain=localhost; Path=/api\r\n"
            b'Set-Cookie: a=1; Path=/; HttpOnly\r\nClear-Site-Data: "cookies"\r\nX-Accel-Redirect: /etc/passwd\r\n'
            b"Strict-Transport-Security: max-age=1\r\nX-Pai-Page-Key: x\r\n\r\n"
        )  # fmt: skip

    place.answer = answer
    async with place.browser() as http:
        given = await http.get("/")
        names = [cookie.partition("=")[0] for cookie in given.headers.get_list("set-cookie")]
        assert all(name.startswith("pa-") for name in names)
        assert [name[20:] for name in names] == ["pai_session", "a"]
        assert "domain" not in given.headers["set-cookie"].lower()
        for name in ("clear-site-data", "x-accel-redirect", "strict-transport-security", "x-pai-page-key"):
            assert name not in given.headers
        assert given.headers["x-frame-options"] == "SAMEORIGIN"
        await http.get("/api/again", headers={"Cookie": f"{cookies_of(http)}; a=2"})
        assert b"cookie: pai_session=evil; a=1" in place.heads[-1].lower() or b"cookie: a=1" in place.heads[-1].lower()
        assert b"a=2" not in place.heads[-1]


async def test_large_bodies_pass_in_both_directions_piece_by_piece(place: ApplicationWorld) -> None:
    size = 24 << 20
    seen = hashlib.sha256()

    async def answer(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = int(next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))[15:])
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while length:
            piece = await reader.read(min(length, 1 << 16))
            seen.update(piece)
            length -= len(piece)
            # It answers while it still reads.
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    place.answer = answer
    data = bytes(range(256)) * (size // 256)
    async with place.browser() as http:
        back = await in_both_directions(http, data)
    assert back == seen.digest() == hashlib.sha256(data).digest()


async def in_both_directions(http: httpx.AsyncClient, data: bytes) -> bytes:
    """Return the hash of what is answered to a body while it is sent: httpx reads nothing before it has sent all."""
    url, back, protocol = http.base_url, hashlib.sha256(), h11.Connection(h11.CLIENT)
    reader, writer = await asyncio.open_connection(url.host, url.port)

    async def send() -> None:
        cookies = "; ".join(f"{name}={value}" for name, value in http.cookies.items())
        headers = {"Host": f"{url.host}:{url.port}", "Cookie": cookies, "Sec-Fetch-Site": "same-origin"}
        headers["Content-Length"] = str(len(data))
        writer.write(protocol.send(h11.Request(method="PUT", target="/file", headers=list(headers.items()))) or b"")
        for at in range(0, len(data), 1 << 20):
            writer.write(protocol.send(h11.Data(data[at : at + (1 << 20)])) or b"")
            await writer.drain()
        protocol.send(h11.EndOfMessage())

    sending = asyncio.create_task(send())
    while not isinstance(event := protocol.next_event(), h11.EndOfMessage):
        if event is h11.NEED_DATA:
            protocol.receive_data(await reader.read(1 << 16))
        elif isinstance(event, h11.Data):
            back.update(event.data)
    await sending
    writer.close()
    return back.digest()


async def test_events_come_when_they_are_sent_and_stop_when_the_browser_leaves(place: ApplicationWorld) -> None:
    left = asyncio.Event()

    async def answer(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
        await writer.drain()
        await reader.read()
        left.set()
        writer.close()

    place.answer = answer
    async with place.browser() as http, asyncio.timeout(30):
        async with http.stream("GET", "/events") as given:
            assert await anext(given.aiter_raw()) == b"data: 1\n\n"
        await left.wait()


async def test_a_connection_is_used_again_and_a_closed_one_is_replaced(place: ApplicationWorld) -> None:
    closes = False

    async def answer(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = writer.get_extra_info("peername")[1]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n%05d" % port)
        if closes:
            writer.close()

    place.answer = answer
    async with place.browser() as http:
        first, second = (await http.get("/")).text, (await http.get("/")).text
        assert first == second
        closes = True
        assert (await http.get("/")).text == first
        closes = False
        assert (await http.get("/")).text != first


async def test_an_answer_that_is_cut_off_is_seen_to_be(place: ApplicationWorld) -> None:
    async def answer(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        await writer.drain()
        writer.close()

    place.answer = answer
    async with place.browser() as http:
        with pytest.raises(httpx.RemoteProtocolError):
            await http.get("/")


async def test_an_application_that_is_gone_shows_its_job_and_the_next_step(place: ApplicationWorld) -> None:
    async with place.browser() as http:
        html = {"Accept": "text/html"}
        place.platform.placed = [replace(one, port=1) for one in place.platform.placed]
        dead = await http.get("/", headers=html)
        assert dead.status_code == 503
        assert "ann~train is running" in dead.text
        assert "pai job logs ann~train" in dead.text
        place.platform.placed = [replace(one, key=None) for one in place.platform.placed]
        waits = await http.get("/", headers=html)
        assert (waits.status_code, "RUNNING" in waits.text) == (503, True)
        place.platform.placed = []
        gone = await http.get("/", headers=html)
        assert gone.status_code == 409
        assert "pai job start train" in gone.text


async def test_a_web_socket_passes_text_bytes_subprotocol_and_close(place: ApplicationWorld) -> None:
    async with place.browser("chat") as http:
        url = str(http.base_url).rstrip("/")
        headers = {"Cookie": cookies_of(http), "Origin": url, "Authorization": "Bearer secret-1"}
        async with connect(
            f"ws{url[4:]}/x?y=1", additional_headers=headers, subprotocols=["v2.chat"], max_size=None  # type: ignore[list-item]
        ) as socket:  # fmt: skip
            assert socket.subprotocol == "v2.chat"
            await socket.send("text")
            await socket.send(b"\x00bytes")
            await socket.send("x" * (3 << 20))
            assert [await socket.recv(), await socket.recv()] == ["text", b"\x00bytes"]
            assert len(await socket.recv()) == 3 << 20
            await socket.send("close")
            with pytest.raises(ConnectionClosedError) as closed:
                await socket.recv()
            assert closed.value.rcvd is not None
            assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4001, "as you said")
        request = place.sockets[0]
        assert (request.path, request.headers["Authorization"]) == ("/x?y=1", f"Bearer {TOKEN}")
        assert "Cookie" not in request.headers
        with pytest.raises(InvalidStatus) as refused:
            async with connect(f"ws{url[4:]}/x", additional_headers={"Origin": url}):
                pass
        assert refused.value.response.status_code == 401
