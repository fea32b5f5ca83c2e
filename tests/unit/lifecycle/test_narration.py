"""What the history of a job says about an attempt that a backend could not begin."""

from __future__ import annotations

import pytest

from openpai.lifecycle.diagnosis import diagnose
from openpai.lifecycle.facts import TaskExited
from openpai.lifecycle.model import ExitReason, ExitReport
from openpai.lifecycle.narration import TOLD_MAX, narrate
from tests.unit.lifecycle.stories import Story, role, task

PULL = "image 'reg.example/vision:9' cannot be pulled: manifest unknown"


def message_of(report: ExitReport, retry: int = 0) -> str:
    """Return the warning about a task that ended so before it began."""
    story = Story(role(retry=retry), is_gang=not retry)
    story.grant()
    before = story.job
    story.report(TaskExited(story.key(task()), report, diagnose(report), story.tick()))
    [line] = [line for line in narrate(before, story.last) if line.reason in ("TaskFailed", "TaskRetried")]
    assert line.is_warning
    return line.message


@pytest.mark.parametrize("reason", [ExitReason.IMAGE_MISSING, ExitReason.LAUNCH_FAILED, ExitReason.LAUNCH_REFUSED])
def test_it_says_which_image_and_why(reason):
    assert message_of(ExitReport(1, reason, PULL)).endswith(f" {PULL}")


def test_so_does_a_retry():
    message = message_of(ExitReport(1, ExitReason.LAUNCH_FAILED, PULL), retry=1)
    assert "is tried again" in message
    assert PULL in message


def test_a_long_answer_of_a_registry_is_one_line_and_cut():
    message = message_of(ExitReport(1, ExitReason.IMAGE_MISSING, f"{PULL}\n<html>\n" + "x" * 100_000))
    assert "\n" not in message
    assert f"{PULL} <html> xxx" in message
    assert len(message) < 2 * TOLD_MAX


def test_what_a_program_ended_with_is_not_made_up():
    assert message_of(ExitReport(3)).count("manifest") == 0
