"""The command line against a small platform by script, run in this process as `pai` would run it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from openpai.cli import session
from openpai.client import Client
from tests.command_tree import WHOLE
from tests.outcome import Outcome, run_pai


def text_answer(text: str, status: int = 200) -> httpx.Response:
    """Return an answer with a text: a stream of events if it begins like one."""
    kind = "text/event-stream" if text.startswith("event: ") else "text/plain"
    return httpx.Response(status, headers={"Content-Type": kind}, text=text)


@dataclass
class Platform:
    """Answers each method and path with what was prepared for it."""

    answers: dict[tuple[str, str], list[httpx.Response]] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    requests: list[httpx.Request] = field(default_factory=list)

    def on(self, method: str, path: str, *bodies: Any, status: int = 200) -> None:
        """Answer with these bodies in order, the last one for ever."""
        self.answers[method, f"/api/v2{path}"] = [
            text_answer(body, status) if isinstance(body, str) else httpx.Response(status, json=body) for body in bodies
        ]

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        self.asked.append((request.method, request.url.path))
        found = self.answers.get((request.method, request.url.path))
        if not found:
            return httpx.Response(404, json={"code": "NoJobError", "message": f"nothing at {request.url.path}"})
        return found.pop(0) if len(found) > 1 else found[0]


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> Platform:
    """Return a platform that every command of the test talks to, as user ann."""
    server = Platform()

    def connect() -> Client:
        transport = httpx.MockTransport(server)
        return Client("http://pai.test", "t", user="ann", transport=transport, sleep=lambda _: None)

    monkeypatch.setattr(session, "connect", connect)
    return server


@pytest.fixture
def pai(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """Return a function that runs `pai` with arguments and returns what it said. The commands are built once."""
    monkeypatch.setattr("openpai.cli.main.app", WHOLE)
    monkeypatch.setenv("COLUMNS", "80")
    return run_pai
