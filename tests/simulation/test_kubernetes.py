"""Seeds of trouble for servers that run tasks on Kubernetes, and proof that the checkers would notice."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from openpai.backends.kubernetes import leftovers, writes
from openpai.backends.kubernetes.claiming import Claims
from tests.simulation.kubernetes.world import KubeWorld, ServerNetwork
from tests.simulation.run import attempt, stories

Break = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize(
    "first",
    [pytest.param(first, marks=pytest.mark.full if first else pytest.mark.slow) for first in range(0, 18, 6)],
)
def test_seeds_keep_every_promise(first: int) -> None:
    count = 6 if first else 3
    assert [message for seed in range(first, first + count) if (message := attempt(seed, "kubernetes")[1])] == []


@pytest.mark.full
def test_a_seed_is_the_same_story_in_every_process() -> None:
    assert len(stories("live_through(1, KubeWorld)")) == 1


def _claims_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    async def keep(self: Claims, name: str) -> None:
        return None

    monkeypatch.setattr(Claims, "remove", keep)
    monkeypatch.setattr(leftovers, "CLAIMS_EVERY_S", 1e9)


def _an_api_server_that_is_away_ends_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes, "is_passing", lambda error: False)


def _often_busy(self: ServerNetwork, method: str) -> tuple[int, str] | None:
    """Refuse every third creation: whether a story's own troubles meet one depends on the order of awaits."""
    chance: Random = self._weather.chance
    return (503, "ServiceUnavailable") if method == "POST" and chance.random() < 1 / 3 else None


@pytest.mark.full
@pytest.mark.parametrize(
    ("broken", "about"),
    [
        (_claims_stay, "claim"),
        (_an_api_server_that_is_away_ends_launches, "ended as"),
    ],
)
def test_broken_code_is_caught(broken: Break, about: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KubeWorld, "calm_max_s", 1800)
    monkeypatch.setattr(ServerNetwork, "refusal", _often_busy)
    noticed: list[str] = []
    for seed in range(20):
        with monkeypatch.context() as context:
            broken(context)
            _, message = attempt(seed, "kubernetes")
        if message:
            noticed.append(message.splitlines()[0])
            if about in noticed[-1] and attempt(seed, "kubernetes")[1] == "":
                return
    pytest.fail(f"none of 20 seeds noticed {about!r}; they noticed {noticed}")
