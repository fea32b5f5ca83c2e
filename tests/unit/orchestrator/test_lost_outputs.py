"""Files of a task that are lost are an event of its job, also when its end is reported at the same moment."""

from __future__ import annotations

from openpai.lifecycle.model import ExitReport
from openpai.orchestrator.observing import hear
from openpai.ports.backend import TaskSeen, TaskStep
from tests.unit.orchestrator.servers import Servers, live

SENTENCE = "the files are lost: the image has no tar and find, with which the server fetches them"


def test_lost_files_are_an_event_beside_the_end_of_their_task() -> None:
    async def story(servers: Servers) -> None:
        await servers.submit("train")
        await servers.in_phase("train", "running")
        record = servers.leader.active.records[(await servers.row("train")).id]
        ((id_, slot),) = record.slots.items()
        key = record.job.key(record.job.tasks[id_])
        await hear(servers.leader, [TaskSeen(key, slot.grant, 1, ExitReport(0), SENTENCE, TaskStep.FILES_LOST)])
        found = [each for each in await servers.events("train") if each.event.reason == TaskStep.FILES_LOST]
        assert [(each.event.message, each.event.is_warning) for each in found] == [(SENTENCE, True)]
        assert (await servers.row("train")).phase == "succeeded"

    live(story)
