"""When jobs saved their work, as the backend sees it, decides which of them loses least by leaving."""

from __future__ import annotations

from typing import Any

import pytest

from openpai.lifecycle.model import AttemptKey
from openpai.orchestrator.checkpoints import note_checkpoints
from openpai.ports.backend import KillTask
from tests.unit.orchestrator.servers import Servers, live

OPPO = {"hivedScheduler": {"jobPriorityClass": "oppo"}}
PROD = {"hivedScheduler": {"jobPriorityClass": "prod"}}


def see(servers: Servers, seen: dict[AttemptKey, int]) -> None:
    """Let the leader's backend find these checkpoints."""

    async def checkpoints() -> dict[AttemptKey, int]:
        return seen

    servers.leader.backend.checkpoints = checkpoints  # type: ignore[attr-defined]


@pytest.mark.slow
def test_the_job_with_the_newest_file_is_preempted_and_reads_why_with_its_own_grace_period() -> None:
    async def story(servers: Servers) -> None:
        sent: list[Any] = []
        apply = servers.leader.backend.apply

        async def watched(actions: Any) -> None:
            sent.extend(actions)
            await apply(actions)

        servers.leader.backend.apply = watched  # type: ignore[method-assign]
        # The youngest of equal jobs would leave, so the oldest is the one with a checkpoint.
        for name in ("saves", "second", "third", "fourth"):
            await servers.submit(name, gpus=4, extras={**OPPO, "gracePeriodSeconds": 90})
            await servers.in_phase(name, "running")
        saves = await servers.row("saves")
        await servers.until(lambda: _later(servers, saves.attempt_started_at_ms, 600_000))
        key = AttemptKey(saves.id, 0, "worker", 0, 0)
        at_ms = servers.clock.now_ms() - 1000
        see(servers, {key: at_ms, AttemptKey(saves.id, 7, "worker", 0, 0): at_ms + 900_000})
        await note_checkpoints(servers.leader)
        assert (await servers.row("saves")).checkpoint_at_ms == at_ms
        version = (await servers.row("saves")).version
        see(servers, {key: at_ms + 10})  # no news
        await note_checkpoints(servers.leader)
        assert (await servers.row("saves")).version == version
        await servers.submit("urgent", gpus=4, extras=PROD)
        await servers.in_phase("urgent", "running")
        assert [(await servers.row(name)).attempt for name in ("saves", "second", "third", "fourth")] == [1, 0, 0, 0]
        (kill,) = [action for action in sent if isinstance(action, KillTask)]
        assert kill.grace_s == 90
        assert kill.notice is not None
        assert kill.notice.reason == "preempted"
        assert "urgent" in kill.notice.message

    live(story)


async def _later(servers: Servers, since_ms: int | None, by_ms: int) -> bool:
    return servers.clock.now_ms() >= (since_ms or 0) + by_ms
