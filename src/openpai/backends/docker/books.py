"""What the backend knows of attempts, and which of them changed since somebody last asked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

from openpai.backends.docker.attempts import Attempt
from openpai.lifecycle.model import AttemptKey
from openpai.ports.backend import TaskSeen


class Books:
    """Every attempt that is not forgotten, by key and by container."""

    def __init__(self) -> None:
        self._attempts: dict[AttemptKey, Attempt] = {}
        self._containers: dict[str, Attempt] = {}
        self._changed: dict[AttemptKey, Attempt] = {}
        self._has_news = asyncio.Event()
        self._jobs: Counter[str] = Counter()
        self.leaving: set[str] = set()
        """Containers of forgotten attempts that are being removed."""

    def __iter__(self) -> Iterator[Attempt]:
        """Return every attempt; the books may change meanwhile."""
        return iter(list(self._attempts.values()))

    def __contains__(self, key: AttemptKey) -> bool:
        """Return whether the attempt is known."""
        return key in self._attempts

    def get(self, key: AttemptKey) -> Attempt | None:
        """Return the attempt, or None when it is not known."""
        return self._attempts.get(key)

    def of_container(self, name: str) -> Attempt | None:
        """Return the attempt whose container has that name, or None."""
        return self._containers.get(name)

    def has_job(self, job: str) -> bool:
        """Return whether an attempt of the job is known, or its container is being removed."""
        return self._jobs[job] > 0

    def add(self, attempt: Attempt) -> None:
        """Know an attempt from now on."""
        self._jobs[attempt.key.job] += 1
        self._attempts[attempt.key] = attempt
        self._containers[attempt.container] = attempt

    def drop(self, attempt: Attempt) -> None:
        """Know an attempt no more; its container is leaving."""
        del self._attempts[attempt.key]
        del self._containers[attempt.container]
        self._changed.pop(attempt.key, None)
        self.leaving.add(attempt.container)

    def gone(self, attempt: Attempt) -> None:
        """Know that the removal of a dropped attempt's container is over, whether it succeeded or not."""
        self.leaving.discard(attempt.container)
        self._jobs[attempt.key.job] -= 1
        if not self._jobs[attempt.key.job]:
            del self._jobs[attempt.key.job]

    def announce(self, attempt: Attempt) -> None:
        """Make the attempt news, as it will be when somebody asks."""
        self._changed[attempt.key] = attempt
        self._has_news.set()

    async def news(self) -> tuple[TaskSeen, ...]:
        """Wait until something was announced and return all of it once."""
        while not self._changed:
            self._has_news.clear()
            await self._has_news.wait()
        changed, self._changed = self._changed, {}
        return tuple(attempt.seen() for attempt in changed.values())
