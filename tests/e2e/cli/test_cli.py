"""The command against a running platform: what a person and a script rely on."""

from __future__ import annotations

import json
import signal
import threading

import pytest

from tests.e2e.server import WITHIN_S

FOREVER = "echo begun; while :; do sleep 0.1; done"


def states(pai, job: str) -> str:
    return pai("job", "show", job, "--json").json()["jobStatus"]["state"]


def wait_for_line(process, expected: str) -> list[str]:
    """Return the lines up to one that holds `expected`; the process is killed when it never comes."""
    watchdog = threading.Timer(WITHIN_S, process.kill)
    watchdog.start()
    lines = []
    for line in process.stdout:
        lines.append(line)
        if expected in line:
            break
    watchdog.cancel()
    assert lines, process.stderr.read()
    assert expected in lines[-1], lines
    return lines


def test_logging_in_needs_the_right_password_and_out_means_out(stranger, password, tmp_path):
    assert stranger("job", "list").code == 4
    assert stranger("login", "--user", "admin", "--password-stdin", stdin="wrong-password").code == 4
    message = stranger("login", "--user", "admin", "--password-stdin", "--json", stdin=password)
    assert message.code == 0
    assert message.json()["admin"] is True
    file = tmp_path / "openpai" / "credentials.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert password not in file.read_text()
    token = next(iter(json.loads(file.read_text())["servers"].values()))["token"]
    assert stranger("job", "list").code == 0
    assert stranger("logout").code == 0
    stranger.environment = {**stranger.environment, "PAI_TOKEN": token}
    assert stranger("job", "list").code == 4


def test_a_token_in_the_environment_or_on_standard_input_is_enough(pai, stranger, password):
    token = pai("token", "create", "--scope", "read").out.strip()
    known = stranger.environment
    stranger.environment = {**known, "PAI_TOKEN": token}
    assert stranger("job", "list", "--json").code == 0
    stranger.environment = known
    message = stranger("login", "--token-stdin", "--json", stdin=token + "\n")
    assert message.json()["user"] == "admin", message.err
    assert token not in message.out
    assert stranger("job", "list").code == 0
    assert stranger("login", "--token-stdin", stdin="no-such-token\n").code == 4
    assert stranger("login", "--user", "admin", "--password-stdin", stdin=password).code == 0


def test_every_fault_of_a_file_is_reported_offline_and_by_the_server(pai, tmp_path):
    file = tmp_path / "bad.yaml"
    file.write_text(
        "protocolVersion: 2\nname: a b\ntype: job\ntaskRoles:\n  w:\n    instanses: 2\n    dockerImage: x\n"
    )
    for command in ("check", "submit"):
        message = pai("job", command, str(file))
        assert message.code == 2
        assert message.out == ""
        assert "did you mean 'instances'?" in message.err
        assert "    2 | name: a b" in message.err
        assert pai("job", command, str(file), "--json").json()["code"] == "InvalidProtocolError"


def test_a_file_from_a_pipe_can_be_submitted(pai, job_file):
    with open(job_file("piped", "true")) as file:  # noqa: PTH123
        assert pai("job", "submit", "-", "--watch", stdin=file.read()).code == 0


def test_a_name_is_taken_once_and_the_error_says_what_to_do(pai, job_file):
    file = job_file("twice", "true")
    assert pai("job", "submit", file).code == 0
    message = pai("job", "submit", file)
    assert message.code == 5
    assert "--name" in message.err
    assert pai("job", "submit", file, "--name", "twice-2").code == 0


def test_no_server_is_unavailable(stranger):
    stranger.environment = {**stranger.environment, "PAI_TOKEN": "t"}
    message = stranger("--url", "http://127.0.0.1:1", "job", "list")
    assert message.code == 6
    assert "Traceback" not in message.err


def test_a_stopped_job_can_be_started_again(pai, job_file):
    file = job_file("stoppable", 'if [ "$PAI_JOB_ATTEMPT_ID" = 0 ]; then ' + FOREVER + "; fi", "echo again")
    assert pai("job", "submit", file).code == 0
    following = pai.begin("job", "logs", "stoppable", "-f")
    wait_for_line(following, "begun")
    assert pai("job", "stop", "stoppable").code == 0
    assert pai("job", "wait", "stoppable").code == 1
    assert following.wait(WITHIN_S) == 0
    assert states(pai, "stoppable") == "STOPPED"
    assert pai("job", "start", "stoppable").code == 0
    assert pai("job", "wait", "stoppable").code == 0
    assert pai("job", "logs", "stoppable").out == "again\n"
    assert pai("job", "logs", "stoppable", "--job-attempt", "1").out.startswith("begun\n")


def test_ctrl_c_ends_the_view_and_not_the_job(pai, job_file):
    watching = pai.begin("job", "submit", job_file("long", FOREVER), "--watch")
    wait_for_line(watching, "worker-0 | begun")
    watching.send_signal(signal.SIGINT)
    rest = watching.stdout.read()
    assert watching.wait(WITHIN_S) == 130
    assert "keeps running" in rest
    assert states(pai, "long") == "RUNNING"
    pai("job", "stop", "long")
    assert pai("job", "wait", "long").code == 1


def test_waiting_gives_up_in_time_and_a_waiting_job_says_why(pai, job_file, server):
    cpus = pai("node", "list", "--json").json()[0]["cpus"]["total"]
    role = {"resourcePerInstance": {"cpu": cpus, "memoryMB": 64, "gpu": 0}, "instances": 4}
    assert pai("job", "submit", job_file("hog", FOREVER, role=role)).code == 0
    assert pai("job", "submit", job_file("behind", "true", role=role)).code == 0
    assert pai("job", "wait", "behind", "--timeout", "0.2").code == 6
    message = pai("job", "why", "behind")
    assert message.code == 0
    assert "CPU" in message.out
    assert pai("job", "why", "behind", "--json").json()["waits"][0]["code"]
    pai("job", "stop", "hog")
    assert pai("job", "wait", "behind").code == 0


def test_a_reader_who_leaves_early_is_no_error(pai, job_file):
    assert pai("job", "submit", job_file("chatty", "seq 200000"), "--watch").code == 0
    reading = pai.begin("job", "logs", "chatty")
    assert reading.stdout.readline() == "1\n"
    reading.stdout.close()
    assert reading.wait(WITHIN_S) == 0
    assert "Traceback" not in reading.stderr.read()


@pytest.mark.slow
def test_following_survives_a_killed_server_without_losing_a_line(new_server, new_pai, job_file):
    numbers = "i=0; while [ $i -lt 60 ]; do echo line $i; i=$((i + 1)); sleep 0.1; done"
    assert new_pai("job", "submit", job_file("counting", numbers)).code == 0
    following = new_pai.begin("job", "logs", "counting", "-f")
    lines = wait_for_line(following, "line 10")
    new_server.end(signal.SIGKILL)
    again = new_server.again()
    try:
        lines += following.stdout.readlines()
        assert following.wait(WITHIN_S) == 0, following.stderr.read()
        assert lines == [f"line {number}\n" for number in range(60)]
        assert new_pai("job", "wait", "counting").code == 0
    finally:
        again.end()
