"""What commands about jobs and nodes print for people and for programs, and the codes they end with."""

from __future__ import annotations

import json
import re
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


def test_show_says_why_an_attempt_failed_that_is_tried_again(pai, platform):
    again = detail("WAITING", appExitDiagnostics="storage data: there is no directory /srv")
    platform.on("GET", "/jobs/ann~hello", again, detail("WAITING"))
    platform.on("GET", "/jobs/ann~hello/why", {"waits": []})
    assert "there is no directory /srv" in pai("job", "show", "hello").out
    assert "Why:" not in pai("job", "show", "hello").out


def test_show_names_the_first_of_several_failures_and_the_cause_of_each(pai, platform):
    def task(index, ended_at_ms, quoted):
        cause = {"name": "unknown", "summary": "The program ended.", "line": quoted, "advice": ["Mend [it]."]}
        spec = {"phrase": "ContainerUncaughtException"}
        state = {"taskState": "FAILED", "containerExitCode": 1, "containerExitSpec": spec, "containerExitCause": cause}
        return {"taskIndex": index, "attemptId": 0, "completedTime": ended_at_ms, **state}

    failed = detail("FAILED", appExitTriggerTaskRoleName="w", appExitTriggerTaskIndex=0, appExitDiagnostics="advice: x")
    tasks = [task(0, 9000, "A: 1"), task(1, 3000, "KeyError: 'lr'"), *(task(n, 4000 + n, "A: 1") for n in range(2, 9))]
    failed["taskRoles"] = {"w": {"taskStatuses": tasks}}
    platform.on("GET", "/jobs/ann~hello", failed)
    message = pai("job", "show", "hello").out
    assert "9 tasks failed, w-1 first" in message
    assert "log: KeyError: 'lr'" in message
    assert "w-2, w-3, w-4, w-5, w-6 and 3 more: ContainerUncaughtException" in message
    assert message.count("advice: Mend [it].") == 1


def test_show_names_the_user_who_stopped_a_job_and_the_tasks_that_others_ended(pai, platform):
    stopped = detail("STOPPED", appExitCode=-210, appExitTriggerMessage="root stopped the job: [typo]")
    done = detail("SUCCEEDED", appExitTriggerTaskRoleName="w", appExitTriggerTaskIndex=0, appExitTriggerMessage="w did")
    done["taskRoles"]["ps"]["taskStatuses"][0]["taskState"] = "STOPPED"
    platform.on("GET", "/jobs/ann~hello", stopped, done)
    assert "Why: root stopped the job: [typo]" in pai("job", "show", "hello").out
    assert "ps-0 was ended early: w did" in pai("job", "show", "hello").out


def test_attempts_are_counted_from_one(pai, platform):
    platform.on("GET", "/jobs/ann~hello", detail("FAILED", attemptId=1, retries=1))
    platform.on("GET", "/jobs/ann~hello/attempts/0", detail("FAILED", attemptId=0, appExitDiagnostics="the first"))
    assert "the first" in pai("job", "show", "hello", "--attempt", "1").out
    beyond = pai("job", "show", "hello", "--attempt", "3")
    assert beyond.code == 3
    assert "job ann~hello has no attempt 3" in beyond.err
    assert "it has had 2 attempts so far" in beyond.err
    assert pai("job", "show", "hello", "--attempt", "0").code == 2


def test_stop_hands_on_its_reason(pai, platform):
    platform.on("PUT", "/jobs/ann~hello/executionType", {})
    platform.on("GET", "/jobs/ann~hello", detail("STOPPING"))
    assert pai("job", "stop", "hello", "--reason", "full disk").code == 0
    assert json.loads(platform.requests[0].content) == {"value": "STOP", "reason": "full disk"}


@pytest.mark.parametrize("word", ["start", "restart"])
def test_start_and_restart_hand_on_their_reason(pai, platform, word):
    platform.on("PUT", "/jobs/ann~hello/executionType", {})
    platform.on("POST", "/jobs/bulk", {"results": [{"job": "a", "status": 200}], "more": 0})
    assert pai("job", word, "hello", "--reason", "new data").code == 0
    assert json.loads(platform.requests[0].content) == {"value": word.upper(), "reason": "new data"}
    assert pai("job", word, "a", "b", "--reason", "new data").code == 0
    assert json.loads(platform.requests[1].content)["reason"] == "new data"


def test_show_counts_the_run_of_the_attempt_and_names_the_user_who_restarted_the_job(pai, platform):
    times = {"launchedTime": 2000, "appLaunchedTime": 100_000, "completedTime": 104_000, "appCompletedTime": 104_000}
    job = detail("SUCCEEDED", attemptId=3, retries=3, **times)
    job["timeLimitMinutes"] = 1.5
    job["restarts"] = [
        {"attemptId": 1, "time": 50_000, "message": "ann restarted the job"},
        {"attemptId": 3, "time": 90_000, "message": "root restarted the job: [new] data"},
    ]
    platform.on("GET", "/jobs/ann~hello", job)
    message = pai("job", "show", "hello").out
    facts = dict(re.findall(r"^(ran|time limit|attempt) {2,}(.*\S)", message, re.MULTILINE))
    assert facts["ran"] == "4.0s in this attempt"
    assert facts["time limit"] == "1m 30s, then each attempt is stopped"
    assert facts["attempt"].startswith("4 (root restarted the job: [new] data, ")
    assert "ago; 1 retried)" in " ".join(message.split())
    summary = {"name": "hello", "username": "ann", "state": "SUCCEEDED", **times}
    platform.on("GET", "/jobs", {"totalCount": 1, "data": [summary]})
    assert "4.0s" in pai("job", "list").out


def test_a_job_that_waits_again_does_not_run_though_an_earlier_attempt_did(pai, platform):
    times = {"launchedTime": 2000, "appLaunchedTime": 100_000, "completedTime": None, "appCompletedTime": None}
    platform.on("GET", "/jobs/ann~hello", detail("WAITING", attemptId=1, retries=1, **times))
    platform.on("GET", "/jobs/ann~hello/why", {"waits": []})
    assert re.search(r"^ran +- *$", pai("job", "show", "hello").out, re.MULTILINE)
    summary = {"name": "hello", "username": "ann", "state": "WAITING", **times}
    platform.on("GET", "/jobs", {"totalCount": 1, "data": [summary]})
    assert re.search(r"WAITING .*ago +- ", pai("job", "list").out)


def test_a_name_like_an_option_stands_behind_two_dashes_in_the_next_commands(pai, platform, job_file):
    platform.on("POST", "/jobs", {"user": "ann", "name": "-x"}, status=202)
    message = pai("job", "submit", job_file, "--name=-x").out
    assert "pai job logs -f -- -x\n" in message
    assert "pai job show -- -x\n" in message


def test_submit_names_the_next_step(pai, platform, job_file):
    platform.on("POST", "/jobs", {"user": "ann", "name": "hello", "warnings": ["odd"]}, status=202)
    message = pai("job", "submit", job_file)
    assert message.code == 0
    assert "Submitted ann~hello" in message.out
    assert "pai job logs hello -f" in message.out
    assert "odd" in message.err


def test_submit_changes_name_and_parameters_on_the_way(pai, platform, job_file):
    platform.on("POST", "/jobs", {"user": "ann", "name": "other"}, status=202)
    assert pai("job", "submit", job_file, "--name", "other", "--set", "n=5").code == 0
    assert platform.requests[0].content.decode() == 'name: "other"\nparameters:\n  n: 5\n'


def test_submit_shows_the_faulty_lines(pai, platform, job_file):
    fault = {"path": "parameters.n", "line": 3, "message": "is odd"}
    platform.on("POST", "/jobs", {"code": "InvalidProtocolError", "message": "...", "faults": [fault]}, status=400)
    message = pai("job", "submit", job_file)
    assert message.code == 2
    assert "    3 |   n: 1" in message.err
    assert message.out == ""


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
    platform.on("GET", "/jobs/ann~hello/why", {"waits": [{"code": "NO_ROOM", "message": "all is [full]"}]})
    has_log(platform, "ps", 0, log)
    message = pai("job", "submit", job_file, "--watch")
    assert message.code == 0
    lines = message.out.splitlines()
    for expected in ("hello WAITING", "waits: all is [full]", "ps-0 RUNNING", "ps-0 | step 1", "ps-0 | step 2"):
        assert [line for line in lines if expected in line], expected
    assert message.out.index("step 2") < message.out.index("hello SUCCEEDED")


def test_ctrl_c_leaves_the_job_running_and_says_so(pai, platform, job_file, monkeypatch):
    def press(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", press)
    platform.on("POST", "/jobs", {"user": "ann", "name": "hello"}, status=202)
    platform.on("GET", "/jobs/ann~hello", detail("WAITING") | {"taskRoles": {}})
    platform.on("GET", "/jobs/ann~hello/why", {"waits": []})
    message = pai("job", "submit", job_file, "--watch")
    assert message.code == 130
    assert "keeps running" in message.out
    assert ("PUT", "/api/v2/jobs/ann~hello/executionType") not in platform.asked


def test_an_empty_list_says_what_to_do_next(pai, platform):
    platform.on("GET", "/jobs", {"totalCount": 0, "data": []})
    assert "pai job submit" in pai("job", "list").out


def test_a_list_fits_eighty_columns_and_loses_no_name(pai, platform):
    job = {"username": "ann", "name": "n" * 60, "state": "SUCCEEDED", "submissionTime": 1, "launchedTime": 1}
    platform.on(
        "GET", "/jobs", {"totalCount": 9, "data": [{**job, "virtualCluster": "v" * 20, "completedTime": 10**9}]}
    )
    message = pai("job", "list")
    rows = message.out.splitlines()[:-1]
    assert max(map(len, rows)) <= 80
    first_column = "".join(row.split()[0] for row in rows[1:-1] if row.startswith("n"))
    assert first_column == "n" * 60
    assert "1 of 9 jobs" in message.out
    assert platform.requests[0].url.params["username"] == "ann"


def test_all_lists_the_jobs_of_every_user(pai, platform):
    platform.on("GET", "/jobs", {"totalCount": 1, "data": [{"username": "bob", "name": "x", "state": "RUNNING"}]})
    assert "bob~x" in pai("job", "list", "--all").out
    assert "username" not in platform.requests[0].url.params


def test_show_says_why_a_job_failed(pai, platform):
    platform.on("GET", "/jobs/ann~hello", FAILED)
    message = pai("job", "show", "hello")
    assert message.code == 0
    assert "task w-0: no [disk]" in message.out


def test_show_says_why_a_job_waits(pai, platform):
    wait = {"code": "NO_ROOM", "message": "needs 8 GPUs", "unblock": "any GPU", "ahead": ["bob~x"], "position": 2}
    platform.on("GET", "/jobs/ann~hello", detail("WAITING"))
    platform.on("GET", "/jobs/ann~hello/why", {"waits": [wait]})
    message = pai("job", "show", "hello")
    for expected in ("needs 8 GPUs", "any GPU", "bob~x", "2"):
        assert expected in message.out


def test_logs_of_a_failed_job_are_those_of_the_task_it_failed_by(pai, platform):
    platform.on("GET", "/jobs/ann~hello", FAILED)
    has_log(platform, "w", 2, "b\nc\n")
    assert pai("job", "logs", "hello", "--tail", "2").out == "b\nc\n"
    # The server reads from the end, and sends nothing else.
    assert platform.requests[-1].url.params["tail-lines"] == "2"


def test_logs_of_a_task_that_is_not_there_are_not_found(pai, platform):
    platform.on("GET", "/jobs/ann~hello", FAILED)
    message = pai("job", "logs", "hello", "--role", "nobody")
    assert message.code == 3
    assert "ps (1 task), w (1 task)" in message.err
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
    message = pai("job", "logs", "hello", "-f", "--role", "ps")
    assert (message.code, message.out) == (0, "first\nsecond\n")
    assert "attempt 1" in message.err


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
    message = pai(*command, "--json")
    assert message.code == 0
    assert message.json() is not None


def test_nodes_say_what_is_free_and_what_is_wrong(pai, platform):
    amounts = {"cpus": {"total": 8, "used": 2}, "memoryMB": {"total": 4096, "used": 0}, "gpus": {"total": 4, "used": 1}}
    sick = {"name": "n2", "address": "10.0.0.2", "healthy": False, "message": "no heartbeat", **amounts}
    platform.on("GET", "/nodes", [{"name": "n1", "address": "10.0.0.1", "healthy": True, **amounts}, sick])
    message = pai("node", "list")
    for expected in ("2/8", "1/4", "no heartbeat", "free: 6 CPUs, 3 GPUs"):
        assert expected in message.out
