"""`pai job` for many jobs at once, and for those that are over, in front of the real API."""

from __future__ import annotations

import pytest

from openpai.lifecycle.model import AttemptKey
from tests.integration.api_world import job_file
from tests.integration.terminal import Terminal


def submit(pai: Terminal, *names: str, user: str = "ann") -> None:
    with pai.client(user) as client:
        for name in names:
            client.submit(job_file(name))
            pai.world.clock.at_ms += 1000


def finish(pai: Terminal, name: str, user: str = "ann") -> str:
    """Let a job run to its end and return its id."""

    async def live() -> str:
        world = pai.world
        id_ = await world.commands._find(user, name)
        await world.grant()
        key = AttemptKey(id_, 0, "worker", 0, 0)
        await world.started(key)
        await world.exited(key)
        return id_

    return pai.run(live())


def listed(pai: Terminal, *more: str, user: str = "ann") -> list[str]:
    return [job["name"] for job in pai.json("job", "list", *more, user=user)["data"]]


def test_an_empty_list_says_what_was_searched(pai):
    message = pai.ok("job", "list", "--user", "bob", "--state", "running", user="ann")
    assert "No job matches: user bob, state running." in message.out
    message = pai.ok("job", "list", "--keyword", "x", user="ann")
    assert "No job of yours matches: keyword x." in message.out
    for flag in ((), ("--json",)):
        message = pai("job", "list", "--user", "bob,nobody", *flag, user="ann")
        assert message.code == 3
        assert "unknown user: nobody" in message.err
    # A removed user who had jobs is no user any more, and the jobs are still there.
    submit(pai, "old", user="bob")
    assert "old" in pai.ok("job", "list", "--user", "bob,nobody", user="ann").out


def test_several_jobs_are_stopped_and_each_that_could_not_be_is_reported(pai):
    submit(pai, "a", "b", "c")
    message = pai("job", "stop", "a", "nope", "b", user="ann")
    assert message.code == 3
    assert "2 jobs: stopping." in message.out
    assert "nope" in message.err
    assert sorted(listed(pai, "--state", "WAITING")) == ["c"]


def test_a_job_that_is_over_is_not_said_to_stop(pai):
    submit(pai, "one", "two")
    finish(pai, "one")
    assert "one has ended: SUCCEEDED." in pai.ok("job", "stop", "one", user="ann").out
    assert "two is stopping" in pai.ok("job", "stop", "two", user="ann").out


def test_all_that_match_are_meant_only_when_one_is_sure(pai):
    submit(pai, "a", "b")
    submit(pai, "c", user="bob")
    message = pai("job", "stop", "--where", "state=waiting", user="root")
    assert message.code == 2
    assert "--yes" in message.err
    message = pai.ok("job", "stop", "--where", "state=waiting", "--yes", user="root")
    assert "No job matches" in message.out
    message = pai.ok("job", "stop", "--where", "state=waiting", "--where", "user=ann,bob", "--yes", user="root")
    assert "3 jobs: stopping." in message.out


def test_all_users_are_meant_only_by_name(pai):
    submit(pai, "a")
    submit(pai, "b", user="bob")
    assert "2 jobs" in pai.ok("job", "stop", "--where", "user=*", "--where", "state=WAITING", "--yes").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("stop",), "--where KEY=VALUE"),
        (("stop", "a", "--where", "vc=x"), "--where KEY=VALUE"),
        (("delete", "--where", "colour=red", "--yes"), "not a condition"),
        (("list", "--since", "soon"), "not a time"),
    ],
)
def test_arguments_that_mean_no_job_are_refused(pai, arguments, message):
    answer = pai("job", *arguments, user="ann")
    assert answer.code == 2
    assert message in answer.err


def test_tags_find_jobs(pai):
    submit(pai, "a", "b", "c")
    pai.ok("job", "tag", "good", "a", "b", user="ann")
    pai.ok("job", "tag", "best", "a", user="ann")
    assert listed(pai, "--tag", "good") == ["b", "a"]
    pai.ok("job", "untag", "good", "a", user="ann")
    assert listed(pai, "--tag", "good") == ["b"]
    assert pai("job", "untag", "good", "a", user="ann").code == 3
    assert "1 job" not in pai.ok("job", "tag", "x", "--where", "tag=best", "--yes", user="ann").err
    assert listed(pai, "--tag", "x") == ["a"]


def test_a_finished_job_is_put_away_and_its_name_is_free(pai):
    submit(pai, "train")
    message = pai("job", "archive", "train", user="ann")
    assert message.code != 0
    id_ = finish(pai, "train")
    assert "train: archived." in pai.ok("job", "archive", "train", user="ann").out
    assert "No jobs yet" in pai.ok("job", "list", user="ann").out
    assert id_ in pai.ok("job", "list", "--archived", user="ann").out
    submit(pai, "train")
    assert pai.json("job", "show", id_, user="ann")["jobStatus"]["state"] == "SUCCEEDED"
    assert pai("job", "unarchive", id_, user="ann").code == 5
    pai.ok("job", "delete", id_, "--yes", user="ann")
    assert pai("job", "show", id_, user="ann").code == 3
    assert "Your archive is empty" in pai.ok("job", "list", "--archived", user="ann").out
    assert pai("job", "delete", "train", "--yes", user="ann").code != 0


def test_how_to_reach_a_task_is_shown_where_there_is_a_way(pai):
    submit(pai, "plain")
    message = pai("job", "ssh", "plain", user="ann")
    assert message.code == 3
    assert "ssh" in message.err


def test_names_are_offered_to_the_shell(pai, monkeypatch):
    from openpai.cli import completion

    submit(pai, "train-1", "train-2", "test")
    monkeypatch.setattr(completion, "_client", lambda: pai.client("ann"))
    assert completion.jobs("tr") == ["train-2", "train-1"]
    assert completion.jobs("ann~te") == ["ann~test"]
    assert completion.users("b") == ["bob"]
    assert "default" in completion.groups("de")
    monkeypatch.setattr(completion, "_client", lambda: None)
    assert completion.jobs("tr") == []


def test_a_clone_keeps_its_secrets_and_has_a_name_of_its_own(pai):
    with pai.client("ann") as client:
        client.submit(job_file("first", more="secrets: {word: opensesame}"))
    message = pai("job", "clone", "first", "--name", "second", user="ann")
    assert message.code == 0, message.err
    assert "ann~second" in message.out
    made_up = pai.json("job", "clone", "first", user="ann")["name"]
    assert made_up.startswith("first-")
    assert sorted(listed(pai)) == sorted(["first", "second", made_up])
    assert "opensesame" not in pai("job", "config", "second", user="ann").out
    refused = pai("job", "clone", "ann~first", user="bob")
    assert refused.code == 3
    assert "your own jobs only" in refused.err


def test_an_unknown_job_is_not_cloned(pai):
    assert pai("job", "clone", "nope", user="ann").code == 3


def test_a_job_is_restarted_alone_and_with_others(pai):
    submit(pai, "a", "b")
    finish(pai, "a")
    message = pai.ok("job", "restart", "a", "--reason", "new data", user="ann")
    assert "a will run again from its beginning." in message.out
    message = pai.ok("job", "show", "a", user="ann").out
    assert "2 (ann restarted the job: new data" in message
    assert "retried" not in message
    assert "ann restarted the job: new data" in pai.ok("job", "events", "a", user="ann").out
    assert pai("job", "restart", "a", user="ann").code == 5
    message = pai("job", "restart", "a", "b", user="ann")
    assert message.code == 5
    assert "ann~a waits to run already" in message.err
    assert "1 job: will run again." in message.out or "ann~b: will run again." in message.out
    assert pai("job", "restart", "ann~b", user="bob").code == 4
    # Only a server that leads can kill, and here none does.
    assert pai("job", "stop", "--force", "b", user="ann").code == 6
