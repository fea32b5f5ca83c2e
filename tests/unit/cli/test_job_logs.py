"""`pai job logs`: searched, saved, and shown as a terminal would."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.conftest import text_answer

BASE = "/jobs/ann~train/attempts/0/taskRoles/worker/taskIndex"


@pytest.fixture
def two(platform):
    tasks = [{"taskIndex": at, "taskState": "SUCCEEDED", "attemptId": 0, "launchedTime": 1500} for at in (0, 1)]
    status = {"username": "ann", "state": "SUCCEEDED", "attemptId": 0, "submissionTime": 1000}
    job = {"name": "train", "jobStatus": status, "taskRoles": {"worker": {"taskStatuses": tasks}}}
    platform.on("GET", "/jobs/ann~train", job)
    for index in (0, 1):
        place = f"{BASE}/{index}/attempts/0/logs"
        uris = [{"name": name, "uri": f"/log-manager/pai.test:80/api/v2{place}/{name}?t"} for name in ("all", "stdout")]
        platform.on("GET", place, {"locations": uris})
        platform.on("GET", f"{place}/all", "1%\r2%\n\x1b[31mred\x1b[0m\n")
        hit = {"stream": "stdout", "offset": 7, "time": 1000, "text": f"loss=nan of {index}"}
        found = [{"hits": [hit], "next": "stdout=9"}, {"hits": [{**hit, "stream": "stderr"}], "next": None}]
        platform.on("GET", f"{place}/all/search", *found)
    return platform


def test_the_lines_that_are_found_are_printed_to_the_end_of_the_search(pai, two):
    assert pai("job", "logs", "train", "--search", "nan").out == "loss=nan of 0\nloss=nan of 0\n"
    first, rest = (request.url.params for request in two.requests[-2:])
    assert (first["text"], first["regex"], first["ignore-case"], "next" in first) == ("nan", "false", "false", False)
    assert rest["next"] == "stdout=9"


def test_all_tasks_are_searched_with_an_expression(pai, two):
    message = pai("job", "logs", "train", "-a", "-t", "--grep", "n.n", "--ignore-case", "--since", "1h")
    assert message.out == "".join(
        f"worker-{index} | 1970-01-01T00:00:01.000Z loss=nan of {index}\n" for index in (0, 0, 1, 1)
    )
    params = two.requests[-1].url.params
    assert (params["regex"], params["ignore-case"]) == ("true", "true")
    assert int(params["since"]) > 1_760_000_000_000


def test_what_is_found_as_json(pai, two):
    first, second = map(json.loads, pai("job", "logs", "train", "--search", "nan", "--json").out.splitlines())
    assert first == {"task": "worker-0", "stream": "stdout", "offset": 7, "time": 1000, "text": "loss=nan of 0"}
    assert second["stream"] == "stderr"


def test_a_search_without_a_hit_says_so(pai, two):
    two.on("GET", f"{BASE}/0/attempts/0/logs/all/search", {"hits": [], "next": None})
    message = pai("job", "logs", "train", "--search", "nan")
    assert (message.out, "no line of the log of worker-0 has 'nan'" in message.err) == ("", True)


def test_a_log_is_saved_as_it_is_and_over_no_file(pai, two, tmp_path):
    file = tmp_path / "train.log"
    assert pai("job", "logs", "train", "-o", str(file)).code == 0
    assert file.read_bytes() == b"1%\r2%\n\x1b[31mred\x1b[0m\n"
    message = pai("job", "logs", "train", "-o", str(file))
    assert (message.code, "exists already" in message.err) == (2, True)
    assert pai("job", "logs", "train", "-a", "-o", str(tmp_path / "logs")).code == 0
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["worker-0.all.log", "worker-1.all.log"]
    message = pai("job", "logs", "train", "-o", str(tmp_path / "no" / "where"))
    assert (message.code, "No such file" in message.err) == (2, True)


def test_a_single_stream_is_read_in_ranges(pai, two):
    sizes = iter([(4, 9), (9, 12), (12, 13)])
    answers = []
    for text in ("é12", "3\r45", "never"):
        end, size = next(sizes)
        answers.append(text_answer(text))
        answers[-1].headers.update({"X-Log-End": str(end), "X-Log-Size": str(size)})
    two.answers["GET", f"/api/v2{BASE}/0/attempts/0/logs/stdout"] = answers
    assert pai("job", "logs", "train", "-s", "stdout").out == "4523\n"
    assert [request.url.params.get("offset") for request in two.requests[-2:]] == ["0", "4"]


@pytest.mark.parametrize(
    "words",
    [
        ("--search", "x", "-f"),
        ("--grep", "x", "--tail", "3"),
        ("--search", "x", "--grep", "y"),
        ("-o", "f", "--search", "x"),
        ("-o", "f", "-f"),
    ],
)
def test_what_does_not_go_together_is_refused(pai, two, words):
    assert pai("job", "logs", "train", *words).code == 2


def test_bars_and_colours_are_shown_as_a_terminal_would(pai, two):
    assert pai("job", "logs", "train").out == "2%\nred\n"
    assert pai("job", "logs", "train", "-a").out == "worker-0 | 2%\nworker-0 | red\nworker-1 | 2%\nworker-1 | red\n"
    events = "".join(f"event: log\nid: 1\ndata: {json.dumps({'stream': 'stdout', 'offset': 0, 'text': text})}\n\n"
                     for text in ("1%\r", "2%", "\nend"))  # fmt: skip
    two.answers["GET", f"/api/v2{BASE}/0/attempts/0/logs/all"] = [text_answer(f"{events}event: end\ndata: {{}}\n\n")]
    assert pai("job", "logs", "train", "-f").out == "2%\nend"
