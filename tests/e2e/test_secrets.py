"""Secrets that were planted in a real run are looked for everywhere afterwards: in files, logs, answers and errors.

Where a task runs they must be in clear, since the task has to know them; everything else may only hold them sealed.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from .server import PASSWORD, Server, logged_in

# None of them is part of another, and none looks like anything the platform writes by itself.
OF_JOB = "planted-job-secret-Zq1"
OF_REGISTRY = "planted-registry-password-Zq2"
OF_STORAGE = "planted-storage-credential-Zq3"
OF_USER = "planted-user-password-Zq4"
NEW_OF_USER = "planted-new-password-Zq5"
MISTYPED = "planted-mistyped-Zq6"
OF_FAULTY_JOB = "planted-faulty-secret-Zq7"
# A task that writes a secret into its own log, as a command that does not exist.
LOGGED = "planted-logged-secret-Zq8"
PLANTED = (OF_JOB, OF_REGISTRY, OF_STORAGE, OF_USER, NEW_OF_USER, MISTYPED, OF_FAULTY_JOB, PASSWORD)

JOB = """
protocolVersion: 2
name: {name}
type: job
prerequisites:
  - type: dockerimage
    name: image
    uri: python
    auth: {{username: svc, password: {registry}, registryuri: registry.example.com}}
secrets: {{token: {secret}}}
taskRoles:
  worker:
    instances: 1
    completion: {{minFailedInstances: 1}}
    dockerImage: image
    resourcePerInstance: {{cpu: 1, memoryMB: 64, gpu: 0}}
    commands: ['TOKEN="<% $secrets.token %>"', 'test ${{#TOKEN}} -eq 22 && exit {code}']
{more}
"""

ASKED = (
    "/info", "/jobs", "/jobs?withTotalCount=true", "/jobs/admin~good", "/jobs/admin~good/config",
    "/jobs/admin~good/events", "/jobs/admin~good/job-attempts", "/jobs/admin~bad", "/jobs/admin~bad/events",
    "/jobs/admin~loud", "/jobs/admin~loud/events", "/jobs/admin~loud/job-attempts",
    "/jobs/admin~loud/attempts/0/taskRoles/worker/taskIndex/0/attempts",
    "/jobs/admin~good/why", "/nodes", "/virtual-clusters", "/cluster/config", "/scheduler/snapshot",
    "/scheduler/inspect/affinitygroups", "/storages", "/storages/bucket", "/storage/config", "/users", "/users/me",
    "/users/eve", "/groups", "/tokens", "/quotas", "/reports/use", "/audit?limit=1000", "/audit?format=csv",
    "/kubernetes/pods", "/alerts",
)  # fmt: skip


class Asking:
    """A user who asks the API and keeps every answer."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=f"{url}/api/v2", timeout=60)
        self.printed: list[str] = []
        self.tokens: list[str] = []

    def __call__(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Return an answer."""
        answer = self._http.request(method, path, **more)
        self.printed.append(f"{method} {path}: {answer.headers} {answer.text}")
        return answer

    def login(self, user: str, password: str) -> httpx.Response:
        """Log in and stay logged in."""
        answer = self._http.post("/authn/basic/login", json={"username": user, "password": password})
        if answer.is_success:
            self.tokens.append(answer.json()["token"])
            self._http.headers["Authorization"] = f"Bearer {self.tokens[-1]}"
        else:
            self.printed.append(answer.text)
        return answer

    def token(self, name: str) -> None:
        """Make a token for an application."""
        answer = self._http.post("/tokens/application", json={"name": name})
        assert answer.is_success, answer.text
        self.tokens.append(answer.json()["token"])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server.start(tmp_path / "server")
    yield server
    server.end(signal.SIGKILL)


def files_with(root: Path, secrets: tuple[str, ...]) -> dict[str, list[str]]:
    """Return which files hold which secrets in clear; where tasks run is their own affair."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_file() and not path.is_symlink() and not name.startswith("data/tasks/"):
            content = path.read_bytes()
            held = [secret for secret in secrets if secret.encode() in content]
            if held:
                found[name] = held
    return found


def go_through_everything(ask: Asking) -> None:
    """Do what people do with secrets, rightly and wrongly."""
    text = JOB.format(name="good", registry=OF_REGISTRY, secret=OF_JOB, code=0, more="")
    assert ask("POST", "/jobs", content=text).status_code == 202
    assert ask("POST", "/jobs", content=text).status_code == 409
    text = JOB.format(name="bad", registry=OF_REGISTRY, secret=OF_JOB, code=7, more="")
    assert ask("POST", "/jobs", content=text).status_code == 202
    text = JOB.format(name="loud", registry=OF_REGISTRY, secret=LOGGED, code=0, more="")
    assert ask("POST", "/jobs", content=text.replace('TOKEN="<% $secrets.token %>"', "<% $secrets.token %>")).is_success
    # Each of these has a fault, some of them in the secret itself.
    for faulty in (
        JOB.format(name="faulty", registry=OF_REGISTRY, secret=f"[{OF_FAULTY_JOB}]", code=0, more="default: 1"),
        JOB.format(name="faulty", registry=f"[{OF_FAULTY_JOB}]", secret=OF_FAULTY_JOB, code=0, more="defaults: 1"),
        JOB.format(name="faulty", registry="x", secret=OF_FAULTY_JOB, code=0, more="    - not: yaml"),
    ):
        assert ask("POST", "/jobs", content=faulty).status_code == 400
    where = {"endpoint": "http://127.0.0.1:9", "bucket": "b", "accessKeyId": "a", "secretAccessKey": OF_STORAGE}
    bucket = {"name": "bucket", "type": "s3", "data": where}
    assert ask("POST", "/storages", json=bucket).status_code == 201
    assert ask("POST", "/storages", json={**bucket, "data": {**where, "bucket": 1}}).status_code >= 400
    ask("POST", "/storages/bucket/test")
    assert ask("POST", "/users", json={"username": "eve", "password": OF_USER}).status_code == 201
    assert ask("POST", "/users", json={"username": "eve", "password": OF_USER, "strange": 1}).status_code == 400
    assert ask("PUT", "/users/eve/password", json={"newPassword": NEW_OF_USER}).is_success
    for who, password in (("eve", MISTYPED), (MISTYPED, "wrong-one"), ("eve", OF_USER)):
        assert not ask.login(who, password).is_success
    ask.token("nightly")
    ask("DELETE", f"/tokens/{ask.tokens[-1]}")
    ask.token("daily")
    ask("GET", "/users/me", headers={"Authorization": f"Bearer {MISTYPED}"})


def test_no_planted_secret_is_found_in_clear(server: Server, tmp_path: Path) -> None:
    ask = Asking(server.url)
    assert ask.login("admin", PASSWORD).is_success
    go_through_everything(ask)
    admin = logged_in(tmp_path / "home", server.url)
    commands = ("wait good", "wait bad", "wait loud", "show bad", "show loud", "config good", "events good")
    message = [admin("job", *command.split()) for command in commands]
    assert message[0].code == 0, message[0]
    assert ask("GET", "/jobs/admin~bad").json()["jobStatus"]["appExitCode"] == 7
    for path in ASKED:
        answer = ask("GET", path)
        assert answer.status_code < 500, (path, answer.text)
    assert "******" in ask("GET", "/jobs/admin~good/config").text
    assert "(not shown here: it holds a secret of the job)" in ask("GET", "/jobs/admin~loud").text
    assert server.end() == 0

    secrets = (*PLANTED, *ask.tokens)
    assert {name.rpartition("/")[2] for name in files_with(server.data_dir, (LOGGED,))} == {"stderr.log"}
    output = [*ask.printed, *(f"{each.out} {each.err}" for each in message)]
    # The one that revoked a token said which.
    heard = [text for text in output if any(secret in text.partition(": ")[2] for secret in (*secrets, LOGGED))]
    assert heard == []
    assert files_with(server.data_dir, secrets) == {}
    # What is looked for would have been found.
    (server.data_dir / "note").write_text(json.dumps({"token": OF_JOB}))
    assert files_with(server.data_dir, secrets) == {"note": [OF_JOB]}
