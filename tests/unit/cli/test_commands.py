"""What commands print for people and for programs, and the codes they end with."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest


def detail(state: str, **status):
    return {
        "name": "hello",
        "jobStatus": {"username": "ann", "state": state, "attemptId": 0, "submissionTime": 1000, **status},
        "taskRoles": {
            "ps": {"taskStatuses": [{"taskIndex": 0, "taskState": state, "attemptId": 0, "launchedTime": 1500}]},
            "w": {"taskStatuses": [{"taskIndex": 0, "taskState": state, "attemptId": 2, "launchedTime": 1500}]},
        },
    }


FAILED = detail(
    "FAILED", appExitCode=7, appExitTriggerTaskRoleName="w", appExitTriggerTaskIndex=0, appExitDiagnostics="no [disk]"
)
LOGS = "/jobs/ann~hello/attempts/0/taskRoles/{}/taskIndex/0/attempts/{}/logs"


def has_log(platform, role, attempt, text):
    uri = f"/api/v2{LOGS.format(role, attempt)}/all"
    platform.on("GET", LOGS.format(role, attempt), {"locations": [{"name": "all", "uri": uri}]})
    platform.on("GET", f"{LOGS.format(role, attempt)}/all", text)


@pytest.fixture
def job_file(tmp_path):
    path = tmp_path / "hello.yaml"
    path.write_text("name: hello\nparameters:\n  n: 1\n")
    return str(path)


def test_show_tells_why_an_attempt_failed_that_is_tried_again(pai, platform):
    again = detail("WAITING", appExitDiagnostics="storage data: there is no directory /srv")
    platform.on("GET", "/jobs/ann~hello", again, detail("WAITING"))
    platform.on("GET", "/jobs/ann~hello/why", {"waits": []})
    assert "there is no directory /srv" in pai("job", "show", "hello").out
    assert "Why:" not in pai("job", "show", "hello").out


def test_submit_tells_the_next_step(pai, platform, job_file):
    platform.on("POST", "/jobs", {"user": "ann", "name": "hello", "warnings": ["odd"]}, status=202)
    told = pai("job", "submit", job_file)
    assert told.code == 0
    assert "Submitted ann~hello" in told.out
    assert "pai job logs hello -f" in told.out
    assert "odd" in told.err


def test_submit_changes_name_and_parameters_on_the_way(pai, platform, job_file):
    platform.on("POST", "/jobs", {"user": "ann", "name": "other"}, status=202)
    assert pai("job", "submit", job_file, "--name", "other", "--set", "n=5").code == 0
    assert platform.requests[0].content.decode() == 'name: "other"\nparameters:\n  n: 5\n'


def test_submit_shows_the_faulty_lines(pai, platform, job_file):
    fault = {"path": "parameters.n", "line": 3, "message": "is odd"}
    platform.on("POST", "/jobs", {"code": "InvalidProtocolError", "message": "...", "faults": [fault]}, status=400)
    told = pai("job", "submit", job_file)
    assert told.code == 2
    assert "    3 |   n: 1" in told.err
    assert told.out == ""


@pytest.mark.parametrize(("state", "code"), [("SUCCEEDED", 0), ("FAILED", 1), ("STOPPED", 1)])
def test_wait_ends_with_what_became_of_the_job(pai, platform, state, code):
    platform.on("GET", "/jobs/ann~hello", detail("RUNNING"), detail(state))
    assert pai("job", "wait", "hello").code == code


def test_watch_without_a_terminal_prints_each_change_and_the_log(pai, platform, job_file, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: None)
    log = 'event: log\ndata: {"stream": "stdout", "offset": 0, "text": "step 1\\nstep 2"}\n\nevent: end\ndata: {}\n\n'
    platform.on("POST", "/jobs", {"user": "ann", "name": "hello"}, status=202)
    waiting = detail("WAITING") | {"taskRoles": {}}
    platform.on("GET", "/jobs/ann~hello", waiting, waiting, detail("RUNNING"), detail("SUCCEEDED", appExitCode=0))
    platform.on("GET", "/jobs/ann~hello/why", {"waits": [{"code": "NO_ROOM", "told": "all is [full]"}]})
    has_log(platform, "ps", 0, log)
    told = pai("job", "submit", job_file, "--watch")
    assert told.code == 0
    lines = told.out.splitlines()
    for expected in ("hello WAITING", "waits: all is [full]", "ps-0 RUNNING", "ps-0 | step 1", "ps-0 | step 2"):
        assert [line for line in lines if expected in line], expected
    assert told.out.index("step 2") < told.out.index("hello SUCCEEDED")


def test_ctrl_c_leaves_the_job_running_and_says_so(pai, platform, job_file, monkeypatch):
    def press(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", press)
    platform.on("POST", "/jobs", {"user": "ann", "name": "hello"}, status=202)
    platform.on("GET", "/jobs/ann~hello", detail("WAITING") | {"taskRoles": {}})
    platform.on("GET", "/jobs/ann~hello/why", {"waits": []})
    told = pai("job", "submit", job_file, "--watch")
    assert told.code == 130
    assert "goes on running" in told.out
    assert ("PUT", "/api/v2/jobs/ann~hello/executionType") not in platform.asked


def test_an_empty_list_says_what_to_do_next(pai, platform):
    platform.on("GET", "/jobs", {"totalCount": 0, "data": []})
    assert "pai job submit" in pai("job", "list").out


def test_a_list_fits_eighty_columns_and_loses_no_name(pai, platform):
    job = {"username": "ann", "name": "n" * 60, "state": "SUCCEEDED", "submissionTime": 1, "launchedTime": 1}
    platform.on(
        "GET", "/jobs", {"totalCount": 9, "data": [{**job, "virtualCluster": "v" * 20, "completedTime": 10**9}]}
    )
    told = pai("job", "list")
    rows = told.out.splitlines()[:-1]
    assert max(map(len, rows)) <= 80
    first_column = "".join(row.split()[0] for row in rows[1:-1] if row.startswith("n"))
    assert first_column == "n" * 60
    assert "1 of 9 jobs" in told.out
    assert platform.requests[0].url.params["username"] == "ann"


def test_all_lists_the_jobs_of_everybody(pai, platform):
    platform.on("GET", "/jobs", {"totalCount": 1, "data": [{"username": "bob", "name": "x", "state": "RUNNING"}]})
    assert "bob~x" in pai("job", "list", "--all").out
    assert "username" not in platform.requests[0].url.params


def test_show_says_why_a_job_failed(pai, platform):
    platform.on("GET", "/jobs/ann~hello", FAILED)
    told = pai("job", "show", "hello")
    assert told.code == 0
    assert "task w-0: no [disk]" in told.out


def test_show_says_why_a_job_waits(pai, platform):
    wait = {"code": "NO_ROOM", "told": "needs 8 GPUs", "unblock": "any GPU", "ahead": ["bob~x"], "position": 2}
    platform.on("GET", "/jobs/ann~hello", detail("WAITING"))
    platform.on("GET", "/jobs/ann~hello/why", {"waits": [wait]})
    told = pai("job", "show", "hello")
    for expected in ("needs 8 GPUs", "any GPU", "bob~x", "2"):
        assert expected in told.out


def test_logs_of_a_failed_job_are_those_of_the_task_it_failed_by(pai, platform):
    platform.on("GET", "/jobs/ann~hello", FAILED)
    has_log(platform, "w", 2, "a\nb\nc\n")
    assert pai("job", "logs", "hello", "--tail", "2").out == "b\nc\n"


def test_logs_of_a_task_that_is_not_there_are_not_found(pai, platform):
    platform.on("GET", "/jobs/ann~hello", FAILED)
    told = pai("job", "logs", "hello", "--role", "nobody")
    assert told.code == 3
    assert "ps (1 task), w (1 task)" in told.err
    assert "no task number 9\n" in pai("job", "logs", "hello", "--index", "9").err


def test_following_ends_with_the_job_and_goes_over_attempts(pai, platform, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: None)
    log = 'event: log\ndata: {{"stream": "stdout", "offset": 0, "text": "{}\\n"}}\n\nevent: end\ndata: {{}}\n\n'
    again = detail("RUNNING")
    again["taskRoles"]["ps"]["taskStatuses"][0]["attemptId"] = 1
    over = detail("SUCCEEDED")
    over["taskRoles"]["ps"]["taskStatuses"][0]["attemptId"] = 1
    platform.on("GET", "/jobs/ann~hello", detail("RUNNING"), again, over)
    has_log(platform, "ps", 0, log.format("first"))
    has_log(platform, "ps", 1, log.format("second"))
    told = pai("job", "logs", "hello", "-f", "--role", "ps")
    assert (told.code, told.out) == (0, "first\nsecond\n")
    assert "attempt 1" in told.err


@pytest.mark.parametrize(
    "command",
    [
        ["job", "show", "hello"],
        ["job", "list"],
        ["job", "events", "hello"],
        ["job", "why", "hello"],
        ["job", "config", "hello"],
        ["job", "logs", "hello"],
        ["job", "stop", "hello"],
        ["job", "start", "hello"],
        ["job", "wait", "hello"],
        ["node", "list"],
    ],
)
def test_json_is_one_document_and_nothing_else(pai, platform, command):
    platform.on("GET", "/jobs", {"totalCount": 0, "data": []})
    platform.on("GET", "/jobs/ann~hello", detail("SUCCEEDED"))
    platform.on("GET", "/jobs/ann~hello/events", {"totalCount": 0, "data": []})
    platform.on("GET", "/jobs/ann~hello/why", {"waits": []})
    platform.on("GET", "/jobs/ann~hello/config", "name: hello\n")
    platform.on("PUT", "/jobs/ann~hello/executionType", {}, status=202)
    platform.on("GET", "/nodes", [])
    has_log(platform, "ps", 0, "text")
    told = pai(*command, "--json")
    assert told.code == 0
    assert told.json() is not None


@pytest.mark.parametrize("command", ["show", "logs", "events", "why", "stop", "start", "config", "wait"])
def test_a_job_that_is_not_there_is_told_in_both_voices(pai, platform, command):
    told = pai("job", command, "nobody", "--json")
    assert told.code == 3
    assert told.json()["code"] == "NoJobError"
    assert "nothing at" in told.err


def test_wrong_use_is_told_with_where_help_is(pai):
    told = pai("job", "submit", "--json")
    assert told.code == 2
    assert told.json()["code"] == "InvalidParametersError"
    assert "pai job submit --help" in told.err


def test_nobody_logged_in_is_told_how_to(pai, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("PAI_TOKEN", raising=False)
    told = pai("--url", "http://pai.test", "job", "list")
    assert told.code == 4
    assert "pai login --url http://pai.test" in told.err


def test_a_token_that_is_no_longer_good_is_told_how_to_get_another(pai, platform, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("PAI_TOKEN", raising=False)
    advice = "log in and send `Authorization: Bearer TOKEN`"
    body = {"code": "UnauthorizedUserError", "message": "this token has expired", "advice": advice}
    platform.on("GET", "/nodes", body, status=401)
    told = pai("--url", "http://pai.test", "node", "list")
    assert (told.code, told.err) == (4, "this token has expired\npai login --url http://pai.test\n")
    monkeypatch.setenv("PAI_TOKEN", "old")
    assert "PAI_TOKEN" in pai("node", "list", "--json").json()["advice"]


@pytest.mark.parametrize(
    ("arguments", "near"), [(("usr", "list"), "user"), (("user", "ls"), "list"), (("job", "lgos", "x"), "logs")]
)
def test_a_misspelt_command_is_told_the_nearest(pai, arguments, near):
    told = pai(*arguments)
    assert told.code == 2
    assert f"Did you mean {near}" in told.err


def test_what_others_wrote_is_printed_as_they_wrote_it(pai, platform):
    platform.on("PUT", "/jobs/ann~hello/tag", {})
    told = pai("job", "tag", "[/x] [bold]:smile:", "hello")
    assert (told.code, told.out.splitlines()[0]) == (0, "hello: tagged [/x] [bold]:smile:.")


def test_in_a_pipe_each_row_is_one_line_however_long(pai, platform, monkeypatch):
    monkeypatch.delenv("COLUMNS")
    name = "a-long-name" * 12
    job = {"name": name, "username": "ann", "state": "RUNNING", "virtualCluster": "[/] :x: v" * 9}
    platform.on("GET", "/jobs", {"totalCount": 2, "data": [job, job | {"name": "b"}]})
    heading, first, second = pai("job", "list").out.splitlines()[:3]
    assert first.startswith(f"{name}  RUNNING")
    assert first.endswith(job["virtualCluster"])
    assert second.index("RUNNING") == heading.index("STATE") == len(name) + 2


def test_a_narrow_terminal_loses_no_column(pai, platform, monkeypatch):
    platform.on("GET", "/jobs", {"totalCount": 1, "data": [{"name": "hello", "username": "ann", "state": "RUNNING"}]})
    wide = pai("job", "list").out
    monkeypatch.setenv("COLUMNS", "30")
    assert pai("job", "list").out == wide


def test_five_thousand_jobs_are_listed_before_anybody_gets_bored(pai, platform, monkeypatch):
    monkeypatch.delenv("COLUMNS")
    jobs = [{"name": f"job-{number}", "username": "ann", "state": "RUNNING"} for number in range(5000)]
    platform.on("GET", "/jobs", {"totalCount": 5000, "data": jobs})
    begun = time.process_time()
    told = pai("job", "list", "--limit", "5000")
    assert len(told.out.splitlines()) == 5002
    assert time.process_time() - begun < 2


@pytest.mark.parametrize("command", [["vc", "list"], ["vc", "list", "--json"]])
def test_a_terminal_that_knows_only_ascii_is_told_all_the_same(command, tmp_path):
    total, used = ({"cpu": cpu, "memory": 0, "gpu": 0, "GPUs": 0, "CPUs": cpu} for cpu in (8, 4))
    answer = {"ünï": {"resourcesTotal": total, "resourcesGuaranteed": total, "resourcesUsed": used, "skus": {}}}
    program = (
        "import sys, httpx, json; sys.argv = ['pai', *sys.argv[2:]]\n"
        "from openpai.cli import main, session; from openpai.client import Client\n"
        f"answer = httpx.MockTransport(lambda request: httpx.Response(200, json={answer!r}))\n"
        "session.connect = lambda: Client('http://pai.test', 't', user='ann', transport=answer)\n"
        "main.run()"
    )
    told = subprocess.run(
        [sys.executable, "-c", program, "--", *command],
        env={"PATH": "", "PYTHONIOENCODING": "ascii", "HOME": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    if "--json" in command:
        assert list(json.loads(told.stdout)) == ["ünï"]
    else:
        assert told.stdout.splitlines()[1].split()[0] == b"?n?"


@pytest.mark.parametrize(
    "command",
    [
        "vc remove vision",
        "token revoke --logins",
        "token revoke --programs",
        "user remove bob",
        "user revoke bob",
        "group remove vision",
        "storage remove data",
        "storage rm data x -r",
        "quota remove",
        "job delete hello",
        "job stop --where state=RUNNING",
    ],
)
def test_what_cannot_be_undone_is_asked_about_unless_one_says_yes(pai, platform, monkeypatch, command):
    asked = []

    def refuse(question, yes, **_):
        asked.append(yes)
        raise KeyboardInterrupt

    monkeypatch.setattr("openpai.cli.prompts.check_sure", refuse)
    platform.on("GET", "/jobs", {"totalCount": 3, "data": []})
    assert pai(*command.split()).code == 130
    assert asked == [False]
    assert {method for method, _ in platform.asked} <= {"GET"}
    assert "--yes" in pai(*command.split()[:2], "--help").out


def test_a_no_changes_nothing_and_says_so(pai, platform, monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda question, **_: False)
    told = pai("user", "remove", "bob")
    assert (told.code, platform.asked) == (2, [])
    assert "nothing was done" in told.out + told.err


@pytest.mark.parametrize("command", ["user set bob", "group set vision", "quota set --user bob", "report --from today"])
def test_a_change_of_nothing_and_a_day_that_is_none_are_refused(pai, platform, command):
    assert pai(*command.split()).code == 2
    assert platform.asked == []


def test_bytes_that_are_no_text_are_refused(pai, platform):
    told = pai("job", "tag", "\udcff", "hello")
    assert told.code == 2
    assert "is no text" in told.err


def test_an_answer_that_makes_no_sense_is_no_traceback(pai, platform):
    platform.on("GET", "/nodes", {"not": "a list"})
    told = pai("node", "list")
    assert told.code == 70
    assert "Traceback" not in told.err
    assert "GET /api/v2/nodes" in told.err


def test_a_bug_of_ours_is_no_traceback(pai, platform, monkeypatch):
    def broken():
        raise ZeroDivisionError

    monkeypatch.setattr("openpai.cli.session.connect", broken)
    told = pai("node", "list")
    assert told.code == 70
    assert "Traceback" not in told.err
    assert "PAI_DEBUG=1" in told.err


def test_nodes_say_what_is_free_and_what_is_wrong(pai, platform):
    amounts = {"cpus": {"total": 8, "used": 2}, "memoryMB": {"total": 4096, "used": 0}, "gpus": {"total": 4, "used": 1}}
    sick = {"name": "n2", "address": "10.0.0.2", "healthy": False, "told": "no heartbeat", **amounts}
    platform.on("GET", "/nodes", [{"name": "n1", "address": "10.0.0.1", "healthy": True, **amounts}, sick])
    told = pai("node", "list")
    for expected in ("2/8", "1/4", "no heartbeat", "free: 6 CPUs, 3 GPUs"):
        assert expected in told.out


def test_help_tells_the_exit_codes(pai):
    assert "the name is taken" in pai("--help").out


def test_the_command_line_loads_no_http_library_before_it_needs_one():
    late = ("httpx", "yaml", "rich.live", "fastapi")
    program = f"import sys, openpai.cli.main; print([name for name in {late} if name in sys.modules])"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
