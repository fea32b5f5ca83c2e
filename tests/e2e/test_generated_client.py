"""A client generated from our OpenAPI document, by a generator of others, does what it should.

The generator lives in an environment of its own (`make test-full` makes one), since it wants older versions of
libraries that the platform uses. Without it this is skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.e2e.server import PASSWORD, Server

PLACES = [Path(sys.prefix) / "generator" / "bin"]
PROGRAM = "openapi-python-client"

# Names of generated modules follow from operation ids, so they are found by what they ask for instead.
CALLER = """
import importlib, json, pathlib, re, sys

root = pathlib.Path("generated")
url, password = sys.argv[1:]

def module(method, path):
    for file in root.glob("api/*/*.py"):
        text = file.read_text()
        if f'"method": "{method}"' in text and re.search(rf'"url": f?"{re.escape(path)}"', text):
            return importlib.import_module(".".join(file.with_suffix("").parts)), text
    raise SystemExit(f"no {method} {path} was generated")

from generated.client import AuthenticatedClient, Client

login, text = module("post", "/api/v2/authn/basic/login")
model = re.search(r"body: (\\w+)", text)[1]
body = getattr(login, model)(username="admin", password=password)
answer = json.loads(login.sync_detailed(client=Client(base_url=url), body=body).content)

pai = AuthenticatedClient(base_url=url, token=answer["token"])
info = module("get", "/api/v2/info")[0].sync_detailed(client=pai)
jobs = module("get", "/api/v2/jobs")[0].sync_detailed(client=pai, with_total_count="true")
users = module("get", "/api/v2/users")[0].sync_detailed(client=pai)
refused = module("get", "/api/v2/jobs/{job}")[0].sync_detailed(client=pai, job="nope")
print(json.dumps({
    "user": answer["user"],
    "info": json.loads(info.content)["name"],
    "jobs": json.loads(jobs.content),
    "users": [user["username"] for user in json.loads(users.content)],
    "refused": [int(refused.status_code), refused.parsed.code],
}))
"""


def generator() -> str:
    """Return the generator's program; skip where there is none."""
    search = os.pathsep.join([*map(str, PLACES), os.environ["PATH"]])
    found = shutil.which(PROGRAM, path=search)
    if found is None:
        pytest.skip(f"{PROGRAM} is not installed; `make test-full` installs it beside the virtual environment")
    return found


@pytest.mark.full
def test_a_generated_client_logs_in_lists_and_understands_a_refusal(tmp_path):
    program = generator()
    server = Server.start(tmp_path / "platform")
    try:
        document = httpx.get(f"{server.url}/openapi.json", trust_env=False).json()
        (tmp_path / "openapi.json").write_text(json.dumps(document))
        generated = subprocess.run(
            [program, "generate", "--path", "openapi.json", "--output-path", "generated", "--meta", "none"],
            cwd=tmp_path,
            env=os.environ | {"PATH": f"{Path(program).parent}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        message = generated.stdout + generated.stderr
        assert generated.returncode == 0, message
        # The generator knows neither YAML bodies nor archives; it must know everything else.
        left_out = [line for line in message.splitlines() if line.startswith("WARNING parsing")]
        unknown = (
            "POST /api/v2/jobs within",
            "POST /api/v2/sweeps within",
            "POST /api/v2/jobs/check within",
            "/files/",
            "/work within",
            "/work/archive within",
        )
        assert all(any(part in line for part in unknown) for line in left_out), message
        python = Path(program).parent / "python"
        called = subprocess.run(
            [python if python.exists() else sys.executable, "-c", CALLER, server.url, PASSWORD],
            cwd=tmp_path,
            env=os.environ | {"NO_PROXY": "127.0.0.1", "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert called.returncode == 0, called.stderr
        assert json.loads(called.stdout) == {
            "user": "admin",
            "info": "PAI RESTful API",
            "jobs": {"totalCount": 0, "data": []},
            "users": ["admin"],
            "refused": [404, "NoJobError"],
        }
    finally:
        server.end()
