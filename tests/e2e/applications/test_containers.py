"""Applications in containers, whose loopback is their own: how the proxy reaches them, and what they cannot do."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import connect

from tests.e2e.applications.test_applications import opened
from tests.e2e.containers import docker_platform
from tests.e2e.server import job_text, until
from tests.integration.docker_engine import build, engine, root_files

pytestmark = pytest.mark.slow
SERVED = Path(__file__).with_name("served.js")
IMAGE = "openpai-test-applications:1"


def test_an_application_in_a_container_is_reached_and_has_nothing_of_the_platform(tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("Node.js is not installed")
    with docker_platform(tmp_path, "--app-ports", "12600-12899") as (server, _):
        files = itertools.chain([("/served.js", str(SERVED))], root_files("node"))
        build(engine()[0], IMAGE, "FROM scratch", "COPY root /", files=files)
        need = {"cpu": 1, "memoryMB": 512, "gpu": 0, "ports": {"page": 1}}
        command = f"PLATFORM={server.url} exec node /served.js $PAI_CONTAINER_HOST_page_PORT_LIST"
        applications = [{"name": "demo", "port": "page"}]
        text = job_text(
            "serve", command, image=IMAGE, role={"resourcePerInstance": need}, extras={"applications": applications}
        )
        assert server.http.post("/jobs", content=text).status_code == 202
        uri = opened(server, "serve", "demo")
        origin = uri.partition("/.pai/")[0]
        own = {"Sec-Fetch-Site": "same-origin", "Origin": origin}
        with httpx.Client(base_url=origin, headers=own, timeout=60) as http:
            assert http.get("/").status_code == 401
            assert http.get(uri).status_code == 303
            assert http.get("/").text == "in a container"
            secret = next(one.value for one in http.cookies.jar)
            taken = http.get("/takeover")
            assert taken.status_code == 302
            # On a shared host no cookie of an application has a name of the platform's.
            assert not [name for name in http.cookies if name == "pai_session"]
            seen = http.get("/echo", headers={"Authorization": "Bearer of-the-browser"})
            assert "of-the-browser" not in seen.text
            assert secret not in seen.text
            assert "own=1" in json.loads(seen.text)["cookie"]
            assert http.get("/garbage").status_code == 503
            assert http.get("/").text == "in a container"
            cookies = "; ".join(f"{one.name}={one.value}" for one in http.cookies.jar)
        headers = {"Cookie": cookies, "Origin": origin}
        with connect(f"ws{origin[4:]}/", additional_headers=headers) as socket:
            socket.send("hello")
            assert socket.recv(timeout=60) == "hello"
        assert httpx.get(f"{server.url}/api/v2/jobs", headers={"Cookie": cookies}).status_code == 401
        # A finished task answers nobody, whoever has a session for it.
        server.http.put("/jobs/admin~serve/executionType", json={"value": "STOP"})
        server.ended("serve")
        until(lambda: _status(origin, headers) != 200, "it is gone")


def _status(origin: str, headers: dict[str, str]) -> int:
    try:
        return httpx.get(f"{origin}/", headers={**headers, "Sec-Fetch-Site": "same-origin"}, timeout=60).status_code
    except httpx.TransportError:
        return 0
