"""What thousands of pods left is fetched by few tasks of the event loop, and first from those that end soon."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from openpai.backends.kubernetes.attempts import PodAttempt
from openpai.backends.kubernetes.fetching import BEGUN_MAX, WorkFetcher
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport
from openpai.ports.backend import TaskStep
from tests.unit.backends.test_kubernetes_verdicts import BEGAN, a_pod


class Fetcher(WorkFetcher):
    """A fetcher whose pods answer when the test says so."""

    def __init__(self, root: Path) -> None:
        client: Any = None
        self.printed: list[tuple[str, ...]] = []
        super().__init__(client, "default", root, 1000, lambda pod, *step: self.printed.append((pod.uid, *step)))
        self.may_end = asyncio.Event()
        self.started: list[str] = []
        self.begun: list[str] = []
        self.most = 0
        self.result = "", False

    async def _fetch(self, attempt: PodAttempt, patience_s: float) -> None:
        self.started.append(attempt.uid)
        await super()._fetch(attempt, patience_s)

    async def _bring(self, attempt: PodAttempt, patience_s: float) -> tuple[str, bool]:
        self.begun.append(attempt.uid)
        self.most = max(self.most, len(self._tasks))
        await self.may_end.wait()
        return self.result

    async def _end(self, attempt: PodAttempt, sentence: str) -> None:
        self.printed.append((attempt.uid, sentence))


def pod(number: int) -> PodAttempt:
    return PodAttempt(AttemptKey("a" * 32, 0, "worker", number, 0), f"pod{number}", uid=f"u{number}")


async def test_many_pods_need_few_tasks_and_those_that_end_go_first(tmp_path: Path) -> None:
    fetcher = Fetcher(tmp_path)
    pods = [pod(number) for number in range(2000)]
    for each in pods:
        fetcher.fetch(each)
        # The pod is seen once more.
        fetcher.fetch(each)
    fetcher.fetch(pods[1999], patience_s=30.0)
    assert len(asyncio.all_tasks()) <= BEGUN_MAX + 1
    fetcher.may_end.set()
    async with asyncio.timeout(60):
        while len(fetcher.begun) < 2000:  # noqa: ASYNC110  # one event for each would be as many tasks
            await asyncio.sleep(0.01)
    assert fetcher.most <= BEGUN_MAX
    assert sorted(fetcher.begun) == sorted(each.uid for each in pods)
    assert fetcher.started.index("u1999") <= BEGUN_MAX
    await fetcher.close()


async def test_what_waits_is_forgotten_at_the_end_and_what_has_ended_is_not_fetched(tmp_path: Path) -> None:
    fetcher = Fetcher(tmp_path)
    for number in range(BEGUN_MAX * 2):
        fetcher.fetch(pod(number))
    await asyncio.sleep(0)
    await fetcher.close()
    assert len(fetcher.begun) <= BEGUN_MAX
    assert len(asyncio.all_tasks()) == 1


async def test_files_that_are_lost_are_a_step_of_their_task_before_its_container_may_end(tmp_path: Path) -> None:
    fetcher = Fetcher(tmp_path)
    fetcher.may_end.set()
    for number, is_lost in enumerate((True, False)):
        fetcher.result = f"sentence {number}", is_lost
        fetcher.fetch(pod(number))
        await asyncio.gather(*fetcher._tasks.values())
    assert fetcher.printed == [
        ("u0", "sentence 0", TaskStep.FILES_LOST), ("u0", "sentence 0"), ("u1", "sentence 1"),
    ]  # fmt: skip


async def test_a_container_that_ends_before_its_files_are_packed_left_them_or_nothing(tmp_path: Path) -> None:
    class Ending(Fetcher):
        async def _bring(self, attempt: PodAttempt, patience_s: float) -> tuple[str, bool]:
            return await WorkFetcher._bring(self, attempt, patience_s)

        async def _receive(self, attempt: PodAttempt, goal: Path, patience_s: float) -> tuple[int, bool, list[str]]:
            await asyncio.to_thread(goal.touch)
            return 137, True, []

    fetcher, ends = Ending(tmp_path), pod(0)
    ends.started_at_ms = 1
    fetcher.fetch(ends, patience_s=30.0)
    await asyncio.gather(*fetcher._tasks.values())
    assert fetcher.printed == []
    fetcher.ended(ends, ExitReport(137, ExitReason.LOST))
    ((_, sentence, step),) = fetcher.printed
    assert ("if anything, is lost" in sentence, step) == (True, TaskStep.FILES_LOST)


def test_files_that_went_with_their_pod_are_a_step_unless_they_were_fetched(tmp_path: Path) -> None:
    fetcher = Fetcher(tmp_path)
    lost = ExitReport(137, ExitReason.NODE_LOST)
    begun, fetched, kept, waiting = (pod(number) for number in range(4))
    begun.started_at_ms = fetched.started_at_ms = kept.started_at_ms = 1
    fetched.is_fetched = True
    # An earlier server fetched them.
    (tmp_path / kept.key.path()).mkdir(parents=True)
    for each in (begun, fetched, kept, waiting):
        fetcher.ended(each, lost)
    # Its wrapper has waited for the server.
    fetcher.ended(begun, ExitReport(1))
    ((name, sentence, step),) = fetcher.printed
    assert (name, "is lost" in sentence, step) == ("u0", True, TaskStep.FILES_LOST)


@pytest.mark.parametrize(("grace_s", "begun"), [(30, ["u0"]), (0, [])])
async def test_a_pod_deleted_by_others_is_fetched_within_its_grace_period(
    tmp_path: Path, grace_s: int, begun: list[str]
) -> None:
    fetcher = Fetcher(tmp_path)
    fetcher.may_end.set()
    deletion = {"deletionTimestamp": BEGAN, "deletionGracePeriodSeconds": grace_s}
    fetcher.look(pod(0), a_pod("Running", {"running": {"startedAt": BEGAN}}, metadata=deletion))
    await asyncio.gather(*fetcher._tasks.values())
    assert fetcher.begun == begun


def test_the_step_that_files_are_lost_is_reported_with_the_end_and_no_other_one_is() -> None:
    attempt = pod(0)
    attempt.message, attempt.step, attempt.exit = "lost", TaskStep.FILES_LOST, ExitReport(0)
    assert (attempt.seen().message, attempt.seen().step) == ("lost", TaskStep.FILES_LOST)
    attempt.step = TaskStep.PULLING_IMAGE
    assert (attempt.seen().message, attempt.seen().step) == ("", "")
