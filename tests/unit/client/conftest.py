"""A scripted server for tests of the client: what it sends and retries, and how it reads answers.

That client and real server understand each other is what the end-to-end tests show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import httpx
import pytest

from openpai.client import Client

Answer = httpx.Response | Exception


@dataclass
class Script:
    """Gives prepared answers in order, the last one repeatedly, and records the requests."""

    answers: list[Answer]
    requests: list[httpx.Request] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self) -> Client:
        """Return a client of this script that records its pauses instead of sleeping."""
        transport = httpx.MockTransport(self)
        return Client("http://pai.test", "t0ken", user="ann", transport=transport, sleep=self.pauses.append)


@dataclass
class Silence:
    """Gives prepared answers and then none; time advances only while a client waits."""

    answers: list[httpx.Response]
    at_s: float = 0.0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if self.answers:
            return self.answers.pop(0)
        self.at_s += request.extensions["timeout"]["read"]
        raise httpx.ReadTimeout("timed out")

    async def awaited(self, request: httpx.Request) -> httpx.Response:
        return self(request)

    def sleep(self, seconds: float) -> None:
        self.at_s += seconds

    async def sleep_awaited(self, seconds: float) -> None:
        self.sleep(seconds)

    def clock(self) -> float:
        return self.at_s


@pytest.fixture
def silent() -> Callable[..., Silence]:
    """Return a maker of servers that fall silent."""
    return lambda *answers: Silence(list(answers))


@pytest.fixture
def scripted() -> Callable[..., Script]:
    """Return a maker of scripts."""
    return lambda *answers: Script(list(answers))
