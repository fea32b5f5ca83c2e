"""Before SIGTERM a task finds why and until when, and its checkpoint directory outlives the attempt."""

from __future__ import annotations

import json
import time

import pytest
from msgspec.structs import replace

from openpai.lifecycle.actions import EndNotice
from openpai.ports.backend import Backend, KillTask, SeesCheckpoints
from tests.contracts.harness import Harness
from tests.contracts.seen import PATIENCE_S, Watch, a_key, a_launch, forget

# The image of some backends has a shell and little else.
WAITS = """
leave() {
    read -r text <"$PAI_PREEMPTION_NOTICE"
    echo "$text"
    if [ -n "${PAI_CHECKPOINT_DIR-}" ]; then echo "$text" >"$PAI_CHECKPOINT_DIR/state"; fi
    exit 143
}
trap leave TERM
echo up
while :; do sleep 0.05; done
"""
RESUMES = """
read -r text <"$PAI_CHECKPOINT_DIR/state"
echo "$text"
while :; do sleep 0.05; done
"""
# No task is killed before the tests lose patience: on a machine whose disk is busy, one may need a minute to end.
GRACE_S = 2 * PATIENCE_S


async def ended_with_notice(harness: Harness, backend: Backend) -> str:
    """Start a task, end it with a notice, and return what it read."""
    watch = Watch(backend)
    await backend.apply([a_launch(harness, a_key(), WAITS)])
    await harness.until_printed(a_key(), "up")
    await watch.until_running(a_key())
    await backend.apply([KillTask(a_key(), GRACE_S, EndNotice("preempted", 'job "b" goes first'))])
    (report,) = await watch.until_over(a_key())
    assert report.code == 143
    return harness.output(a_key())


async def test_a_task_reads_why_and_until_when_before_its_signal(harness: Harness) -> None:
    if not harness.runs_shell:
        pytest.skip(f"{type(harness).__name__} runs no shell")
    before_s = time.time()
    text = await ended_with_notice(harness, await harness.start())
    notice = json.loads(text[text.index("{") : text.rindex("}") + 1])
    assert (notice["reason"], notice["message"], notice["graceSeconds"]) == ("preempted", 'job "b" goes first', GRACE_S)
    assert before_s + GRACE_S - 1 <= notice["deadline"] <= time.time() + GRACE_S


async def test_the_next_attempt_finds_what_the_last_one_saved(harness: Harness) -> None:
    backend = await harness.start()
    if not isinstance(backend, SeesCheckpoints):
        pytest.skip(f"{type(harness).__name__} has no directories for checkpoints")
    assert await backend.checkpoints() == {}
    await ended_with_notice(harness, backend)
    following = replace(a_key(), job_attempt=a_key().job_attempt + 1)
    await backend.apply([a_launch(harness, following, RESUMES, grant=9)])
    await forget(backend, a_key())
    await harness.until_printed(following, "goes first")
    watch = Watch(backend)
    await watch.until_running(following)
    assert list(await backend.checkpoints()) == [following]
    await backend.apply([KillTask(following, 0.0)])
    await watch.until_over(following)
