"""What all commands have in common: errors, prompts, and terminals of any kind."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
import rich

from tests.costs import assert_linear

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("command", ["show", "logs", "events", "why", "stop", "start", "config", "wait"])
def test_a_job_that_is_not_there_is_reported_as_text_and_as_json(pai, platform, command):
    message = pai("job", command, "nobody", "--json")
    assert message.code == 3
    assert message.json()["code"] == "NoJobError"
    assert "nothing at" in message.err


def test_wrong_use_is_reported_with_where_help_is(pai):
    message = pai("job", "submit", "--json")
    assert message.code == 2
    assert message.json()["code"] == "InvalidParametersError"
    assert "pai job submit --help" in message.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("job list --limit abc", "--limit must be a whole number, not 'abc'"),
        ("job list --limit 0", "--limit must be at least 1, not '0'"),
        ("job list --limit 99999999", "--limit must be at most 50000, not '99999999'"),
        ("job wait hello --timeout soon", "--timeout 'soon' is not a duration"),
        ("job show hello --attempt 0", "--attempt must be at least 1, not '0'"),
        ("job events hello --type Odd", "'Odd' is not a type of events"),
        ("node drain n --deadline soon", "--deadline 'soon' is not a duration"),
        ("quota set --gpus some", "'some' is not a number"),
    ],
)
def test_a_wrong_value_is_reported_in_plain_words(pai, line, message):
    got = pai(*line.split())
    assert got.code == 2
    assert message in got.err
    assert not re.search(r"(?i)input should|value error|pydantic|unable to parse", got.err)


def test_without_a_login_the_error_says_how_to_log_in(pai, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("PAI_TOKEN", raising=False)
    message = pai("--url", "http://pai.test", "job", "list")
    assert message.code == 4
    assert "pai login --url http://pai.test" in message.err


def test_an_expired_token_is_reported_with_how_to_get_another(pai, platform, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("PAI_TOKEN", raising=False)
    advice = "log in and send `Authorization: Bearer TOKEN`"
    body = {"code": "UnauthorizedUserError", "message": "this token has expired", "advice": advice}
    platform.on("GET", "/nodes", body, status=401)
    message = pai("--url", "http://pai.test", "node", "list")
    assert (message.code, message.err) == (4, "this token has expired\npai login --url http://pai.test\n")
    monkeypatch.setenv("PAI_TOKEN", "old")
    assert "PAI_TOKEN" in pai("node", "list", "--json").json()["advice"]


@pytest.mark.parametrize(
    ("arguments", "near"), [(("usr", "list"), "user"), (("user", "ls"), "list"), (("job", "lgos", "x"), "logs")]
)
def test_a_misspelt_command_is_answered_with_the_nearest(pai, arguments, near):
    message = pai(*arguments)
    assert message.code == 2
    assert f"Did you mean {near}" in message.err


def test_what_others_wrote_is_printed_as_they_wrote_it(pai, platform):
    platform.on("PUT", "/jobs/ann~hello/tag", {})
    message = pai("job", "tag", "[/x] [bold]:smile:", "hello")
    assert (message.code, message.out.splitlines()[0]) == (0, "hello: tagged [/x] [bold]:smile:.")


def test_in_a_pipe_each_row_is_one_line_however_long(pai, platform, monkeypatch):
    monkeypatch.delenv("COLUMNS")
    name = "a-long-name" * 12
    job = {"name": name, "username": "ann", "state": "RUNNING", "virtualCluster": "[/] :x: v" * 9}
    platform.on("GET", "/jobs", {"totalCount": 2, "data": [job, job | {"name": "b"}]})
    heading, first, second = pai("job", "list").out.splitlines()[:3]
    assert first.startswith(f"{name}  RUNNING")
    assert first.endswith(job["virtualCluster"])
    assert second.index("RUNNING") == heading.index("STATE") == len(name) + 2


def test_what_a_job_wrote_gives_no_orders_to_the_terminal(pai, platform):
    wrote = "log: \x1b]0;mine\x07 \x1b[2J gone"
    status = {"state": "FAILED", "appExitCode": 1, "appExitDiagnostics": wrote}
    platform.on("GET", "/jobs/ann~hello", {"name": "hello", "username": "ann", "jobStatus": status, "taskRoles": {}})
    event = {"type": "Warning", "reason": "Failed", "message": wrote}
    platform.on("GET", "/jobs/ann~hello/events", {"totalCount": 1, "data": [event]})
    platform.on("GET", "/jobs/ann~hello/config", {"code": "NoJobConfigError", "message": wrote}, status=404)
    message = [pai("job", command, "hello") for command in ("show", "events", "config")]
    assert all("\x1b" not in one.out + one.err for one in message)
    assert all("\\x1b]0;mine" in one.out + one.err for one in message)


def test_a_line_break_in_a_name_makes_no_row_of_its_own(pai, platform, monkeypatch):
    monkeypatch.delenv("COLUMNS")
    platform.on("GET", "/tokens", {"details": [{"id": "abc", "name": "mine\nforged  program"}]})
    assert len([line for line in pai("token", "list").out.splitlines() if "forged" in line and "mine" in line]) == 1


def test_users_that_are_named_go_before_all_of_them(pai, platform):
    platform.on("GET", "/jobs", {"totalCount": 0, "data": []})
    pai("job", "list", "--all", "--user", "bob")
    assert platform.requests[0].url.params["username"] == "bob"


@pytest.mark.parametrize("command", [["user", "add", "a b"], ["group", "add", "a b"]])
def test_a_name_that_is_none_is_refused_in_words(pai, platform, command):
    message = pai(*command)
    assert (message.code, platform.asked) == (2, [])
    assert "ASCII letters" in message.err


def test_an_audit_log_that_is_longer_than_one_answer_says_where_to_go_on(pai, platform):
    entry = {"id": 7, "time": 1_700_000_000_123, "action": "login", "target": "guest", "status": 401, "actor": ""}
    platform.on("GET", "/audit", {"entries": [entry], "next": 7})
    message = pai("audit", "list", "--limit", "1000").out
    moment = message.partition("see them with --before ")[2].split()[0]
    assert message.splitlines()[1].split()[2] == "-"
    pai("audit", "list", "--before", moment)
    assert platform.requests[-1].url.params["to"] == "1700000000123"


def test_an_empty_text_revokes_no_token(pai, platform):
    platform.on("GET", "/tokens", {"details": [{"id": "abc"}]})
    assert pai("token", "revoke", "").code == 2
    assert platform.asked == [("GET", "/api/v2/tokens")]


def test_a_narrow_terminal_loses_no_column(pai, platform, monkeypatch):
    platform.on("GET", "/jobs", {"totalCount": 1, "data": [{"name": "hello", "username": "ann", "state": "RUNNING"}]})
    wide = pai("job", "list").out
    monkeypatch.setenv("COLUMNS", "30")
    assert pai("job", "list").out == wide


def test_a_list_of_jobs_costs_as_much_as_it_has_jobs(pai, platform, monkeypatch):
    monkeypatch.delenv("COLUMNS")

    def work(count):
        jobs = [{"name": f"job-{number}", "username": "ann", "state": "RUNNING"} for number in range(count)]
        platform.on("GET", "/jobs", {"totalCount": count, "data": jobs})

        def show():
            assert len(pai("job", "list", "--limit", str(count)).out.splitlines()) == count + 2

        return show

    assert_linear(work, 200, rich)


@pytest.mark.parametrize("command", [["vc", "list"], ["vc", "list", "--json"]])
def test_a_terminal_that_knows_only_ascii_shows_the_same(command, tmp_path):
    total, used = ({"cpu": cpu, "memory": 0, "gpu": 0, "GPUs": 0, "CPUs": cpu} for cpu in (8, 4))
    answer = {"ünï": {"resourcesTotal": total, "resourcesGuaranteed": total, "resourcesUsed": used, "skus": {}}}
    program = (
        "import sys, httpx, json; sys.argv = ['pai', *sys.argv[2:]]\n"
        "from openpai.cli import main, session; from openpai.client import Client\n"
        f"answer = httpx.MockTransport(lambda request: httpx.Response(200, json={answer!r}))\n"
        "session.connect = lambda: Client('http://pai.test', 't', user='ann', transport=answer)\n"
        "main.run()"
    )
    message = subprocess.run(
        [sys.executable, "-c", program, "--", *command],
        env={"PATH": "", "PYTHONIOENCODING": "ascii", "HOME": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert message.returncode == 0, message.stderr
    if "--json" in command:
        assert list(json.loads(message.stdout)) == ["ünï"]
    else:
        assert message.stdout.splitlines()[1].split()[0] == b"?n?"


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
    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr("openpai.cli.prompts.sys", SimpleNamespace(stdin=terminal, stderr=terminal))
    monkeypatch.setattr("typer.confirm", lambda question, **_: False)
    message = pai("user", "remove", "bob")
    assert (message.code, platform.asked) == (2, [])
    assert "nothing was done" in message.out + message.err


@pytest.mark.parametrize("command", ["user set bob", "group set vision", "quota set --user bob", "report --from today"])
def test_a_change_of_nothing_and_a_day_that_is_none_are_refused(pai, platform, command):
    assert pai(*command.split()).code == 2
    assert platform.asked == []


def test_bytes_that_are_no_text_are_refused(pai, platform):
    message = pai("job", "tag", "\udcff", "hello")
    assert message.code == 2
    assert "is no text" in message.err


def test_an_answer_that_makes_no_sense_is_no_traceback(pai, platform):
    platform.on("GET", "/nodes", {"not": "a list"})
    message = pai("node", "list")
    assert message.code == 70
    assert "Traceback" not in message.err
    assert "GET /api/v2/nodes" in message.err


def test_a_bug_of_ours_is_no_traceback(pai, platform, monkeypatch):
    def broken():
        raise ZeroDivisionError

    monkeypatch.setattr("openpai.cli.session.connect", broken)
    message = pai("node", "list")
    assert message.code == 70
    assert "Traceback" not in message.err
    assert "PAI_DEBUG=1" in message.err


def test_help_lists_the_exit_codes(pai):
    assert "the name is taken" in pai("--help").out


def test_the_command_line_loads_no_http_library_before_it_needs_one():
    late = ("httpx", "yaml", "rich.live", "fastapi")
    program = f"import sys, openpai.cli.main; print([name for name in {late} if name in sys.modules])"
    message = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert message.stdout.strip() == "[]"
