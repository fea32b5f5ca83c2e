"""The exit-code table is whole, and the log rules lead to its rows and nowhere else."""

from __future__ import annotations

from collections import Counter

import pytest

from openpai.protocol.exit_codes import EXIT_SPECS, spec_for

OWN_ROWS = {236, 237, 238, 239, 240, 241, 242, 245, 246, -240, -1206}
"""Codes that OpenPAI does not have."""


def test_the_table_has_every_row() -> None:
    of_openpai = [spec for code, spec in EXIT_SPECS.items() if code not in OWN_ROWS]
    behaviors = Counter(spec.behavior for spec in of_openpai)
    assert behaviors == {"PERMANENT": 31, "TRANSIENT": 19, "UNKNOWN": 11, "TRANSIENT_CONFLICT": 1}
    assert len(of_openpai) == 62
    assert len({spec.phrase for spec in EXIT_SPECS.values()}) == len(EXIT_SPECS) == 62 + len(OWN_ROWS)


def test_rows_speak_the_fields_words() -> None:
    for code, spec in EXIT_SPECS.items():
        assert spec.code == code
        assert spec.type in {
            "USER_SUCCESS",
            "USER_STOP",
            "USER_FAILURE",
            "PLATFORM_FAILURE",
            "RESOURCE_ALLOCATION_TIMEOUT",
            "UNKNOWN_FAILURE",
        }
        assert spec.stage in {"SUBMISSION", "ALLOCATION", "LAUNCHING", "RUNNING", "COMPLETING", "UNKNOWN"}
        assert spec.reason.endswith(".")
        assert all(line.endswith(".") for line in (spec.repro, *spec.solution))
        assert spec.solution or spec.type in {"USER_SUCCESS", "USER_STOP"}


@pytest.mark.parametrize(
    ("code", "phrase", "behavior", "reaction"),
    [
        (0, "Succeeded", "UNKNOWN", "NEVER_RETRY"),
        (-210, "StopFrameworkRequested", "PERMANENT", "NEVER_RETRY"),
        (-1200, "UserContainerDockerOOMKilled", "PERMANENT", "NEVER_RETRY"),
        (137, "ContainerSigKillReceived", "TRANSIENT", "ALWAYS_RETRY"),
        (251, "JobGangAllocationTimeout", "TRANSIENT_CONFLICT", "ALWAYS_BACKOFF_RETRY"),
        (255, "PAIRuntimeUnknownFailed", "UNKNOWN", "RETRY_TO_MAX"),
    ],
)
def test_well_known_rows(code: int, phrase: str, behavior: str, reaction: str) -> None:
    spec = spec_for(code)
    assert (spec.phrase, spec.behavior, spec.reaction) == (phrase, behavior, reaction)


@pytest.mark.parametrize(
    ("code", "phrase"), [(1, "PAIRuntimeExitAbnormally"), (-7, "ContainerUndefinedNegativeExitCode")]
)
def test_an_unlisted_code_keeps_its_number(code: int, phrase: str) -> None:
    assert (spec_for(code).code, spec_for(code).phrase) == (code, phrase)


def test_only_exits_that_are_retried_without_asking_advise_to_wait() -> None:
    message = {
        code for code, spec in EXIT_SPECS.items() if any("tries again by itself" in line for line in spec.solution)
    }
    assert message <= {code for code, spec in EXIT_SPECS.items() if spec.behavior.startswith("TRANSIENT")}
