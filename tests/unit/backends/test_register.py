"""The register of attempts with a runner that has no directory, process or container, like one of a far cluster."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from openpai.app.clock import SystemClock
from openpai.backends.host.grants import NewestGrants
from openpai.backends.host.register import SEEN_AT_ONCE, Attempt, AttemptRegister, Request
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport
from openpai.ports.backend import ForgetTask, KillTask, LaunchTask
from tests.costs import counted_turns

KEY = AttemptKey("job", 0, "worker", 0, 0)
LAUNCH = LaunchTask(KEY, 1, "node", (0,), 1, 1, "image", "true")


class Far:
    """Records what its register asks for; nothing of it is done before a test says so."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.register = AttemptRegister(self, NewestGrants(), {"node"}, SystemClock())

    def new_attempt(self, key: AttemptKey, grant: int = 0, devices: tuple[int, ...] = ()) -> Attempt:
        return Attempt(key, f"pod-{key.index}", grant, devices)

    def reason_to_refuse(self, launch: LaunchTask) -> ExitReport | None:
        return None

    def fence(self, attempt: Attempt, report: ExitReport) -> None:
        self.calls.append("fence")

    def terminate(self, attempt: Attempt) -> None:
        self.calls.append(f"terminate {attempt.grace_s:g}")

    def destroy(self, attempt: Attempt) -> None:
        self.calls.append("destroy")

    def ended(self, attempt: Attempt, report: ExitReport) -> None:
        self.calls.append("ended")

    def remove(self, attempt: Attempt) -> None:
        self.calls.append("remove")

    def start(self, attempt: Attempt, launch: LaunchTask) -> None:
        self.calls.append("start")


@pytest.fixture
def far() -> Far:
    return Far()


async def test_a_kill_of_what_still_starts_is_sent_once_it_runs(far: Far) -> None:
    far.register.apply(LAUNCH, far.start)
    far.register.apply(KillTask(KEY, 60.0), far.start)
    far.register.apply(KillTask(KEY, 30.0), far.start)
    assert far.calls == ["start"]
    (attempt,) = far.register
    far.register.started(attempt, 5)
    far.register.stop_if_requested(attempt)
    assert far.calls == ["start", "terminate 30"]
    far.register.close()


async def test_only_the_first_report_of_an_attempt_counts(far: Far) -> None:
    far.register.apply(LAUNCH, far.start)
    (attempt,) = far.register
    far.register.started(attempt, 5)
    far.register.end(attempt, ExitReport(3))
    far.register.end(attempt, ExitReport(137, ExitReason.LOST))
    (seen,) = await far.register.news()
    assert seen.exit is not None
    assert (seen.exit.code, seen.exit.started_at_ms, far.calls) == (3, 5, ["start", "ended"])


async def test_a_job_is_known_until_the_last_of_it_is_removed(far: Far) -> None:
    far.register.apply(LAUNCH, far.start)
    (attempt,) = far.register
    far.register.started(attempt, 5)
    far.register.apply(ForgetTask(KEY), far.start)
    assert KEY in far.register
    far.register.end(attempt, ExitReport(137))
    assert (KEY in far.register, far.register.is_leaving("pod-0"), far.register.has_job("job")) == (False, True, True)
    far.register.removed(attempt)
    assert (far.register.is_leaving("pod-0"), far.register.has_job("job")) == (False, False)
    # Without a grace period it is destroyed, not terminated.
    assert far.calls == ["start", "ended", "remove"]


async def test_what_an_earlier_server_left_is_news_and_is_not_started_again(far: Far) -> None:
    far.register.restore(far.new_attempt(KEY, 7), ExitReport(9))
    far.register.apply(LAUNCH, far.start)
    (seen,) = await far.register.news()
    assert (seen.grant, seen.exit, far.calls) == (7, ExitReport(9), [])


def test_the_register_needs_nothing_of_a_host() -> None:
    code = "import sys, openpai.backends.host.register; print([name for name in sys.modules if 'backends' in name])"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "directory" not in found
    assert "attempts" not in found


async def test_a_decision_need_not_wait_until_thousands_of_attempts_were_observed(far: Far) -> None:
    for index in range(4 * SEEN_AT_ONCE):
        far.register.add(Attempt(AttemptKey("job", 0, "worker", index, 0), f"pod-{index}"))
    observing = asyncio.create_task(far.register.observe())
    turns = 0
    while not observing.done():
        await asyncio.sleep(0)
        turns += 1
    # One for each part would be four.
    assert turns > 12
    far.register.close()


async def test_thousands_of_attempts_are_observed_in_parts_and_some_of_them_at_once(far: Far) -> None:
    keys = [AttemptKey("job", 0, "worker", index, 0) for index in range(4 * SEEN_AT_ONCE)]
    for key in keys:
        far.register.add(Attempt(key, f"pod-{key.index}"))
    with counted_turns() as lines:
        observing = asyncio.create_task(far.register.observe())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gone = [found for found in far.register if found.key in (keys[0], keys[-1])]
        for attempt in gone:
            far.register.end(attempt, ExitReport(0))
            far.register.apply(ForgetTask(attempt.key), far.start)
        seen = await observing
    assert lines.most_at_once < 20 * SEEN_AT_ONCE
    # One was seen before it was forgotten.
    assert [task.key for task in seen] == keys[:-1]
    assert await far.register.observe(keys[:2]) == (seen[1],)
    far.register.close()


async def test_a_request_wakes_who_waits_for_it_and_who_comes_later() -> None:
    request = Request()
    waiting = asyncio.create_task(request.wait())
    await asyncio.sleep(0)
    assert not request.is_set()
    assert not waiting.done()
    request.set()
    await waiting
    await request.wait()
    assert request.is_set()
