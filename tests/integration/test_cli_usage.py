"""`pai quota`, `pai report`, `pai audit` and `pai alert` in front of the real API."""

from __future__ import annotations

import csv

import pytest

from openpai.lifecycle.model import AttemptKey
from tests.integration.terminal import Terminal


def use_gpus(pai: Terminal, name: str, hours: int, user: str = "ann") -> None:
    """Let a job of two GPUs run so long."""

    async def live() -> None:
        world = pai.world
        id_ = await world.submit(name, user, gpus=2)
        await world.grant()
        key = AttemptKey(id_, 0, "worker", 0, 0)
        await world.started(key)
        world.clock.at_ms += hours * 3_600_000
        await world.exited(key)

    pai.run(live())


def test_quotas_are_set_shown_to_their_users_and_removed(pai):
    assert "No quotas" in pai.ok("quota", "list").out
    assert "No quota applies to you" in pai.ok("quota", "show", user="ann").out
    pai.ok("quota", "set", "--user", "ann", "--gpus", "8", "--jobs", "3")
    pai.ok("quota", "set", "--user", "ann", "--gpu-hours", "100.5", "--jobs", "none")
    (found,) = pai.json("quota", "list")
    assert (found["user"], found["gpusRunning"], found["jobsUnfinished"], found["gpuHoursPerMonth"]) == (
        "ann",
        8,
        None,
        100.5,
    )
    shown = pai.ok("quota", "show", user="ann").out
    assert shown.split("\n")[1].split() == ["all", "ann", "0/8", "-", "0/-", "0/100.5"]
    pai.ok("quota", "set", "--user", "ann", "--gpu-hours", "1234567.25")
    assert "1234567.25" in pai.ok("quota", "list").out
    assert pai("quota", "list", user="ann").code == 4
    assert pai("quota", "set", "--jobs", "1", user="ann").code == 4
    pai.ok("quota", "remove", "--user", "ann", "--yes")
    assert pai("quota", "remove", "--user", "ann", "--yes").code == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("quota", "set"), "--gpus-per-job"),
        (("quota", "set", "--gpus", "many"), "whole number"),
        (("quota", "set", "--gpu-hours", "many"), "number of hours"),
        (("quota", "set", "--gpu-hours", "nan"), "number of hours"),
        (("quota", "set", "--gpu-hours", "inf"), "number of hours"),
        (("quota", "set", "--gpu-hours", "-1"), "number of hours"),
        (("report", "--from", "2026-01-31", "--to", "2026-01-31"), "the day after"),
        (("report", "--by", "colour"), "user, group, vc, day"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(pai, arguments, message):
    answer = pai(*arguments)
    assert answer.code == 2
    assert message in answer.err


def test_a_report_adds_up_what_was_used(pai, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert pai("report", "--csv", "-", "--json").json()["code"] == "InvalidParametersError"
    assert "Nothing was used" in pai.ok("report").out
    use_gpus(pai, "one", 3)
    use_gpus(pai, "two", 2, user="bob")
    message = pai.ok("report", "--by", "user,vc,user").out
    assert message.split()[:3] == ["USER", "VC", "GPU-HOURS"]
    assert "GPU-HOURS" in message
    assert "total" in message
    assert "DAY (UTC)" in pai.ok("report", "--by", "day").out
    found = pai.json("report", "--by", "user")
    assert [(row["user"], round(row["gpuHours"])) for row in found["rows"]] == [("ann", 6), ("bob", 4)]
    mine = pai.json("report", "--by", "user", user="ann")
    assert [row["user"] for row in mine["rows"]] == ["ann"]
    assert "2 rows" in pai.ok("report", "--by", "user", "--csv", "use.csv").out
    rows = list(csv.reader((tmp_path / "use.csv").read_text().splitlines()))
    assert rows[0][0] == "user"
    assert [row[0] for row in rows[1:]] == ["ann", "bob", "total"]
    assert pai.ok("report", "--by", "user", "--csv", "-").out.startswith("user,")
    assert "Nothing was used" in pai.ok("report", "--to", "2001-01-01", "--from", "2000-01-01").out


def test_the_audit_log_shows_users_and_actions(pai):
    pai.ok("group", "add", "vision")
    message = pai.ok("audit", "list").out
    assert "group.change" in message
    (entry,) = pai.json("audit", "list", "--action", "group.change")["entries"]
    assert (entry["actor"], entry["status"]) == ("root", 201)
    assert pai.json("audit", "list", "--actor", "bob")["entries"] == []
    assert "No entry matches" in pai.ok("audit", "list", "--actor", "bob", "--since", "1h").out
    assert pai.json("audit", "list", "--before", "2001-01-01")["entries"] == []
    assert "group.change" in pai.ok("audit", "list", "--since", "2001-01-01", "--before", "2999-01-01").out
    assert all(one["action"] != "group.change" for one in pai.json("audit", "list", user="ann")["entries"])
    with pai.client() as client:
        everything = list(client.all_audit(page=1))
        assert [one.id for one in everything] == sorted((one.id for one in everything), reverse=True)
        assert len({one.id for one in everything}) == len(everything) >= 2


def test_alerts_show_what_needs_attention(pai):
    pai.run(pai.world.submit("waits", "ann", gpus=2))
    pai.world.clock.at_ms += 3_600_000
    message = pai.ok("alert", "list", user="ann").out
    assert "PaiJobPending" in message
    assert "pai job why ann~waits" in message
    assert "Nothing needs attention" in pai.ok("alert", "list", user="bob").out
    assert "NodeGpuBad" in {one["labels"]["alertname"] for one in pai.json("alert", "list")}
