"""`pai alert`: what needs attention, silences, what alerts did, and what one hears of one's own jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from openpai.cli import durations, output, session
from openpai.cli.formatting import clock_time, plural
from openpai.cli.lazy import group
from openpai.cli.options import argument, option
from openpai.protocol.errors import InvalidParameters, Refused

if TYPE_CHECKING:
    from openpai.client import Client
    from openpai.client.model import Alert, AlertAction, Subscription

COMMANDS: Final = {
    "list": ("openpai.cli.alert:list_", "List what needs attention now."),
    "show": ("openpai.cli.alert:show", "Show an alert, what it did, and which messages about it wait."),
    "silence": ("openpai.cli.alert:silence", "Let alerts neither notify nor act for a time, or end a silence."),
    "silences": ("openpai.cli.alert:silences", "List silences."),
    "actions": ("openpai.cli.alert:actions", "List what alerts did."),
    "messages": ("openpai.cli.alert:messages", "List messages that wait, were sent, or were given up."),
    "subscribe": ("openpai.cli.alert:subscribe", "Choose what you hear of your own jobs."),
    "rules": ("openpai.cli.alert_rule:rules", "List alert rules, or print one as a file that `edit --file` reads."),
    "edit": ("openpai.cli.alert_rule:edit", "Change or add an alert rule, after showing what it would have done."),
    "test": ("openpai.cli.alert_rule:check", "Test an alert rule on the past; nothing is changed."),
    "history": ("openpai.cli.alert_rule:history", "Show the changes of alert rules."),
    "revert": ("openpai.cli.alert_rule:revert", "Return to the bundled alert rule, or to an earlier revision."),
    "channels": ("openpai.cli.alert_channel:channels", "List the channels of messages."),
    "channel": ("openpai.cli.alert_channel:set_", "Set a channel of messages from a file, test it, or remove it."),
}
app = group("Alerts: what needs attention, and what is done about it.", COMMANDS)
STYLE: Final = {"fatal": "bold red", "error": "red", "warn": "yellow", "info": "dim"}
FORBIDDEN: Final = "ForbiddenUserError"
EVENTS: Final = ("start", "end", "failure", "waiting", "retry", "weekly")


def list_(json: output.Json = False) -> None:
    """List what needs attention now.

    Your own jobs; for administrators, nodes, the platform and the jobs of all users.
    """
    with session.connect() as pai:
        found = pai.alerts()
    if output.as_json(json, [one.document for one in found]):
        return
    if not found:
        output.say_marked_up("[green]Nothing needs attention.[/]")
        return
    rows = [
        (f"[{STYLE.get(one.severity, 'default')}]{one.severity or '-'}[/]", _name(one), one.about, one.summary)
        for one in found
    ]
    headings = ["SEVERITY", "ALERT", "OBJECT", "SUMMARY"]
    output.table(headings, rows, markup=["SEVERITY"], whole=["SEVERITY"])
    about = found[0].about
    output.next_step(found[0].next or (f"pai job why {about}" if "~" in about else "pai node list"))


def _name(one: Alert) -> str:
    return f"{one.name} (silenced)" if one.silenced_by else one.name


def show(
    name: Annotated[str, argument("NAME", "Name of the alert, or what it is about, as `pai alert list` shows them.")],
    json: output.Json = False,
) -> None:
    """Show an alert, what it did, and which messages about it wait.

    Only administrators see what alerts did, and messages.
    """
    with session.connect() as pai:
        found = [one for one in pai.alerts() if name in (one.name, one.about, one.fingerprint)]
        if not found:
            raise Refused("NoAlertError", f"no alert is named {name!r} or is about it", "`pai alert list` shows alerts")
        done = _actions_of(pai, {one.fingerprint for one in found})
        waiting = _waiting(pai)
    if output.as_json(json, {"alerts": [one.document for one in found], "actions": [one.document for one in done]}):
        return
    for one in found:
        output.facts(
            (
                ("alert", one.name), ("severity", one.severity), ("about", one.about), ("summary", one.summary),
                ("since", one.since), ("silenced by", ", ".join(one.silenced_by)),
            )
        )  # fmt: skip
    for each in done:
        about = f" {each.target}" if each.target else ""
        output.say(f"{clock_time(each.at_ms)}  {each.action}{about}: {each.state}; {each.detail}".rstrip("; "))
    if waiting:
        output.warn(waiting)
    output.next_step(found[0].next or "pai alert list", f"pai alert silence {found[0].name} --for 2h")


def _actions_of(pai: Client, marks: set[str]) -> list[AlertAction]:
    try:
        return [one for one in pai.alert_actions(1000) if one.fingerprint in marks]
    except Refused as error:
        if error.code != FORBIDDEN:
            raise
        return []


def _waiting(pai: Client) -> str:
    try:
        late = [one for one in pai.alert_messages("waiting", 1000) if one.tries]
    except Refused as error:
        if error.code != FORBIDDEN:
            raise
        return ""
    if not late:
        return ""
    return f"{plural(len(late), 'message')} cannot be sent: channel {late[0].channel}: {late[0].error}"


def silence(
    matchers: Annotated[list[str], argument("MATCHER...", "The name of a rule, or conditions such as node_name=n1.")],
    for_: Annotated[str, option("--for DURATION", "How long, as in 30m, 2h or 7d.")] = "2h",
    comment: Annotated[str, option("--comment TEXT", "Why.")] = "",
    end: Annotated[bool, option("--end", "End silences instead, named by their ids.")] = False,
    json: output.Json = False,
) -> None:
    """Let the alerts that fit all matchers neither notify nor act for a time, or end a silence.

    Such as `pai alert silence NodeNotReady node_name=n1 --for 2h`.
    """
    with session.connect() as pai:
        if end:
            for id_ in matchers:
                pai.end_silence(id_)
            output.done(json, {"ended": matchers}, f"Ended: {', '.join(matchers)}.", "pai alert silences")
            return
        made = pai.silence(matchers, durations.seconds(for_, "--for") / 60, comment)
    message = f"Silence {made.id} holds until {clock_time(made.to_ms)}: {', '.join(made.matchers)}."
    output.done(json, made.document, message, f"pai alert silence --end {made.id}")


def silences(json: output.Json = False) -> None:
    """List silences; those that are over are kept for a week."""
    with session.connect() as pai:
        found = pai.silences()
    if output.is_shown(json, [one.document for one in found], found, "There are no silences.", "pai alert list"):
        return
    rows = [
        (
            one.id,
            "yes" if one.is_active else "over",
            clock_time(one.to_ms),
            one.user,
            ", ".join(one.matchers),
            one.comment,
        )
        for one in found
    ]
    output.table(("ID", "HOLDS", "UNTIL", "USER", "ALERTS", "COMMENT"), rows, whole=("ID", "HOLDS", "UNTIL"))


def actions(
    limit: Annotated[int, option("--limit N", "How many at most.", min=1, max=1000)] = 50, json: output.Json = False
) -> None:
    """List what alerts did, or would have done without a limit, the newest first."""
    with session.connect() as pai:
        found = pai.alert_actions(limit)
    if output.is_shown(json, [one.document for one in found], found, "No alert did anything.", "pai alert rules"):
        return
    rows = [(clock_time(one.at_ms), one.rule, one.action, one.target, one.state, one.detail) for one in found]
    output.table(("TIME", "RULE", "ACTION", "OBJECT", "STATE", "DETAIL"), rows, whole=("TIME", "STATE"))
    output.next_step(f"pai audit list --target {found[0].target}" if found[0].target else "pai alert rules")


def messages(
    state: Annotated[str, option("--state STATE", "Only those that are waiting, sent or given_up.")] = "",
    limit: Annotated[int, option("--limit N", "How many at most.", min=1, max=1000)] = 50,
    json: output.Json = False,
) -> None:
    """List messages that wait, were sent, or were given up, the newest first."""
    if state not in ("", "waiting", "sent", "given_up"):
        raise InvalidParameters(f"--state {state[:40]!r} is no state of a message", "use waiting, sent or given_up")
    with session.connect() as pai:
        found = pai.alert_messages(state, limit)
    if output.is_shown(json, [one.document for one in found], found, "There are no messages.", "pai alert channels"):
        return
    rows = [
        (clock_time(one.created_at_ms), one.channel, one.state, str(one.tries), one.subject, one.error) for one in found
    ]
    output.table(
        ("TIME", "CHANNEL", "STATE", "TRIES", "SUBJECT", "ERROR"), rows, right=("TRIES",), whole=("TIME", "STATE")
    )


def subscribe(
    events: Annotated[list[str] | None, argument("[EVENT...]", f"Of {', '.join(EVENTS)}; or none, to end it.")] = None,
    waiting: Annotated[str, option("--waiting DURATION", "How long a job may wait before a message.")] = "30m",
    webhook: Annotated[str, option("--webhook URL", "To this public address instead of mail.")] = "",
    shape: Annotated[str, option("--shape SHAPE", "What the webhook gets: webhook, slack or teams.")] = "webhook",
    json: output.Json = False,
) -> None:
    """Choose what you hear of your own jobs: start, end, failure, waiting (for too long) and retry.

    Managers of virtual clusters also choose weekly: a report of what these used (`pai report --weekly` shows it).
    Without events, show what you chose.
    """
    with session.connect() as pai:
        if not events:
            found = pai.subscription()
        else:
            wanted = [] if events == ["none"] else events
            if wrong := [each for each in wanted if each not in EVENTS]:
                raise InvalidParameters(f"{wrong[0][:40]!r} is no event", f"use: {', '.join(EVENTS)}, or none")
            minutes = durations.seconds(waiting, "--waiting", bare="m") / 60
            found = pai.subscribe(wanted, waiting_minutes=minutes, url=webhook, shape=shape)
    output.done(json, found.document, _chosen(found), "pai alert subscribe end failure")
    if found.problem and not json:
        output.warn(f"nothing will arrive: {found.problem}")


def _chosen(found: Subscription) -> str:
    if not found.on:
        return "You hear nothing of your jobs."
    where = f"by {found.shape} to {found.url}" if found.url else "by mail"
    waits = f" ({found.waiting_minutes:g} min)" if "waiting" in found.on else ""
    return f"You hear of your jobs {where}: {', '.join(found.on)}{waits}."
