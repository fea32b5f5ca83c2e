"""Alert rules on a whole platform in virtual time: what fires, what it does, and what a crash leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from openpai.access.accounts import ADMIN_GROUP, DEFAULT_GROUP, Group, User
from openpai.alerts.actions import ActionCause, ActionSpec
from openpai.alerts.rules import built_in
from openpai.orchestrator.alert_outbox import BACK_OFF_MS, GIVE_UP_MS, PER_HOUR
from openpai.orchestrator.alert_state import AlertParts
from openpai.ports.alerts import ActionRow, Changes, Channel, Message
from openpai.ports.revisions import Edit
from openpai.ports.usage import AuditFilter
from openpai.protocol.errors import InvalidParameters, Refused, Unavailable
from openpai.store.accounts import SqlAccountStore
from openpai.store.alerts import SqlAlertStore

from .servers import Servers, live

LONG = """\
alert: Long
expr: pai_job_running_seconds > 60
annotations: {{summary: "job {{{{ labels.job_name }}}} runs"}}
notify: [chat]
actions: {actions}
{more}
"""


class KeepingSender:
    """Keeps what is sent; the server behind it may be away."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Message]] = []
        self.is_away = False
        self.tries = 0

    async def send(self, channel: Channel, secrets: Mapping[str, Any], message: Message) -> None:
        self.tries += 1
        if self.is_away:
            raise Unavailable("the mail server mail:587 cannot be reached")
        self.sent.append((channel.name, message))

    async def check_target(self, url: str) -> None:
        """Allow every address."""

    def check_channel(self, channel: Channel, secrets: Mapping[str, Any]) -> None:
        """Allow every address."""


class Alerting:
    """A platform with alerts."""

    def __init__(self, servers: Servers) -> None:
        self.servers = servers
        self.store = SqlAlertStore(servers.database)
        self.users = SqlAccountStore(servers.database)
        self.sender = KeepingSender()

    async def begin(self) -> None:
        groups = (Group(DEFAULT_GROUP),)
        await self.users.add_user(User("ann", "x", 0, "ann@example.org", groups))
        await self.users.add_user(User("root", "x", 0, "root@example.org", (Group(ADMIN_GROUP),)))
        await self.store.set_channel(Channel("chat", "slack", {}))
        await self.store.set_channel(Channel("mail", "mail", {"host": "mail", "from": "pai@example.org"}))
        self.connect()

    def connect(self) -> None:
        commands = self.servers.commands
        parts = AlertParts(
            self.store, self.sender, self.users, self.servers.queries, self.servers.usage, commands,
            commands={"page": ("/bin/true",)},
        )  # fmt: skip
        commands.accounts = self.users
        commands.alert_parts = self.servers.leader.alert_parts = parts

    async def rule(self, actions: str = "[]", more: str = "", text: str = "") -> None:
        written = text or LONG.format(actions=actions, more=more)
        name = written.split("\n", 1)[0].removeprefix("alert: ")
        await self.servers.commands.change_alert_rule(name, Edit(written), "root")

    async def actions(self) -> list[ActionRow]:
        return list(reversed(await self.store.actions()))

    async def audited(self) -> list[tuple[str, str, str]]:
        rows = await self.servers.usage.audit(AuditFilter(actors=("platform",)))
        return [(row.entry.via, row.entry.action, row.entry.target) for row in reversed(rows)]


def story(tell: Callable[[Servers, Alerting], Awaitable[None]]) -> None:
    async def whole(servers: Servers) -> None:
        alerting = Alerting(servers)
        await alerting.begin()
        await tell(servers, alerting)

    live(whole)


def test_an_alert_notifies_and_acts_once_and_the_audit_log_names_its_rule() -> None:
    async def tell(servers: Servers, alerting: Alerting) -> None:
        await alerting.rule("[tag: long, stop]")
        await servers.submit("train")
        await servers.in_phase("train", "stopped")
        await asyncio.sleep(60)
        assert [(str(row.action), row.target, row.state) for row in await alerting.actions()] == [
            ("tag long", "ann~train", "done"), ("stop", "ann~train", "done"),
        ]  # fmt: skip
        assert (await servers.row("train")).tags == ("long",)
        assert sorted(await alerting.audited()) == [
            ("alert rule Long", "job.stop", "ann~train"),
            ("alert rule Long", "job.tag", "ann~train"),
        ]
        stops = [each.event.message for each in await servers.events("train") if each.event.reason == "StopRequested"]
        assert stops == ["alert rule Long stopped the job: alert Long: job ann~train runs"] or "Long" in stops[0]
        firing, resolved = alerting.sender.sent
        assert firing[0] == "chat"
        assert firing[1].subject == "[firing] Long (warn): job ann~train runs"
        assert resolved[1].subject == "[resolved] Long (warn): job ann~train runs"

    story(tell)


def test_what_was_recorded_before_a_crash_is_carried_out_once_and_only_on_that_attempt() -> None:
    async def tell(servers: Servers, alerting: Alerting) -> None:
        await servers.submit("train")
        await servers.submit("other")
        await servers.in_phase("train", "running")
        await servers.in_phase("other", "running")
        now_ms = servers.clock.now_ms()
        ids = {name: (await servers.row(name)).id for name in ("train", "other")}
        rows = [
            ActionRow("a/0", "Long", ActionSpec("stop"), "ann~train", now_ms, "planned", "", "a",
                      ActionCause({"job_name": "ann~train"}, job=ids["train"], attempt=0)),
            ActionRow("b/0", "Long", ActionSpec("requeue"), "ann~other", now_ms, "started", "", "b",
                      ActionCause({"job_name": "ann~other"}, job=ids["other"], attempt=7)),
            ActionRow("c/0", "Long", ActionSpec("command", "page"), "", now_ms, "started", "", "c"),
        ]  # fmt: skip
        await alerting.store.save(Changes(actions=rows), now_ms, None)
        await servers.restart()
        alerting.connect()
        await servers.in_phase("train", "stopped")
        await asyncio.sleep(60)
        found = {row.key: (row.state, row.detail) for row in await alerting.actions()}
        assert found["a/0"] == ("done", "stopped")
        assert found["b/0"] == ("done", "another attempt of the job runs by now; nothing was done")
        assert found["c/0"] == ("failed", "the server stopped while the command ran; it is not repeated")
        assert (await servers.row("other")).attempt == 0
        stops = [each for each in await servers.events("train") if each.event.reason == "StopRequested"]
        assert len(stops) == 1

    story(tell)


@pytest.mark.slow
def test_a_crash_neither_repeats_a_message_nor_starts_the_time_of_an_alert_again() -> None:
    async def tell(servers: Servers, alerting: Alerting) -> None:
        await alerting.rule(more="for: 4m")
        await servers.submit("train")
        await asyncio.sleep(150)
        for _ in range(3):
            await servers.restart()
            alerting.connect()
            await asyncio.sleep(100)
        await asyncio.sleep(120)
        assert len(alerting.sender.sent) == 1
        await servers.restart()
        alerting.connect()
        await asyncio.sleep(300)
        assert len(alerting.sender.sent) == 1

    story(tell)


@pytest.mark.slow
def test_a_rule_that_causes_its_own_alert_is_stopped_by_a_limit_that_is_shown() -> None:
    async def tell(servers: Servers, alerting: Alerting) -> None:
        await alerting.rule("[requeue]")
        await servers.submit("train")
        await asyncio.sleep(480)
        states = [row.state for row in await alerting.actions()]
        assert states[:4] == ["done", "done", "done", "limited"]
        assert set(states[3:]) == {"limited"}
        assert (await servers.row("train")).attempt == 3
        # The limit refuses only when the alert begins again.
        await asyncio.sleep(20)
        [view] = [each for each in await servers.commands.alert_rules() if each.name == "Long"]
        assert "3 times within a day: it seems to be a loop" in (await alerting.actions())[3].detail
        assert "3 times within a day: it seems to be a loop" in view.problem

    story(tell)


def test_rules_take_at_most_half_of_the_nodes_out_of_service() -> None:
    async def tell(servers: Servers, alerting: Alerting) -> None:
        await alerting.rule(text="alert: All\nexpr: pai_node_ready == 1\nactions: [cordon]\nnotify: []\n")
        await asyncio.sleep(120)
        views = await servers.commands.nodes()
        assert sum(view.is_drained for view in views) == 2
        assert sorted(row.state for row in await alerting.actions()) == ["done", "done", "failed", "failed"]
        drained = next(view for view in views if view.is_drained)
        assert drained.drained_because.startswith("alert All")

    story(tell)


def test_a_gpu_is_marked_and_a_node_excluded() -> None:
    async def tell(servers: Servers, alerting: Alerting) -> None:
        await servers.commands.change_node("node-02", _marks(3), "root")
        await alerting.rule(text="alert: Gpu\nexpr: pai_gpu_bad == 1\nactions: [mark-bad]\nnotify: []\n")
        await asyncio.sleep(60)
        [row] = await alerting.actions()
        assert (row.target, row.detail) == ("node-02/3", "the GPU is marked as bad already")

    story(tell)


def _marks(device: int) -> Any:
    from openpai.ports.platform import NodeChange

    return NodeChange(bad_devices=frozenset({device}))


@pytest.mark.slow
def test_a_dry_rule_and_a_silenced_alert_do_nothing() -> None:
    async def tell(servers: Servers, alerting: Alerting) -> None:
        await alerting.rule("[stop]", "dryRun: true")
        made = await servers.commands.silence(["Long"], servers.clock.now_ms() + 600_000, "root", "")
        await servers.submit("train")
        await asyncio.sleep(300)
        assert (await alerting.actions(), alerting.sender.sent) == ([], [])
        await servers.commands.end_silence(made.id, "root")
        await asyncio.sleep(60)
        assert [row.state for row in await alerting.actions()] == ["dry"]
        assert len(alerting.sender.sent) == 1
        assert (await servers.row("train")).phase == "running"
        with pytest.raises(Refused, match="there is no silence"):
            await servers.commands.end_silence(made.id, "root")

    story(tell)


@pytest.mark.slow
def test_a_message_waits_while_its_server_is_away_and_is_given_up_at_last() -> None:
    async def tell(servers: Servers, alerting: Alerting) -> None:
        alerting.sender.is_away = True
        await alerting.rule()
        await servers.submit("train")
        await asyncio.sleep(150)
        [waiting] = await alerting.store.notices(("waiting",), 10)
        assert waiting.tries >= 2
        assert waiting.error == "the mail server mail:587 cannot be reached"
        alerting.sender.is_away = False
        await asyncio.sleep(130)
        assert len(alerting.sender.sent) == 1
        assert [each.state for each in await alerting.store.notices(("waiting", "sent"), 10)] == ["sent"]

    story(tell)
    assert BACK_OFF_MS * 2 < GIVE_UP_MS


def test_users_hear_of_their_own_jobs_as_they_asked_to() -> None:
    async def tell(servers: Servers, alerting: Alerting) -> None:
        def ask(user: User) -> User:
            return User(**{name: getattr(user, name) for name in user.__slots__} | {
                "extension": {"notifications": {"on": ["end", "waiting"], "waitingMinutes": 1}}
            })  # fmt: skip

        await alerting.users.change_user("ann", ask)
        await asyncio.sleep(10)
        await servers.submit("short", command="sleep 5")
        await servers.submit("theirs", "bob", command="sleep 5")
        await servers.submit("large", instances=4, gpus=4)
        await servers.submit("late", instances=4, gpus=4)
        await servers.in_phase("short", "succeeded")
        await asyncio.sleep(180)
        heard = [(channel, message.to, message.subject) for channel, message in alerting.sender.sent]
        to = ("ann@example.org",)
        assert ("mail", to, "job ann~short succeeded") in heard
        assert ("mail", to, "job ann~late waits for a long time") in heard
        waited = next(sent.text for _, sent in alerting.sender.sent if "waits for a long time" in sent.subject)
        assert waited.startswith("job ann~late has been waiting in default for 1 minute\n")
        assert len(heard) == 2

    story(tell)


@pytest.mark.slow
def test_a_job_file_asks_as_in_openpai_and_a_flood_is_cut() -> None:
    async def tell(servers: Servers, alerting: Alerting) -> None:
        asked = {"jobStatusChangeNotification": {"succeeded": True}}
        await asyncio.sleep(10)
        for number in range(PER_HOUR + 5):
            await servers.submit(f"j{number}", command="sleep 1", extras=asked)
        await asyncio.sleep(150)
        subjects = [message.subject for _, message in alerting.sender.sent]
        assert len(subjects) == PER_HOUR + 1
        assert "more messages about your jobs are left out" in subjects

    story(tell)


def test_rules_are_refused_with_their_place_and_kept_with_their_history() -> None:
    async def tell(servers: Servers, alerting: Alerting) -> None:
        commands = servers.commands
        with pytest.raises(InvalidParameters, match="line 2, column 10"):
            await commands.change_alert_rule("A", Edit("alert: A\nexpr: x >"), "root")
        text = built_in()["NodeNotReady"].replace("10m", "20m")
        view = await commands.change_alert_rule("NodeNotReady", Edit(text, "slow nodes"), "root")
        assert view is not None
        assert (view.origin, view.rule and view.rule.for_ms) == ("changed", 1_200_000)
        with pytest.raises(Refused, match="root changed alert rule 'NodeNotReady' since you read it"):
            await commands.change_alert_rule("NodeNotReady", Edit(text, "", 0), "root")
        # Another rule is none of this one's business.
        other = built_in()["NodeFilesystemUsage"]
        await asyncio.gather(
            commands.change_alert_rule("NodeFilesystemUsage", Edit(other, "", 0), "root"),
            commands.change_alert_rule("Own", Edit("alert: Own\nexpr: pai_ready == 0", "", 0), "root"),
        )
        view = await commands.change_alert_rule("NodeNotReady", Edit(None), "root")
        assert view is not None
        assert view.origin == "bundled"
        history = await commands.alert_rule_history("NodeNotReady")
        assert [(each.action, each.reason) for each in history] == [("reverted", ""), ("changed", "slow nodes")]
        with pytest.raises(Refused, match="bundled one already"):
            await commands.change_alert_rule("NodeNotReady", Edit(None), "root")

    story(tell)


@pytest.mark.parametrize("jump_ms", [-7_200_000, 0, 7_200_000])
def test_a_clock_that_jumps_makes_no_job_run_longer_or_shorter(jump_ms: int) -> None:
    async def tell(servers: Servers, alerting: Alerting) -> None:
        await alerting.rule("[stop]")
        await servers.submit("train", command="sleep 3000")
        await asyncio.sleep(30)
        servers.clock.set_ms += jump_ms
        await asyncio.sleep(20)
        assert await alerting.actions() == []
        await asyncio.sleep(40)
        assert [(row.action.kind, row.target, row.state) for row in await alerting.actions()] == [
            ("stop", "ann~train", "done")
        ]

    story(tell)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("notify: [pager]", "it notifies channel 'pager', which does not exist"),
        ("actions: [{webhook: pager}]", "its action webhook pager names a channel that does not exist"),
        (
            "actions: [{command: pager}]",
            "its action command pager names a command that the file of --alert-commands does not have",
        ),
        ("notify: [chat]\nactions: [{webhook: chat}, {command: page}]", ""),
    ],
)
def test_a_channel_or_command_that_does_not_exist_is_named_before_the_rule_is_saved(more: str, problem: str) -> None:
    async def tell(servers: Servers, alerting: Alerting) -> None:
        text = f"alert: A\nexpr: pai_job_waiting_seconds > 450\n{more}\n"
        assert (await servers.commands.test_alert_rule(text, 60_000)).problem == problem
        await alerting.rule(text=text)
        await asyncio.sleep(30)
        rules = {view.name: view.problem for view in await servers.commands.alert_rules()}
        assert rules["A"] == problem

    story(tell)


@pytest.mark.slow
def test_a_rule_is_replayed_on_the_past() -> None:
    async def tell(servers: Servers, alerting: Alerting) -> None:
        for number in range(4):
            await servers.submit(f"j{number}", command="sleep 300", instances=4, gpus=4)
        await asyncio.sleep(1400)
        text = (
            "alert: Waits\nexpr: pai_job_waiting_seconds > 450\nactions: [stop]\n"
            'annotations: {summary: "{{ labels.job_name }}"}\n'
        )
        found = await servers.commands.test_alert_rule(text, 1_500_000)
        assert [alert.annotations["summary"] for alert in found.alerts] == ["ann~j2", "ann~j3"]
        assert [(action, target) for _, action, target, _ in found.actions] == [("stop", "ann~j2"), ("stop", "ann~j3")]
        assert (found.unknown, found.problem) == ((), "")
        none = await servers.commands.test_alert_rule("alert: A\nexpr: pai_node_ready == 0 and nothing > 1\n", 60_000)
        assert none.unknown == ("pai_node_ready",)
        assert none.problem.startswith("there is no metric nothing. `pai metrics list`")

    story(tell)
