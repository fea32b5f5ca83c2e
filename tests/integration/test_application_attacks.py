"""Hostile pages, browsers and applications: what they try at the proxy, and what it does."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import pytest_asyncio
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from .api_world import World
from .application_world import ApplicationWorld, application_world, cookies_of


@pytest_asyncio.fixture
async def place(world: World, tmp_path: Path) -> AsyncIterator[ApplicationWorld]:
    async with application_world(world, tmp_path) as opened:
        yield opened


async def test_pages_of_other_addresses_reach_nothing(place: ApplicationWorld) -> None:
    async with place.browser() as http:
        own = str(http.base_url).rstrip("/")
        other = "http://localhost:1"
        link = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        for status, method, headers in (
            (403, "GET", {"Sec-Fetch-Site": "same-site"}),
            (403, "GET", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}),
            (403, "POST", link),
            (200, "GET", link),
            (403, "POST", {"Sec-Fetch-Site": "same-origin", "Origin": other}),
            (403, "POST", {"Origin": "null"}),
            (200, "POST", {"Origin": own}),
        ):
            answer = await http.request(method, "/", headers={**headers})
            assert answer.status_code == status, (method, headers)
        del http.headers["Sec-Fetch-Site"]
        for status, method, headers in (
            (403, "GET", {"Accept": "*/*"}),
            (403, "GET", {"Referer": f"{other}/", "Accept": "*/*"}),
            (200, "GET", {"Referer": f"{own}/x", "Accept": "*/*"}),
            (200, "GET", {"Accept": "text/html"}),
            (403, "POST", {"Accept": "text/html"}),
            (200, "POST", {"Origin": own}),
        ):
            answer = await http.request(method, "/", headers=headers)
            assert answer.status_code == status, (method, headers)
        assert len(place.heads) == 5


async def test_a_page_of_another_address_opens_no_web_socket(place: ApplicationWorld) -> None:
    async with place.browser("chat") as http:
        url = str(http.base_url).rstrip("/")
        for origin in ("http://localhost:1", "null", url.replace("http", "https")):
            with pytest.raises(InvalidStatus) as refused:
                async with connect(f"ws{url[4:]}/", additional_headers={"Cookie": cookies_of(http), "Origin": origin}):
                    pass
            assert refused.value.response.status_code == 403
    assert place.sockets == []


async def test_a_session_is_worth_nothing_at_another_application_or_at_the_api(place: ApplicationWorld) -> None:
    async with place.browser("web") as http, place.browser("chat") as chat:
        value = next(cookie.value for cookie in http.cookies.jar)
        name = next(cookie.name for cookie in chat.cookies.jar)
        chat.cookies.clear()
        assert (await chat.get("/", headers={"Cookie": f"{name}={value}"})).status_code == 401
        # Two different ones: one of them was set by a page of another application.
        own = cookies_of(http)
        doubled = {"Cookie": f"{own}; {own.partition('=')[0]}=made-up"}
        http.cookies.clear()
        assert (await http.get("/", headers=doubled)).status_code == 401
        transport = httpx.ASGITransport(place.api)
        async with httpx.AsyncClient(transport=transport, base_url="http://pai") as api:
            for headers in (
                {"Cookie": own},
                {"Cookie": f"pai_session={value}", "X-Pai-Page-Key": value},
                {"Cookie": f"token={value}"},
                {"Authorization": f"Bearer {value}"},
            ):
                for path in ("/api/v2/jobs", "/api/v2/jobs/ann~train/config"):
                    assert (await api.get(path, headers=headers)).status_code == 401


async def test_made_up_sessions_and_hosts_are_refused(place: ApplicationWorld) -> None:
    async with place.browser() as http:
        name, _, value = cookies_of(http).partition("=")
        port = urlsplit(str(http.base_url)).port
        for cookie in ("", "x", value[:-4] + "AAAA", value[:40], "%00", "é"):
            head = f"GET / HTTP/1.1\r\nHost: localhost:{port}\r\nCookie: {name}={cookie}\r\nAccept: text/html\r\n\r\n"
            assert b" 401 " in (await _raw(port, head.encode("latin-1"))).partition(b"\r\n")[0] + b" ", cookie
        for path in ("/.pai/enter", "/.pai/enter?ticket=x&ticket=y", "/.pai/x", "/.pai/enter?ticket=" + "x" * 60_000):
            assert (await http.get(path)).status_code in (401, 404)
    assert place.heads == []


async def test_an_address_leads_to_no_other_host(place: ApplicationWorld) -> None:
    async with httpx.AsyncClient() as http:
        for to in ("//evil.example", "/\\evil.example", "https://evil.example", "/a\r\nX: y", "/.pai/enter?ticket=z"):
            uri = httpx.URL(await place.uri()).copy_merge_params({"to": to})
            assert (await http.get(uri)).headers["location"] == "/start?at=1", to
        uri = httpx.URL(await place.uri()).copy_merge_params({"to": "/tree/a b.ipynb?x=1"})
        assert (await http.get(uri)).headers["location"].startswith("/tree/a")


_SMUGGLED = (
    b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n",
    b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n",
    b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n",
    b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n",
    b"Content-Length: 0\r\nContent-Length: 40\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n",
    b"Content-Length: +5\r\n\r\nhelloGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n0;a\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n",
    b"X: y\n\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n",
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n",
    b"Host: localhost:1\r\n\r\n",
)


async def test_no_request_hides_in_another(place: ApplicationWorld) -> None:
    async with place.browser() as http:
        port = urlsplit(str(http.base_url)).port
        for head in _SMUGGLED:
            place.heads.clear()
            start = f"POST /first HTTP/1.1\r\nHost: localhost:{port}\r\nCookie: {cookies_of(http)}\r\n"
            await _raw(port, f"{start}Sec-Fetch-Site: same-origin\r\n".encode() + head)
            seen = b"".join(place.heads)
            assert b"smuggled" not in seen, head
            assert len(re.findall(rb"^[A-Z]+ /", seen, re.MULTILINE)) <= 1, head
            assert b"pgrade" not in seen, head


async def test_hostile_answers_end_in_one_clear_error(place: ApplicationWorld) -> None:
    answers = (
        b"not http at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000 + b"\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 999999 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"",
    )
    for given in answers:

        async def answer(
            head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, given: bytes = given
        ) -> None:
            writer.write(given)
            writer.close()

        place.answer = answer
        async with place.browser() as http:
            refused = await http.get("/")
            assert refused.status_code == 503, given[:40]
            assert refused.json()["message"].startswith("application web does not answer: ")


async def test_an_answer_before_its_request_is_given_to_no_other(place: ApplicationWorld) -> None:
    async def answer(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")

    place.answer = answer
    async with place.browser() as http:
        assert [(await http.get("/")).text for _ in range(3)] == ["ok"] * 3


async def test_an_application_has_so_many_requests_and_sockets_at_a_time(place: ApplicationWorld) -> None:
    waiting = asyncio.Event()

    async def answer(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await waiting.wait()
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    place.answer = answer
    place.entrance._upstreams.per_application = 3
    async with place.browser() as http, asyncio.timeout(30):
        asked = [asyncio.create_task(http.get("/")) for _ in range(4)]
        done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        assert [one.result().status_code for one in done] == [503]
        waiting.set()
        assert sorted([one.status_code for one in await asyncio.gather(*asked)]) == [204, 204, 204, 503]
    async with place.browser("chat") as http:
        url = str(http.base_url).rstrip("/")
        place.entrance.proxy._sockets.update({f"chat-{place.job}": place.entrance.proxy._services.limits.sockets})
        with pytest.raises(InvalidStatus) as refused:
            async with connect(f"ws{url[4:]}/", additional_headers={"Cookie": cookies_of(http), "Origin": url}):
                pass
        assert refused.value.response.status_code == 429


async def test_no_service_worker_stays_at_a_port(place: ApplicationWorld) -> None:
    async with place.browser() as http:
        assert (await http.get("/sw.js", headers={"Service-Worker": "script"})).status_code == 403
        assert (await http.get("/sw.js", headers={"Sec-Fetch-Dest": "serviceworker"})).status_code == 403
        for method in ("TRACE", "CONNECT", "PRI"):
            port = urlsplit(str(http.base_url)).port
            head = f"{method} / HTTP/1.1\r\nHost: localhost:{port}\r\nCookie: {cookies_of(http)}\r\n\r\n"
            assert (await _raw(port, head.encode())).split(b" ")[1:2] in ([b"405"], [b"400"])
    assert place.heads == []


async def _raw(port: int | None, data: bytes) -> bytes:
    """Return what a connection answers until it is silent or closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    writer.write_eof()
    try:
        async with asyncio.timeout(20):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()
