"""Every example does on a real platform what its first comment promises."""

from __future__ import annotations

from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
FILES = sorted(EXAMPLES.glob("*.yaml"))


def run(pai, file: str, *options: str):
    return pai("job", "submit", f"examples/{file}.yaml", "--watch", *options)


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_each_example_is_a_good_file_and_says_what_it_shows(pai, file):
    message = pai("job", "check", str(file), "--json")
    assert (message.code, message.json()["faults"]) == (0, [])
    assert file.read_text().startswith("# ")


def test_hello(pai):
    message = run(pai, "01-hello")
    assert message.code == 0
    assert "greeter-0 | Hello, admin! This is task 0 of job admin~hello." in message.out


def test_parameters_can_be_changed_from_outside(pai):
    message = run(pai, "02-parameters", "--name", "parameters-2", "--set", "number=9", "--set", "lr=0.01")
    assert message.code == 0
    assert "number=9 lr=0.01" in message.out
    assert "root=3.0" in message.out


def test_secrets_reach_only_the_task(pai, server):
    message = run(pai, "03-secrets")
    assert "has 16 characters and begins with 'tell'" in message.out
    for command in (("config", "secrets"), ("show", "secrets", "--json"), ("events", "secrets", "--json")):
        assert "nobody-1234" not in pai("job", *command).out
    kept = b"".join(path.read_bytes() for path in (server.data_dir / "data").glob("*.db*"))
    assert b"admin~secrets" in kept or b"secrets" in kept
    assert b"nobody-1234" not in kept


def test_retry_keeps_the_log_of_each_attempt(pai):
    assert run(pai, "05-retry").code == 0
    assert "the network hiccuped" in pai("job", "logs", "retry", "--attempt", "1").out
    assert pai("job", "logs", "retry").out == "attempt 1\nthis time it worked\n"


def test_completion_policy_ends_the_service_with_the_workers(pai):
    assert run(pai, "06-completion-policy").code == 0
    roles = pai("job", "show", "completion-policy", "--json").json()["taskRoles"]
    assert roles["service"]["taskStatuses"][0]["taskState"] == "STOPPED"
    assert [task["taskState"] for task in roles["worker"]["taskStatuses"]] == ["SUCCEEDED", "SUCCEEDED"]
    assert "hears: all is well" in pai("job", "logs", "completion-policy", "--role", "worker").out


def test_a_failing_job_is_diagnosed_and_not_tried_in_vain(pai):
    message = run(pai, "07-failing-job")
    assert message.code == 1
    shown = pai("job", "show", "failing-job")
    assert "ContainerImportError" in shown.out
    assert "a_package_nobody_installed" in shown.out
    assert pai("job", "show", "failing-job", "--json").json()["jobStatus"]["retries"] == 0


def test_fan_out_runs_every_task(pai):
    message = run(pai, "08-fan-out")
    assert message.code == 0, message.out
    assert "120/120 tasks done: 120 SUCCEEDED" in message.out
    assert pai("job", "logs", "fan-out", "--index", "119").out == "primes from 11900 to 11999: 13\n"


def test_training_that_nothing_disturbs_ends_with_its_result(pai):
    # tests/e2e/test_resume.py preempts it.
    message = run(pai, "11-resume", "--set", "seconds=0")
    assert message.code == 0
    assert "result: weight 2.99" in message.out
