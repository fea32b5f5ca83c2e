"""The pictures of `docs/portal.md`, taken of a platform at work; with PAI_PICTURES they are written to that folder."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.architecture.places import ROOT
from tests.e2e.portal.browsing import WITHIN_MS, Visitor, expect
from tests.e2e.server import Server, job_text, until

pytestmark = [pytest.mark.slow, pytest.mark.full]
PASSWORD: Final = "correct-horse-battery"
BYTES_MAX: Final = 150_000
EPOCHS: Final = tuple(f"echo epoch {n} of 90, loss {3 / n:.3f}, accuracy {1 - 0.9 / n:.3f}" for n in range(1, 19))
JOBS: Final = (
    ("ana", "default", "tokenizer", 0, 1, ("echo 32,000 words", "exit 0")),
    ("ben", "speech", "whisper-small", 1, 1, ("echo CUDA out of memory", "exit 1")),
    ("ana", "default", "bert-base", 4, 1, (*EPOCHS, "sleep 10000")),
    ("ben", "speech", "whisper-large", 2, 3, ("echo started", "sleep 10000")),
    ("ana", "vision", "resnet50-imagenet", 2, 4, (*EPOCHS, "sleep 10000")),
    ("ana", "default", "llama-finetune", 8, 2, ("sleep 10000",)),
)
"""User, virtual cluster, name, GPUs of a task, tasks and commands of each job."""
PICTURES: Final = (
    ("home", "light", "/", ""),
    ("jobs", "dark", "/jobs", ""),
    ("job", "light", "/jobs/ana~resnet50-imagenet?tab=logs", "epoch 18"),
    ("cluster", "dark", "/cluster?view=map", ""),
    ("submit", "light", "/submit", "The server accepts"),
)


@pytest.fixture(scope="module")
def busy(server: Server) -> Server:
    """Return the platform with users whose jobs run, wait and have ended."""
    group = {"groupname": "lab", "extension": {"acls": {"virtualClusters": ["vision", "speech"]}}}
    assert server.http.post("/groups", json=group).is_success
    for name in ("ana", "ben"):
        body = {"username": name, "password": PASSWORD, "grouplist": ["lab"], "admin": False}
        assert server.http.post("/users", json=body).is_success, name
    login = {name: _token(server, name) for name in ("ana", "ben")}
    for user, vc, name, gpus, tasks, commands in JOBS:
        role = {"instances": tasks, "resourcePerInstance": {"cpu": 1, "memoryMB": 256, "gpu": gpus}}
        text = job_text(name, *commands, image="pytorch/pytorch", role=role, defaults={"virtualCluster": vc})
        headers = {"Authorization": f"Bearer {login[user]}"}
        answer = server.http.post("/jobs", content=text, headers=headers)
        assert answer.is_success, answer.text
        if name != JOBS[-1][2]:
            until(partial(_is_placed, server, f"{user}~{name}"), f"{name} is placed")
    return server


def _token(server: Server, name: str) -> str:
    login = {"username": name, "password": PASSWORD}
    return str(server.http.post("/authn/basic/login", json=login).raise_for_status().json()["token"])


def _is_placed(server: Server, job: str) -> bool:
    return server.get(f"/jobs/{job}")["jobStatus"]["state"] != "WAITING"


@pytest.mark.parametrize(("name", "scheme", "path", "text"), PICTURES, ids=lambda each: str(each) if each else "any")
def test_a_picture_shows_a_page_at_work(
    busy: Server, browser: Any, tmp_path: Path, name: str, scheme: str, path: str, text: str
) -> None:
    visitor = Visitor(browser, busy.url, themes=(scheme,))
    visitor.log_in("ana", PASSWORD)
    page = visitor.page
    page.goto(path)
    page.locator("main h1").first.wait_for()
    if text:
        page.get_by_text(text).first.wait_for()
    expect(page.locator("[aria-busy=true]")).to_have_count(0, timeout=WITHIN_MS)
    found = Path(os.environ.get("PAI_PICTURES", tmp_path)) / f"{name}.png"
    page.screenshot(path=found)
    visitor.close()
    assert visitor.complaints == []
    assert f"pictures/{name}.png" in (ROOT / "docs" / "portal.md").read_text("utf-8")
    assert 10_000 < found.stat().st_size < BYTES_MAX
