"""Applications of a real platform in a real browser: what they get of the platform, and what they can do."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from tests.e2e.portal.browsing import AXE, BUILT, Visitor
from tests.e2e.server import PASSWORD, ROOT, Server, environment, job_text, until
from tests.fork_server import PAI

pytestmark = pytest.mark.full
SERVED = Path(__file__).with_name("served.py")
PATIENCE_MS = 120_000
ASKS = """async url => {
    try { return (await fetch(url, {credentials: 'include', headers: HEADERS})).status } catch { return 0 }
}"""
SPEAKS = """url => new Promise(done => {
    const socket = new WebSocket(url)
    socket.onopen = () => socket.send('hi')
    socket.onmessage = message => done(message.data)
    socket.onerror = () => done('refused')
})"""
FRAMES = "url => { const it = document.createElement('iframe'); it.src = url; document.body.append(it) }"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a platform with a job that serves."""
    # No other test and no task has these ports: one that did while the server restarts would keep them.
    found = Server.start(tmp_path_factory.mktemp("applications"), 0, "--app-ports", "12000-12299")
    command = (
        f'exec "{sys.executable}" "{SERVED}" $PAI_CONTAINER_HOST_page_PORT_LIST $PAI_CONTAINER_HOST_chat_PORT_LIST'
    )
    need = {"cpu": 1, "memoryMB": 256, "gpu": 0, "ports": {"page": 1, "chat": 1}}
    applications = [{"name": "demo", "port": "page"}, {"name": "chat", "port": "chat"}]
    text = job_text("serve", command, role={"resourcePerInstance": need}, extras={"applications": applications})
    assert found.http.post("/jobs", content=text).status_code == 202
    yield found
    stopped(found, "serve")


def stopped(server: Server, job: str) -> None:
    """Stop a job, and then the server: it would leave the job's task running."""
    try:
        if server.http.put(f"/jobs/admin~{job}/executionType", json={"value": "STOP"}).is_success:
            server.ended(job)
    finally:
        server.end()


def answers(http: httpx.Client, uri: str) -> bool:
    """Return whether an address answers; the port of an application opens after that of its server."""
    try:
        return http.get(uri).status_code == 200
    except httpx.TransportError:
        return False


def opened(server: Server, job: str, application: str, host: str = "127.0.0.1") -> str:
    """Return an address of an application once it is ready."""

    def is_ready() -> bool:
        shown = server.get(f"/jobs/admin~{job}")
        assert shown["jobStatus"]["state"] in ("WAITING", "RUNNING"), shown["jobStatus"]
        return {one["name"]: one["state"] for one in shown["applications"]}[application] == "ready"

    until(is_ready, f"{application} is ready")
    path = f"/jobs/admin~{job}/applications/{application}/ticket"
    answer = server.http.post(path, headers={"Host": f"{host}:{server.port}"})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["uri"])


def test_a_page_of_an_application_has_nothing_of_the_platform(server: Server, browser: Any) -> None:
    login = {"username": "admin", "password": PASSWORD}
    secret = httpx.post(f"{server.url}/api/v2/authn/browser/login", json=login).cookies["pai_session"]
    context = browser.chromium.new_context()
    context.set_default_timeout(PATIENCE_MS)
    place: Any = {"domain": "127.0.0.1", "path": "/api", "httpOnly": True, "sameSite": "Strict"}
    context.add_cookies([{"name": "pai_session", "value": secret, **place}])
    # At the host at which the browser has the cookie of the platform, too.
    page = context.new_page()
    page.goto(opened(server, "serve", "demo", host="localhost"))
    assert page.url.startswith("http://127.0.0.1:")
    assert "ticket" not in page.url + page.evaluate("document.referrer")
    for path in ("/echo", "/api/v2/echo"):
        seen = page.evaluate("async path => await (await fetch(path, {credentials: 'include'})).text()", path)
        assert secret not in seen
        assert "pai_session" not in seen
        assert "pai-app" not in seen
        assert json.loads(seen)["cookie"] == "own=1"
    cookie = page.evaluate("document.cookie")
    assert "pai_session" not in cookie
    assert "pai-app" not in cookie
    for headers in ("{}", "{'X-Pai-Page-Key': 'x'}"):
        assert page.evaluate(ASKS.replace("HEADERS", headers), f"{server.url}/api/v2/jobs") == 0
    with page.expect_console_message(lambda message: "frame" in message.text, timeout=PATIENCE_MS) as complaint:
        page.evaluate(FRAMES, server.url)
    assert "frame-ancestors" in complaint.value.text or "X-Frame-Options" in complaint.value.text
    # The session of the other application is in the same browser, for the same host.
    chat = context.new_page()
    uri = opened(server, "serve", "chat", host="localhost")
    chat.goto(uri)
    origin = uri.partition("/.pai/")[0]
    assert page.evaluate(SPEAKS, f"ws{origin[4:]}/") == "refused"
    assert chat.evaluate(SPEAKS, f"ws{origin[4:]}/") == "hi"
    assert page.evaluate(ASKS.replace("HEADERS", "{}"), f"{origin}/echo") == 0
    own = [f"{one['name']}={one['value']}" for one in context.cookies() if one["name"].startswith("pai-app")]
    assert len(own) == 2
    assert httpx.get(f"{server.url}/api/v2/jobs", headers={"Cookie": "; ".join(own)}).status_code == 401
    context.close()


def test_the_page_of_a_job_opens_its_applications(server: Server, browser: Any) -> None:
    if not (BUILT / "index.html").exists() or not AXE.exists():
        pytest.skip("the portal is not built here: make portal")
    opened(server, "serve", "demo")
    visitor = Visitor(browser, server.url)
    visitor.log_in()
    visitor.open("/jobs/admin~serve", "serve")
    button = visitor.page.get_by_role("button", name="Open demo")
    with visitor.context.expect_page() as tab:
        button.click()
    tab.value.wait_for_function("document.title == 'demo'")
    assert tab.value.evaluate("window.opener") is None
    assert tab.value.url.startswith("http://localhost:")
    assert visitor.examine() == []
    assert visitor.complaints == []
    visitor.close()


def test_a_session_outlives_a_restart_of_the_server(server: Server) -> None:
    uri = opened(server, "serve", "demo")
    with httpx.Client(headers={"Sec-Fetch-Site": "same-origin"}, timeout=60) as http:
        assert http.get(uri).status_code == 303
        page = uri.partition("/.pai/")[0]
        assert http.get(f"{page}/").status_code == 200
        server.end()
        again = server.again()
        server.process = again.process
        until(lambda: answers(http, f"{page}/"), "it is there again")
        assert http.get(uri).status_code == 401
        size = 64 << 20
        with http.stream("GET", f"{page}/large/{size}") as answer:
            assert sum(map(len, answer.iter_raw())) == size


def test_jupyter_starts_with_one_command_and_runs_code(tmp_path: Path) -> None:
    if shutil.which("jupyter-lab") is None:
        pytest.skip("JupyterLab is not installed: pip install jupyterlab")
    server = Server.start(tmp_path, 0, "--app-ports", "12300-12599")
    try:
        where = environment(PAI_URL=server.url, PAI_TOKEN=server.http.headers["Authorization"].partition(" ")[2])
        words = [*PAI, "lab", "--name", "notes", "--json"]
        lab = subprocess.run(words, env=where, cwd=ROOT, capture_output=True, text=True)
        assert lab.returncode == 0, lab.stderr
        uri = json.loads(lab.stdout)["uri"]
        origin = uri.partition("/.pai/")[0]
        own = {"Sec-Fetch-Site": "same-origin", "Origin": origin}
        with httpx.Client(base_url=origin, headers=own, timeout=60) as http:
            assert http.get(uri, headers={"Origin": origin}).status_code == 303
            assert "JupyterLab" in http.get("/lab").text
            kernel = http.post("/api/kernels", json={"name": "python3"}).json()["id"]
            cookies = "; ".join(f"{one.name}={one.value}" for one in http.cookies.jar)
        # Without the token of the platform it answers no other user of the machine.
        ports = server.get("/jobs/admin~notes")["taskRoles"]["lab"]["taskStatuses"][0]["containerPorts"]
        assert httpx.get(f"http://127.0.0.1:{ports['http']}/api/kernels").status_code == 403
        header = {"msg_id": "1", "msg_type": "execute_request", "username": "", "session": "s", "version": "5.3"}
        code = {"code": "6 * 7", "silent": False, "user_expressions": {"result": "6 * 7"}}
        request = {"header": header, "parent_header": {}, "metadata": {}, "content": code, "channel": "shell"}
        url = f"ws{origin[4:]}/api/kernels/{kernel}/channels?session_id=s"
        with connect(url, additional_headers={"Cookie": cookies, "Origin": origin}, max_size=None) as socket:
            socket.send(json.dumps(request))
            answer: dict[str, Any] = {"msg_type": ""}
            while answer["msg_type"] != "execute_reply":
                answer = json.loads(socket.recv(timeout=60))
        assert answer["content"]["user_expressions"]["result"]["data"]["text/plain"] == "42"
        assert "token=" not in server.http.get("/jobs/admin~notes").text
    finally:
        stopped(server, "notes")
