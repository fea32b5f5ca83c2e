"""What tests of jobs over HTTP do again and again."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from openpai.lifecycle.model import AttemptKey
from openpai.store.schema import jobs

from .api_world import World

QUOTE = "RuntimeError: CUDA out of memory. hunter2"
TWO_ROLES = """
protocolVersion: 2
name: train
type: job
jobRetryCount: 1
prerequisites: [{type: dockerimage, name: image, uri: python}]
secrets: {word: opensesame}
taskRoles:
  worker:
    instances: 2
    dockerImage: image
    completion: {minFailedInstances: 1, minSucceededInstances: 2}
    resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 1, ports: {rpc: 2}}
    commands: ["echo <% $secrets.word %>"]
  Chief:
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 0}
    commands: ["true"]
"""
TASK = "/attempts/0/taskRoles/worker/taskIndex/0/attempts"
LOOKS = ["", "/config", "/events", "/why", "/attempts/0", "/job-attempts", TASK]


async def submitted(world: World, text: str = TWO_ROLES) -> str:
    answer = await world.ask("POST", "/jobs", content=text.encode())
    assert answer.status_code == 202, answer.text
    return await world.commands._find("ann", answer.json()["name"])


async def refused(world: World, method: str, path: str, user: str = "ann", **more: Any) -> tuple[int, str]:
    answer = await world.ask(method, path, user, **more)
    return answer.status_code, answer.json()["code"]


async def failed_once(world: World) -> str:
    """Return a job whose first attempt failed and whose second runs."""
    id_ = await submitted(world)
    await world.grant()
    await world.started(AttemptKey(id_, 0, "worker", 0, 0))
    await world.exited(AttemptKey(id_, 0, "worker", 0, 0), 3)
    ending = await world.get("/jobs/train")
    assert (ending["jobStatus"]["state"], ending["jobStatus"]["subState"]) == ("STOPPING", "AttemptDeleting")
    assert ending["taskRoles"]["worker"]["taskStatuses"][1]["taskState"] == "STOPPING"
    await world.exited(AttemptKey(id_, 0, "worker", 1, 0), 143)
    await world.exited(AttemptKey(id_, 0, "Chief", 0, 0), 0)
    await world.grant()
    return id_


async def make_private(world: World, id_: str) -> None:
    private = sa.update(jobs).where(jobs.c.id == id_).values(is_private=True)
    await world.database.write(lambda connection: connection.execute(private))
