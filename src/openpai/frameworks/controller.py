"""Makes one Framework and its job agree, one step after the other; each may be repeated after a restart.

The finalizer is written before a job is submitted, so that no job outlives its Framework. The job's name follows from
the Framework's UID, so that a job whose submission was not answered is found instead of submitted twice. A Framework
whose status names a job never gets another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from openpai.client.model import JobDetail
from openpai.frameworks import status as shape
from openpai.frameworks.accounts import Accounts
from openpai.frameworks.job_file import job_file
from openpai.frameworks.objects import (
    COMPLETED,
    CREATION_PENDING,
    FINALIZER,
    FRAMEWORKS,
    START,
    STOP,
    Framework,
    job_name,
)
from openpai.frameworks.settings import Grant
from openpai.kube.client import JSON_PATCH, KubeClient
from openpai.kube.errors import KubeError
from openpai.protocol.errors import Refused, Unavailable
from openpai.protocol.times import kubernetes_time

SOON_S: Final = 1.0
REFUSED_AGAIN_S: Final = 60.0
"""When a refused submission is tried again: a quota or a virtual cluster may have changed."""
TASKS_PER_S: Final = 500
"""How many tasks of one job have their states read per second at most."""
log: Final = structlog.get_logger(__name__)


class Controller:
    """Submits, stops and reports the jobs of Frameworks."""

    def __init__(
        self,
        kube: KubeClient,
        grants: Mapping[str, Grant],
        accounts: Accounts,
        now_ms: Callable[[], int],
        poll_s: float,
    ) -> None:
        self._kube = kube
        self._grants = grants
        self._accounts = accounts
        self._now_ms = now_ms
        self._poll_s = poll_s
        self._owners: dict[str, str] = {}
        """The user of each job that was found, by the UID of its Framework."""
        self._refused_scales: dict[str, tuple[shape.Numbers, int, str]] = {}
        """The last numbers of tasks that were refused, when and why, by the UID of the Framework."""
        self._rescaled: set[str] = set()
        """The UIDs of Frameworks whose jobs got other numbers of tasks, until their status says so."""

    def forget(self, uid: str) -> None:
        """Forget a Framework that is gone."""
        self._owners.pop(uid, None)
        self._refused_scales.pop(uid, None)
        self._rescaled.discard(uid)

    async def reconcile(self, framework: Framework) -> float | None:
        """Do what is next for a Framework; return after how many seconds to look again, None for its next change."""
        if framework.is_completed and not framework.is_deleting:
            return None
        try:
            return await (self._delete(framework) if framework.is_deleting else self._follow(framework))
        except KubeError as error:
            if error.is_conflict:
                return SOON_S
            raise
        except Refused as error:
            refused = shape.condition("Accepted", "False", "Refused", error.sentence)
            await self._write_conditions(framework, refused)
            return REFUSED_AGAIN_S
        except Unavailable as error:
            if framework.status is None:
                waits = shape.condition("Accepted", "Unknown", "Unavailable", error.sentence)
                await self._write_conditions(framework, waits)
            raise

    async def _follow(self, framework: Framework) -> float | None:
        job = await self._find(framework)
        if job is not None:
            return await self._keep(framework, job)
        now_ms = self._now_ms()
        if framework.had_job:
            gone = shape.completion(shape.GONE_CODE, "the job was deleted or archived on the platform")
            await self._write(framework, {**(framework.status or {}), **_ended(framework, gone, now_ms)})
        elif framework.spec.execution_type == START:
            return await self._submit(framework)
        elif framework.spec.execution_type == STOP:
            stopped = shape.completion(shape.STOPPED_CODE, "stopped before it was submitted")
            await self._write(framework, shape.without_job(COMPLETED, now_ms, stopped))
        elif (framework.status or {}).get("state") != CREATION_PENDING:
            await self._write(framework, shape.without_job(CREATION_PENDING, now_ms))
        return None

    async def _keep(self, framework: Framework, job: JobDetail) -> float | None:
        is_stopping = framework.spec.execution_type == STOP and not job.is_final
        if is_stopping and job.execution_type != "STOP":
            await self._stop(framework, job, "was set to executionType Stop")
            return 0.0
        accepted = shape.condition("Accepted", "True", "Submitted", f"it is job {job.full_name}")
        numbers = {} if job.is_final or is_stopping else shape.numbers_to_change(framework, job)
        refused = await self._scale(framework, job, numbers) if numbers else ""
        if numbers and not refused:
            self._rescaled.add(framework.uid)
            return 0.0
        was_rescaled = framework.uid in self._rescaled
        rescale = shape.rescale_condition(framework, job, refused, was_rescaled=was_rescaled)
        conditions = [accepted] if rescale is None else [accepted, rescale]
        written = shape.status_of(framework, job)
        written["conditions"] = shape.conditions(framework, conditions, self._now_ms())
        await self._write(framework, written)
        self._rescaled.discard(framework.uid)
        return None if job.is_final else max(self._poll_s, len(job.tasks) / TASKS_PER_S)

    async def _submit(self, framework: Framework) -> float:
        grant = self._grants[framework.namespace]
        user, text = grant.user_of(framework), job_file(framework, grant)
        client = await self._accounts.client(user)
        await self._write_finalizers(framework, [*(framework.metadata.finalizers or ()), FINALIZER])
        submitted = await client.submit(text, key=f"framework-{framework.uid}")
        self._owners[framework.uid] = submitted.user
        log.info("submitted", framework=_key(framework), job=submitted.full_name)
        return 0.0

    async def _delete(self, framework: Framework) -> float | None:
        """Let a deleted Framework go once its job is over."""
        if not framework.has_finalizer:
            return None
        job = await self._find(framework)
        if job is None or job.is_final:
            others = [name for name in framework.metadata.finalizers or () if name != FINALIZER]
            await self._write_finalizers(framework, others)
            return None
        if job.execution_type != "STOP":
            await self._stop(framework, job, "was deleted")
        return SOON_S

    async def _stop(self, framework: Framework, job: JobDetail, why: str) -> None:
        client = await self._accounts.client(job.user)
        await client.stop(job.full_name, reason=f"Framework {_key(framework)} {why}")
        log.info("stopped", framework=_key(framework), job=job.full_name, because=why)

    async def _scale(self, framework: Framework, job: JobDetail, numbers: shape.Numbers) -> str:
        """Change the numbers of tasks of a job; return why the platform refused that, empty if it did not."""
        asked, at_ms, answer = self._refused_scales.get(framework.uid, ({}, 0, ""))
        if asked == numbers and self._now_ms() - at_ms < REFUSED_AGAIN_S * 1000:
            return answer
        client = await self._accounts.client(job.user)
        try:
            await client.scale(job.full_name, numbers)
        except Unavailable as error:
            return error.sentence  # tasks that the job would get again still end
        except Refused as error:
            self._refused_scales[framework.uid] = (numbers, self._now_ms(), error.sentence)
            return error.sentence
        self._refused_scales.pop(framework.uid, None)
        log.info("rescaled", framework=_key(framework), job=job.full_name, to=numbers)
        return ""

    async def _find(self, framework: Framework) -> JobDetail | None:
        """Return a Framework's job, whichever user of the namespace has it: the annotation may have changed."""
        users = self._grants[framework.namespace].users
        owner = self._owners.get(framework.uid) or framework.job_user
        if owner and owner not in users:
            message = f"its job is of user {owner}, who is not allowed in namespace {framework.namespace} any more"
            raise Refused(
                "ForbiddenUserError", message, f"add {owner} to the configuration again until the job is over"
            )
        for user in [owner] if owner else list(users):
            client = await self._accounts.client(user)
            try:
                job = await client.job(f"{user}~{job_name(framework)}")
            except Refused as error:
                if error.code == "NoJobError":
                    continue
                if error.status in (401, 403):
                    self._accounts.forget(user)
                raise
            self._owners[framework.uid] = user
            return job
        return None

    async def _write_conditions(self, framework: Framework, condition: dict[str, Any]) -> None:
        before = framework.status or {"state": CREATION_PENDING}
        conditions = shape.conditions(framework, [condition], self._now_ms())
        await self._write(framework, {**before, "conditions": conditions})

    async def _write(self, framework: Framework, status: dict[str, Any]) -> None:
        """Write the status of this very Framework, unless it is the same."""
        if status == framework.status:
            return
        same = {"op": "test", "path": "/metadata/uid", "value": framework.uid}
        patch = [same, {"op": "add", "path": "/status", "value": status}]
        await self._kube.patch(
            FRAMEWORKS, framework.name, patch, framework.namespace, how=JSON_PATCH, subresource="status"
        )

    async def _write_finalizers(self, framework: Framework, finalizers: list[str]) -> None:
        if finalizers == (framework.metadata.finalizers or []) or len(set(finalizers)) < len(finalizers):
            return
        # Others write finalizers too, so the list is written only over the one that was read.
        version = framework.metadata.resource_version
        patch = {"metadata": {"uid": framework.uid, "resourceVersion": version, "finalizers": finalizers}}
        await self._kube.patch(FRAMEWORKS, framework.name, patch, framework.namespace)


def _ended(framework: Framework, completion: dict[str, Any], now_ms: int) -> dict[str, Any]:
    at = kubernetes_time(now_ms)
    attempt = {**((framework.status or {}).get("attemptStatus") or {})}
    attempt |= {"completionStatus": completion, "completionTime": at}
    return {"state": COMPLETED, "completionTime": at, "transitionTime": at, "attemptStatus": attempt}


def _key(framework: Framework) -> str:
    return f"{framework.namespace}/{framework.name}"
