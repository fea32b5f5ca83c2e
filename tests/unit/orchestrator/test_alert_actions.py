"""Each action of an alert, on a whole platform: what it does, and that it is done once although its record was lost."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from openpai.alerts.actions import ActionCause, ActionSpec
from openpai.orchestrator import alert_actions
from openpai.orchestrator.alert_state import AlertParts
from openpai.ports.alerts import ActionRow, Changes
from openpai.ports.usage import AuditEntry
from openpai.protocol.errors import Refused, Unavailable

from .servers import Servers
from .test_alerts import Alerting, story

LABELS = {"job_name": "ann~train", "node_name": "node-02", "minor_number": "3"}


def recorded(action: str, target: str, facts: Mapping[str, Any], now_ms: int) -> ActionRow:
    cause = ActionCause(**{"labels": LABELS, **facts})
    return ActionRow("a/0", "Long", ActionSpec.read(action), target, now_ms, "planned", "", "a", cause)


async def running(servers: Servers) -> dict[str, Any]:
    """Return the facts about a job that runs."""
    await servers.submit("train")
    await servers.in_phase("train", "running")
    return {"job": (await servers.row("train")).id, "attempt": 0}


async def carried_out(alerting: Alerting) -> ActionRow:
    """Wait until the one action is over, and return it."""
    async with asyncio.timeout(300):
        while True:
            [row] = await alerting.actions()
            if row.state not in ("planned", "started"):
                return row
            await asyncio.sleep(1)


class Losing:
    """The audit log of a server that dies before it writes the first entry."""

    def __init__(self, alerting: Alerting) -> None:
        self.happened = asyncio.Event()
        usage, note = alerting.servers.usage, alerting.servers.usage.note

        async def fail_first(entry: AuditEntry) -> None:
            if entry.via.startswith("alert rule") and not self.happened.is_set():
                self.happened.set()
                raise Unavailable("the database is gone")
            await note(entry)

        usage.note = fail_first  # type: ignore[method-assign]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("action", "target", "detail"),
    [
        ("tag long", "ann~train", "tagged long"),
        ("stop", "ann~train", "the job is over or is being stopped already"),
        ("requeue", "ann~train", "another attempt of the job runs by now; nothing was done"),
        ("exclude", "ann~train/node-02", "the job avoids node node-02 from its next attempt on"),
        ("cordon", "node-02", "the node takes no new tasks already"),
        ("mark-bad", "node-02/3", "the GPU is marked as bad already"),
    ],
)
def test_an_action_with_a_lost_record_is_repeated_without_a_second_effect(
    action: str, target: str, detail: str
) -> None:
    async def tell(servers: Servers, alerting: Alerting) -> None:
        facts = await running(servers)
        losing = Losing(alerting)
        now_ms = servers.clock.now_ms()
        await alerting.store.save(Changes(actions=[recorded(action, target, facts, now_ms)]), now_ms, None)
        await asyncio.wait_for(losing.happened.wait(), 300)
        await servers.restart()
        alerting.connect()
        row = await carried_out(alerting)
        assert (row.state, row.detail) == ("done", detail)
        assert len(await alerting.audited()) == 1
        await effect(servers, action)

    story(tell)


def test_a_rule_puts_no_tag_on_a_job_that_a_user_could_not_put() -> None:
    async def tell(servers: Servers, alerting: Alerting) -> None:
        facts = await running(servers)
        now_ms = servers.clock.now_ms()
        actions = [recorded("tag sweep:another", "ann~train", facts, now_ms)]
        await alerting.store.save(Changes(actions=actions), now_ms, None)
        row = await carried_out(alerting)
        assert (row.state, "only the platform gives" in row.detail) == ("failed", True)
        assert (await servers.row("train")).tags == ()

    story(tell)


async def effect(servers: Servers, action: str) -> None:
    """Check that an action had its effect, and had it once."""
    events = [each.event.reason for each in await servers.events("train")]
    note = servers.leader.sharing.notes.get("node-02")
    match action.partition(" ")[0]:
        case "tag":
            assert (await servers.row("train")).tags == ("long",)
        case "stop":
            assert events.count("StopRequested") == 1
            assert (await servers.row("train")).phase == "stopped"
        case "requeue":
            assert (await servers.row("train")).attempt == 1
        case "exclude":
            assert [one.node for one in servers.leader.lemons.strikes] == ["node-02"]
            assert (await servers.row("train")).phase == "running"
        case "cordon":
            assert note is not None
            assert note.is_drained
        case "mark-bad":
            assert note is not None
            assert note.bad_devices == {3}


def test_a_job_is_not_queued_again_for_an_owner_who_may_not_submit_it_any_more() -> None:
    async def tell(servers: Servers, alerting: Alerting) -> None:
        facts = await running(servers)
        await alerting.users.remove_user("ann")
        now_ms = servers.clock.now_ms()
        await alerting.store.save(Changes(actions=[recorded("requeue", "ann~train", facts, now_ms)]), now_ms, None)
        row = await carried_out(alerting)
        assert (row.state, row.detail) == (
            "failed",
            "job ann~train cannot run again: it belongs to ann, who no longer has an account",
        )
        assert (await servers.row("train")).attempt == 0

    story(tell)


def test_an_excluded_node_is_avoided_by_the_next_attempt() -> None:
    async def tell(servers: Servers, alerting: Alerting) -> None:
        facts = await running(servers)
        [at] = {slot.node for slot in servers.leader.active.records[facts["job"]].slots.values()}
        now_ms = servers.clock.now_ms()
        labels = {**LABELS, "node_name": at}
        row = ActionRow("a/0", "Bad", ActionSpec("exclude"), f"ann~train/{at}", now_ms, "planned", "", "a",
                        ActionCause(labels, **facts))  # fmt: skip
        await alerting.store.save(Changes(actions=[row]), now_ms, None)
        assert (await carried_out(alerting)).state == "done"
        await servers.commands.restart("ann", "train", "ann", "")
        async with asyncio.timeout(300):
            while (  # noqa: ASYNC110  a state of the job
                record := servers.leader.active.records[facts["job"]]
            ).job.attempt == 0 or not record.slots:
                await asyncio.sleep(1)
        assert at not in {slot.node for slot in record.slots.values()}

    story(tell)


def command(tmp_path: Path, script: str) -> AlertParts:
    """Return parts whose configuration names this script `page`."""
    file = tmp_path / "page"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    nothing: Any = None
    return AlertParts(*[nothing] * 6, commands={"page": (str(file), "one word", "$HOME;`id`")})


ROW = recorded("command page", "", {"summary": "$(id) `id`"}, 1)


async def test_a_command_gets_the_alert_as_data_and_no_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAI_SECRET_KEY", "hunter2")
    parts = command(tmp_path, f'cat > {tmp_path}/in; env > {tmp_path}/env; printf "%s|" "$@"; pwd')
    detail = await alert_actions._run(parts, ROW)
    assert detail.strip() == "the command ran: one word|$HOME;`id`|/"
    message = json.loads((tmp_path / "in").read_text())
    assert (message["rule"], message["labels"], message["summary"]) == ("Long", LABELS, "$(id) `id`")
    names = {line.partition("=")[0] for line in (tmp_path / "env").read_text().splitlines()}
    assert names <= {"PATH", "PAI_ALERT_RULE", "PAI_ALERT_KEY", "PWD", "OLDPWD", "SHLVL", "_"}


@pytest.mark.parametrize(
    ("script", "words"),
    [("echo broken >&2; exit 3", "ended with code 3: broken"), ("kill -9 $$", "ended with code -9$")],
)
async def test_a_command_that_fails_is_reported_with_what_it_said(tmp_path: Path, script: str, words: str) -> None:
    with pytest.raises(Refused, match=words):
        await alert_actions._run(command(tmp_path, script), ROW)


async def test_a_command_that_says_too_much_or_reads_nothing_does_no_harm(tmp_path: Path) -> None:
    parts = command(tmp_path, "exec 0<&-; head -c 3000000 /dev/zero | tr '\\0' x; printf '\\033[31mend'")
    detail = await alert_actions._run(parts, ROW)
    assert detail.endswith("[31mend")
    assert "\x1b" not in detail
    assert len(detail) < alert_actions.OUTPUT_MAX + 100


async def test_a_command_that_does_not_end_is_killed_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_actions, "COMMAND_S", 0.5)
    parts = command(tmp_path, f"sleep 1000 & echo $! > {tmp_path}/child; wait")
    with pytest.raises(Refused, match="was killed"):
        await alert_actions._run(parts, ROW)
    child = int((tmp_path / "child").read_text())
    async with asyncio.timeout(60):
        while is_alive(child):  # noqa: ASYNC110  a process is no event
            await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that nobody has waited for does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


async def test_only_commands_of_the_configuration_run(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="names no command 'other'"):
        await alert_actions._run(command(tmp_path, ""), recorded("command other", "", {}, 1))
