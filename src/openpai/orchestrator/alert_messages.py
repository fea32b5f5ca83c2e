"""Makes messages of alerts, each for the channels and users who receive it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final

from openpai.access.accounts import User
from openpai.alerts.grouping import Notice
from openpai.alerts.rules import Rule
from openpai.alerts.states import Alert, State
from openpai.ports.alerts import Channel, Message, ReportedAlert

ALERTS_MAX: Final = 100
"""The most alerts in one message; its text says how many more there are."""
LINES_MAX: Final = 30
_HOUR_MS: Final = 3_600_000
ADMINS: Final = "admins"
OWNER: Final = "owner"


def messages(
    notice: Notice, rule: Rule, channels: Sequence[Channel], users: Mapping[str, User]
) -> list[tuple[str, Message]]:
    """Return the messages of a notice with the names of their channels."""
    known = {channel.name: channel for channel in channels}
    mail = next((channel.name for channel in channels if channel.kind == "mail"), "")
    whole = message_of(notice, rule)
    found: list[tuple[str, Message]] = []
    for receiver in dict.fromkeys(notice.receivers):
        if receiver in known:
            found.append((receiver, _named(whole, receiver)))
        elif receiver == ADMINS and mail and (to := _admins(known[mail], users)):
            found.append((mail, replace(_named(whole, ADMINS), to=to)))
        elif receiver == OWNER:
            found += _of_owners(notice, rule, mail, users)
    return found


def _admins(mail: Channel, users: Mapping[str, User]) -> tuple[str, ...]:
    return tuple(mail.data.get("to", ())) or tuple(u.email for u in users.values() if u.is_admin and u.email)


def admins_unreached(notice: Notice, channels: Sequence[Channel], users: Mapping[str, User]) -> str:
    """Return why administrators do not hear of what fires, although its rule notifies them; empty if they do."""
    if ADMINS not in notice.receivers or not notice.firing:
        return ""
    mail = next((channel for channel in channels if channel.kind == "mail"), None)
    if mail is None:
        return "it fires, and no administrator is notified: there is no channel of kind mail"
    if _admins(mail, users):
        return ""
    return (
        f"it fires, and no administrator is notified: none has an e-mail address, and channel {mail.name} has no `to`"
    )


def unreached(rule: Rule, channels: Sequence[Channel], commands: Collection[str]) -> str:
    """Return which channel or command of a rule, its stages or its actions cannot be reached; empty if each can."""
    named = dict.fromkeys((*rule.notify, *(receiver for stage in rule.escalate for receiver in stage.notify)))
    known = {channel.name: channel for channel in channels}
    for receiver in named:
        if receiver in (ADMINS, OWNER):
            continue
        if receiver not in known:
            return f"it notifies channel {receiver!r}, which does not exist"
        if known[receiver].kind == "mail" and not known[receiver].data.get("to"):
            return (
                f"it notifies channel {receiver!r}, which sends mail and has no `to`: give it one, or notify `admins`"
            )
    for action in rule.actions:
        if action.kind == "webhook" and action.argument not in known:
            return f"its action {action} names a channel that does not exist"
        if action.kind == "command" and action.argument not in commands:
            return f"its action {action} names a command that the file of --alert-commands does not have"
    return ""


def message_of(notice: Notice, rule: Rule, status: str = "") -> Message:
    """Return the message of a notice, without recipients."""
    alerts = (*notice.firing, *notice.resolved)
    is_over = not notice.firing
    word = "resolved" if is_over else "escalated" if notice.stage else "firing"
    first = _in_words(alerts[0]) if len(alerts) == 1 else f"{len(alerts)} alerts"
    lines = [_line(alert) for alert in alerts[:LINES_MAX]]
    if len(alerts) > LINES_MAX:
        lines.append(f"and {len(alerts) - LINES_MAX} more: pai alert list")
    lines += ["", f"rule {rule.name}, severity {rule.severity}: {rule.expr}"]
    mark = sha256("".join(sorted(alert.id for alert in alerts)).encode()).hexdigest()[:16]
    return Message(
        key=f"{rule.name}/{mark}/{notice.stage}/{notice.at_ms}",
        subject=f"[{word}] {rule.name} ({rule.severity}): {first}",
        text="\n".join(lines),
        status=status or ("resolved" if is_over else "firing"),
        alerts=tuple(_reported(alert, notice.at_ms + rule.repeat_ms + _HOUR_MS) for alert in alerts[:ALERTS_MAX]),
    )


def _reported(alert: Alert, valid_until_ms: int) -> ReportedAlert:
    starts_at_ms = alert.fired_at_ms or alert.since_ms
    return ReportedAlert(
        dict(alert.labels), alert.annotations, starts_at_ms, alert.resolved_at_ms, valid_until_ms, alert.fingerprint
    )


def _of_owners(notice: Notice, rule: Rule, mail: str, users: Mapping[str, User]) -> Iterable[tuple[str, Message]]:
    """Yield a message for each owner, with alerts about their own jobs only."""
    owners = {dict(alert.labels).get("username", "") for alert in (*notice.firing, *notice.resolved)}
    for name in sorted(owners & users.keys()):
        user = users[name]
        if not user.email or not mail:
            continue
        firing, resolved = (
            tuple(alert for alert in alerts if dict(alert.labels).get("username") == name)
            for alerts in (notice.firing, notice.resolved)
        )
        own = message_of(replace(notice, firing=firing, resolved=resolved), rule)
        yield mail, replace(_named(own, f"user-{name}"), to=(user.email,))


def _named(message: Message, receiver: str) -> Message:
    return replace(message, key=f"{message.key}/{receiver}"[:255])


def _line(alert: Alert) -> str:
    over = " (resolved)" if alert.state is State.RESOLVED else ""
    following = f"\n  next: {text}" if (text := alert.annotations.get("next")) and not over else ""
    return f"- {_in_words(alert)}{over}{following}"


def _in_words(alert: Alert) -> str:
    """Return the summary of an alert; without one, its labels that the name of the rule does not say."""
    own = [f"{name}={text}" for name, text in alert.labels if name not in ("alertname", "severity")]
    return alert.annotations.get("summary") or ", ".join(own) or alert.rule
