"""Why a job waits: what the scheduler says of its gangs, what its tasks wait for on their nodes, and its retries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from openpai.lifecycle.model import AttemptKey, Job, JobPhase, TaskPhase, Tasks
from openpai.orchestrator import gangs
from openpai.orchestrator.dependencies import waits_for
from openpai.orchestrator.leader import Leader
from openpai.ports.backend import NodeSeen, TaskSeen, TaskStep
from openpai.ports.store import JobRecord
from openpai.protocol.wording import duration
from openpai.scheduler.model import Wait, Why

WAITS_OF_A_ROLE: Final = 20
"""The number of tasks of a role whose reasons to wait are reported; the others wait for the same reason."""


def waits_of(leader: Leader, job: Job) -> Iterator[Wait]:
    """Yield why the gangs of a job wait; without gang allocation, for the first tasks of each role."""
    by_role: dict[str, list[str]] = {}
    for gang, tasks in gangs.waiting(job).items():
        by_role.setdefault("" if job.plan.is_gang else tasks[0].role, []).append(gang)
    for names in by_role.values():
        found = (leader.scheduler.why(name) for name in names[:WAITS_OF_A_ROLE])
        waits = [leader.steady.dated(wait) for wait in found if wait is not None]
        yield from waits[:-1]
        if waits:
            yield replace(waits[-1], more=max(0, len(names) - WAITS_OF_A_ROLE))


def asks_backend(leader: Leader, found: JobRecord) -> list[AttemptKey]:
    """Return the tasks of a job of which only the backend knows what they wait for.

    These are the ones that start, and those on nodes that may not answer: thousands that run need not be observed.
    """
    job, nodes = found.job, leader.nodes
    doubtful = {name for name in {slot.node for slot in found.slots.values()} if _is_doubtful(nodes.get(name))}
    if not doubtful and not Tasks.counted(job.tasks).count(TaskPhase.STARTING):
        return []
    return [
        job.key(task)
        for task in job.tasks.values()
        if task.phase is TaskPhase.STARTING
        or (doubtful and task.is_alive and (slot := found.slots.get(task.id)) is not None and slot.node in doubtful)
    ]


def _is_doubtful(node: NodeSeen | None) -> bool:
    return node is None or not node.is_healthy


def starting(found: JobRecord, observed: Iterable[TaskSeen]) -> tuple[Wait, ...]:
    """Return why granted tasks do not run yet, each reason once."""
    job = found.job
    mine = {job.key(task): task for task in job.tasks.values() if task.phase is TaskPhase.STARTING}
    if not mine:
        return ()
    steps = {seen.key: seen.message for seen in observed if seen.key in mine and seen.step is not TaskStep.NODE_SILENT}
    reasons = Counter((found.slots[task.id].node, steps.get(key, "")) for key, task in mine.items())
    return tuple(
        Wait(
            f"{job.id}/{job.attempt}",
            Why.STARTING,
            f"{count} of its tasks {'is' if count == 1 else 'are'} being started on {node}{step and ': '}{step}",
            "wait, or stop the job",
        )
        for (node, step), count in reasons.items()
    )


def silent(found: JobRecord, observed: Iterable[TaskSeen]) -> tuple[Wait, ...]:
    """Return for which nodes the job waits because its tasks there may still run, each once."""
    job = found.job
    no_answer = [seen for seen in observed if seen.step is TaskStep.NODE_SILENT]
    mine = {job.key(task) for task in job.tasks.values() if task.is_alive} if no_answer else ()
    messages = {seen.message: None for seen in no_answer if seen.key in mine}
    advice = "wait until the node answers, or take it out of service as above"
    return tuple(Wait(f"{job.id}/{job.attempt}", Why.NODE_SILENT, message, advice) for message in messages)


def backing_off(found: JobRecord, now_ms: int) -> Wait:
    """Return when a job that failed is tried again."""
    left_s = max(0, (found.job.retry_at_ms or now_ms) - now_ms) / 1000
    message = f"attempt {found.job.attempt + 1} failed and the job is tried again in {duration(left_s)}"
    return Wait(f"{found.job.id}/{found.job.attempt}", Why.BACKING_OFF, message, "wait, or stop the job")


async def would_wait(leader: Leader | None, record: JobRecord) -> tuple[Wait, ...] | None:
    """Return why a job would wait, empty if it would start now; None where that is not known.

    Of a job whose tasks start one by one, that is why the first of them that finds no room waits.
    """
    if leader is None or leader.sharing.arrangement.config is None:
        return None
    if record.job.phase is JobPhase.HELD:
        return await waits_for(leader, record)
    now_ms = leader.steady.now_ms()
    is_interruptible = record.virtual_cluster in leader.sharing.interruptible
    members = gangs.waiting(record.job)
    found = leader.scheduler.preview(
        list(gangs.describe(record, members, now_ms, is_interruptible=is_interruptible)), now_ms
    )
    return () if found is None else (leader.steady.dated(found),)
