"""The platform as a Python library: log in, submit a job file, watch it, read its logs, stop it.

    from openpai.client import Client

    with Client.from_environment() as pai:
        job = pai.submit(Path("hello.yaml").read_bytes())
        print(pai.wait(job.full_name).state)

Jobs are named `user~job`, or just `job` for one's own. Every error is a Refused, an Unavailable or a Broken of
`openpai.protocol.errors`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import httpx

from openpai.client import credentials as kept
from openpai.client.calls_core import Call, Pages, Pause, Steps
from openpai.client.nouns import Nouns
from openpai.client.retry import TIMEOUT_S
from openpai.client.transport import Transport
from openpai.protocol.errors import Unavailable

if TYPE_CHECKING:
    from openpai.client.files import StorageFiles
    from openpai.client.logs import AttemptLogs
    from openpai.client.model import LogPiece

T = TypeVar("T")


class Client(Nouns):
    """A connection to one platform for one user. Close it, or use it in a `with`."""

    is_blocking = True

    def __init__(
        self,
        url: str = kept.URL_DEFAULT,
        token: str | None = None,
        *,
        user: str | None = None,
        timeout_s: float = TIMEOUT_S,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = kept.normal_url(url)
        self.user = user
        self.clock = clock
        self.wire = Transport(self.url, token, timeout_s=timeout_s, transport=transport, sleep=sleep, clock=clock)

    @classmethod
    def from_environment(cls, url: str | None = None, *, timeout_s: float = TIMEOUT_S) -> Client:
        """Return a client with the credentials of the latest `pai login`, or of `PAI_URL` and `PAI_TOKEN`."""
        found = kept.load(url)
        return cls(found.url, found.token, user=found.user, timeout_s=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self.wire.close()

    def ask(self, call: Call[T]) -> T:
        """Send one request and return its answer; for an operation without a method here, create a `Call`."""
        return call.understood(self.wire.send(call))

    def proceed(self, steps: Steps[T]) -> T:
        """Carry out steps, which receive any Unavailable, and return their result."""
        answer: Any = None
        failure: Unavailable | None = None
        while True:
            try:
                step = steps.send(answer) if failure is None else steps.throw(failure)
            except StopIteration as end:
                result: T = end.value
                return result
            failure = None
            if isinstance(step, Pause):
                self.wire.sleep(step.seconds)
            else:
                try:
                    answer = self.ask(step)
                except Unavailable as error:
                    failure = error

    def each(self, pages: Pages[Any, T]) -> Iterator[T]:
        """Yield every item of every page, requesting a page after all items of the previous one."""
        call: Call[Any] | None = pages.first
        while call is not None:
            page = self.ask(call)
            yield from pages.items(page)
            call = pages.after(page)

    def files(self, storage: str) -> StorageFiles:
        """Return the files of a storage, to be uploaded and downloaded."""
        from openpai.client.files import StorageFiles

        return StorageFiles(self.wire, storage)

    def logs(
        self, name: str, role: str, index: int, *, attempt: int | None = None, job_attempt: int | None = None
    ) -> AttemptLogs:
        """Return the logs of a task attempt, the newest unless one is named; raise NoTaskLogError if it never began."""
        from openpai.client.logs import AttemptLogs

        return AttemptLogs(self.wire, self.proceed(self.log_places(name, role, index, attempt, job_attempt)))

    def follow(self, name: str, role: str, index: int, stream: str = "all") -> Iterator[LogPiece]:
        """Yield what the newest attempt of a task writes until that attempt is over."""
        return self.logs(name, role, index).follow(stream)
