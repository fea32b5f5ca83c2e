"""Exit reports and log tails become rows of the exit-code table."""

from __future__ import annotations

import pytest

from openpai.lifecycle.diagnosis import diagnose, needs_log
from openpai.lifecycle.model import Behavior, ExitReason, ExitReport
from openpai.protocol.exit_codes import EXIT_SPECS, RETRY_ADVICE
from tests.unit.lifecycle.stories import Story, role, task


@pytest.mark.parametrize(
    ("report", "tail", "phrase", "behavior"),
    [
        (ExitReport(0), "", "Succeeded", Behavior.UNKNOWN),
        (ExitReport(1), "", "PAIRuntimeUnknownFailed", Behavior.UNKNOWN),
        (ExitReport(137), "", "ContainerSigKillReceived", Behavior.TRANSIENT),
        (ExitReport(136), "", "ContainerSigFpeReceived", Behavior.PERMANENT),
        (ExitReport(-101, ExitReason.LOST), "", "PodExternalDeleted", Behavior.TRANSIENT),
        (ExitReport(137, ExitReason.OOM_KILLED), "", "UserContainerDockerOOMKilled", Behavior.PERMANENT),
        (ExitReport(1, ExitReason.IMAGE_MISSING), "", "ContainerImageNotExists", Behavior.PERMANENT),
        (ExitReport(1, ExitReason.PORT_TAKEN), "", "ContainerPortConflict", Behavior.TRANSIENT),
        (ExitReport(127), "bash: trian: command not found\n", "UserCommandExitWithError", Behavior.PERMANENT),
        (
            ExitReport(1),
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n",
            "ContainerCudaOOMKilled",
            Behavior.PERMANENT,
        ),
    ],
)
def test_what_is_seen_leads_to_a_row(report: ExitReport, tail: str, phrase: str, behavior: Behavior) -> None:
    diagnosis = diagnose(report, tail)
    assert (diagnosis.phrase, diagnosis.behavior) == (phrase, behavior)


@pytest.mark.parametrize("reason", [reason for reason in ExitReason if reason is not ExitReason.EXITED])
def test_every_reason_of_a_backend_leads_to_a_row_of_the_table(reason: ExitReason) -> None:
    diagnosis = diagnose(ExitReport(1, reason, "as the backend says"))
    assert (diagnosis.code in EXIT_SPECS, diagnosis.matched) == (True, "as the backend says")


def test_the_line_that_gave_the_cause_away_is_kept() -> None:
    diagnosis = diagnose(ExitReport(1), "step 1\nModuleNotFoundError: No module named 'torch'\n")
    assert diagnosis.matched == "ModuleNotFoundError: No module named 'torch'"
    assert diagnosis.advice


def test_only_a_failure_of_the_program_itself_needs_its_log() -> None:
    assert needs_log(ExitReport(1))
    assert not needs_log(ExitReport(0))
    assert not needs_log(ExitReport(1, ExitReason.LOST))


def advised_on_retries(job_retries: int, task_retries: int = 0) -> bool:
    story = Story(role(retry=task_retries), retries=job_retries)
    while not story.job.is_final:
        story.run()
        story.exit(task(), 1)
    outcome = story.job.outcome
    assert outcome is not None
    assert outcome.diagnosis is not None
    assert ("is used up" in outcome.message) is (job_retries > 0)
    return RETRY_ADVICE in outcome.diagnosis.advice


def test_retries_are_advised_only_for_jobs_without_any() -> None:
    assert advised_on_retries(0)
    assert not advised_on_retries(2)
    assert not advised_on_retries(0, task_retries=1)
