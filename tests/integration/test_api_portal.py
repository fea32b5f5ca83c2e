"""The portal over HTTP: its files, their headers, and the sessions of browsers."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from openpai.api.portal import POLICY, PortalFiles, PortalPages
from tests.integration.api_world import PASSWORD, World

LOGIN = "/api/v2/authn/browser/login"
ANN = {"username": "ann", "password": PASSWORD}


async def _log_in(world: World) -> dict[str, str]:
    """Log in; the client keeps the cookie, and the returned header is the other half."""
    answer = await world.http.post(LOGIN, json=ANN)
    assert answer.status_code == 200, answer.text
    return {"X-Pai-Page-Key": answer.json()["pageKey"]}


async def test_a_browser_logs_in_with_a_cookie_that_no_script_reads(world: World) -> None:
    answer = await world.http.post(LOGIN, json=ANN)
    cookie = answer.headers["set-cookie"]
    for word in ("HttpOnly", "SameSite=strict", "Path=/api", "Max-Age=86400"):
        assert word in cookie
    assert set(answer.json()) == {"user", "pageKey"}
    headers = {"X-Pai-Page-Key": answer.json()["pageKey"]}
    assert (await world.http.get("/api/v2/users/me", headers=headers)).json()["username"] == "ann"


async def test_neither_half_of_a_session_is_worth_anything_alone(world: World) -> None:
    key = (await _log_in(world))["X-Pai-Page-Key"]
    half = world.http.cookies["pai_session"]
    assert half != key
    me = "/api/v2/users/me"
    assert (await world.http.get(me)).status_code == 401
    for value in (half, key, "", "x", half[:-4], key[:-4] + "\xff\xff"):
        for name, prefix in (("X-Pai-Page-Key", ""), ("Authorization", "Bearer ")):
            headers = {name: f"{prefix}{value}".encode("latin-1")}
            if (name, value) != ("X-Pai-Page-Key", key):
                assert (await world.http.get(me, headers=headers)).status_code == 401, (name, value)
    other = await _log_in(world)
    assert (await world.http.get(me, headers={"X-Pai-Page-Key": key})).status_code == 401
    assert (await world.http.get(me, headers=other)).status_code == 200
    world.http.cookies.clear()
    assert (await world.http.get(me, headers=other)).status_code == 401


async def test_the_cookie_is_secure_behind_https(world: World) -> None:
    url = str(world.http.base_url).replace("http:", "https:")
    assert "Secure" in (await world.http.post(f"{url}{LOGIN}", json=ANN)).headers["set-cookie"]


@pytest.mark.parametrize(
    ("site", "is_let_in"),
    [(None, True), ("same-origin", True), ("none", False), ("same-site", False), ("cross-site", False)],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_only_pages_of_this_origin_use_a_session(
    world: World, method: str, site: str | None, is_let_in: bool
) -> None:
    headers = await _log_in(world) | ({} if site is None else {"Sec-Fetch-Site": site})
    path = "/api/v2/users/me" if method == "GET" else "/api/v2/jobs/bulk"
    body = None if method == "GET" else {"action": "stop", "jobs": ["nothing"]}
    answer = await world.http.request(method, path, headers=headers, json=body)
    assert (answer.status_code != 401) == is_let_in, answer.text


async def test_another_credential_goes_before_the_cookie(world: World) -> None:
    headers = await world.login("bob")
    session = await _log_in(world)
    assert (await world.http.get("/api/v2/users/me", headers=session | headers)).json()["username"] == "bob"
    answer = await world.http.get("/api/v2/users/me", headers=session | {"Authorization": "Bearer nothing"})
    assert answer.status_code == 401


async def test_a_cookie_that_means_nothing_is_no_login(world: World) -> None:
    for cookie in (
        "pai_session=",
        "pai_session=x",
        'pai_session="\x7f"',
        "pai_session=a=b; pai_session=c",
        "pai_session",
    ):
        headers = {"Cookie": cookie, "X-Pai-Page-Key": "eA"}
        assert (await world.http.get("/api/v2/users/me", headers=headers)).status_code == 401


async def test_a_logout_ends_the_session_and_not_only_the_cookie(world: World) -> None:
    key = await _log_in(world)
    headers = key | {"Cookie": f"pai_session={world.http.cookies['pai_session']}"}
    world.http.cookies.clear()
    assert (await world.http.get("/api/v2/users/me", headers=headers)).status_code == 200
    answer = await world.http.delete("/api/v2/authn/browser/logout", headers=headers)
    assert 'pai_session=""' in answer.headers["set-cookie"]
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert (await world.http.get("/api/v2/users/me", headers=headers)).status_code == 401


@pytest.fixture
def http(tmp_path: Path, world: World) -> httpx.AsyncClient:
    """Return a client of a server with a small portal before the API."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html><title>portal</title>")
    (tmp_path / "index.html.gz").write_bytes(b"compressed")
    (tmp_path / "assets" / "main-1a2b.js").write_text("1")
    (tmp_path / "assets" / "main-1a2b.js.br").write_bytes(b"brotli")
    app = PortalPages(world.api, files=PortalFiles(tmp_path))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://pai")


PAGE = {"Accept": "text/html,application/xhtml+xml", "Accept-Encoding": "identity"}


async def test_each_address_of_a_page_gets_the_first_page(http: httpx.AsyncClient) -> None:
    for path in ("/", "/jobs", "/jobs/ann~train", "/login?code=x", "/cluster"):
        answer = await http.get(path, headers=PAGE)
        assert (answer.status_code, answer.text) == (200, "<!doctype html><title>portal</title>"), path
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["cache-control"] == "no-cache"
    assert "unsafe" not in POLICY


async def test_what_is_known_is_not_sent_again(http: httpx.AsyncClient) -> None:
    etag = (await http.get("/", headers=PAGE)).headers["etag"]
    answer = await http.get("/jobs", headers=PAGE | {"If-None-Match": etag})
    assert (answer.status_code, answer.content) == (304, b"")


async def test_hashed_files_are_kept_for_ever_and_sent_compressed(http: httpx.AsyncClient) -> None:
    asked = http.build_request("GET", "/assets/main-1a2b.js", headers={"Accept-Encoding": "gzip, br"})
    answer = await http.send(asked, stream=True)
    assert b"".join([part async for part in answer.aiter_raw()]) == b"brotli"
    assert (answer.headers["content-encoding"], answer.headers["vary"]) == ("br", "Accept-Encoding")
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-type"].startswith("text/javascript")
    assert (await http.get("/assets/main-1a2b.js", headers={"Accept-Encoding": "identity"})).text == "1"


async def test_the_api_stays_as_it_is(http: httpx.AsyncClient) -> None:
    for path in ("/api/v2/nothing", "/api/v2/jobs", "/readyz", "/docs", "/openapi.json", "/assets/other.js"):
        answer = await http.get(path, headers=PAGE)
        assert "portal" not in answer.text[:60], path
    assert (await http.get("/nothing")).json()["code"] == "NoApiError"
    assert (await http.post("/jobs", headers=PAGE)).status_code == 404


@pytest.mark.parametrize("path", ["/../secret", "/assets/../../secret", "/%2e%2e/secret", "/assets/main-1a2b.js.br"])
async def test_no_other_file_is_served(http: httpx.AsyncClient, tmp_path: Path, path: str) -> None:
    (tmp_path.parent / "secret").write_text("secret")
    answer = await http.get(path)
    assert answer.text != "secret"
    assert answer.status_code == 404


async def test_without_a_portal_nothing_changes(tmp_path: Path) -> None:
    assert not PortalFiles(tmp_path / "missing").is_built


async def test_a_job_file_is_checked_and_not_submitted(world: World) -> None:
    headers = await world.login("ann")
    good = """
protocolVersion: 2
name: fine
type: job
prerequisites: [{type: dockerimage, name: i, uri: python}]
taskRoles: {w: {instances: 1, dockerImage: i, resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 0}, commands: ["true"]}}
"""
    answer = await world.http.post("/api/v2/jobs/check", content=good, headers=headers)
    assert (answer.status_code, answer.json()["name"]) == (200, "fine")
    # No server leads here.
    assert answer.json()["waits"] is None
    assert (await world.http.get("/api/v2/jobs/ann~fine", headers=headers)).status_code == 404
    answer = await world.http.post(
        "/api/v2/jobs/check", content=good.replace("instances: 1", "instances: 0"), headers=headers
    )
    assert (answer.status_code, answer.json()["faults"][0]["line"]) == (400, 6)
