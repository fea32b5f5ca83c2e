"""The tables and shapes of the API that are pure functions."""

from __future__ import annotations

from openpai.api.shapes.exits import diagnostics, exit_messages, exit_spec
from openpai.identity.passwords import hash_password, is_password
from openpai.lifecycle.diagnosis import diagnose
from openpai.lifecycle.model import JOB_FINAL, TASK_FINAL, ExitReason, ExitReport, JobPhase, TaskPhase, Verdict
from openpai.lifecycle.outcomes import stopped
from openpai.lifecycle.states import JOB_STATES, TASK_STATES, VERDICT_STATES, phases_of


def test_every_phase_has_a_state_and_final_ones_are_completed() -> None:
    assert JOB_STATES.keys() == set(JobPhase)
    assert TASK_STATES.keys() == set(TaskPhase)
    assert VERDICT_STATES.keys() == set(Verdict)
    assert {phase for phase, state in JOB_STATES.items() if state.sub_state == "Completed"} == JOB_FINAL
    assert {phase for phase, state in TASK_STATES.items() if state.sub_state == "Completed"} == TASK_FINAL


def test_asking_for_a_state_finds_exactly_the_phases_shown_as_it() -> None:
    for state in {state.state for state in JOB_STATES.values()}:
        assert set(phases_of([state])) == {phase for phase, shown in JOB_STATES.items() if shown.state == state}
    assert phases_of(["UNKNOWN"]) == ()
    assert phases_of(()) == ()


def test_a_failure_of_the_task_is_the_runtimes_and_one_of_the_platform_the_launchers() -> None:
    own = ExitReport(1)
    diagnosis = diagnose(own, "ModuleNotFoundError: No module named 'torch'")
    message = exit_messages(1, "", diagnosis, own)
    assert message["runtime"]["originUserExitCode"] == 1
    assert message["runtime"]["exitCode"] == diagnosis.code
    assert "torch" in message["runtime"]["errorLogs"]["user"]
    assert message["launcher"] is None
    missing = ExitReport(254, ExitReason.IMAGE_MISSING, "no such image: pithon")
    message = exit_messages(254, "", diagnose(missing), missing)
    assert message == {"container": None, "runtime": None, "launcher": "no such image: pithon"}


def test_an_exit_spec_is_the_diagnosed_row_and_an_unlisted_code_keeps_its_number() -> None:
    report = ExitReport(1)
    diagnosis = diagnose(report, "RuntimeError: CUDA out of memory.")
    spec = exit_spec(1, diagnosis)
    assert (spec["code"], spec["type"], spec["reaction"]) == (226, "USER_FAILURE", "NEVER_RETRY")
    assert spec.keys() == {
        *("code", "phrase", "issuer", "causer", "type", "stage"),
        *("behavior", "reaction", "reason", "repro", "solution"),
    }
    assert exit_spec(77, None)["code"] == 77
    text = diagnostics("1 task failed", diagnosis)
    assert text.startswith("1 task failed\n")
    assert "CUDA out of memory" in text


def test_a_text_of_an_exit_has_no_sentence_twice() -> None:
    by_user = stopped("ann stopped the job: it was wrong")
    text = diagnostics(by_user.message, by_user.diagnosis)
    assert text.count("ann stopped the job: it was wrong") == 1
    evicted = ExitReport(137, ExitReason.EVICTED, "The node was low on resource: memory.")
    text = diagnostics(evicted.message, diagnose(evicted))
    assert text.count(evicted.message) == 1
    assert text.startswith(evicted.message)
    failed = diagnostics("1 task failed", diagnose(ExitReport(1), "RuntimeError: CUDA out of memory."))
    assert failed.splitlines()[:3:2] == ["1 task failed", "log: RuntimeError: CUDA out of memory."]


def test_a_password_is_only_right_when_it_is() -> None:
    kept = hash_password("correct horse")
    assert "correct" not in kept
    assert kept.startswith("$argon2id$")
    assert is_password("correct horse", kept)
    assert not is_password("Correct horse", kept)
    assert not is_password("nobody has this password", None)
    assert hash_password("correct horse") != kept
