"""Sends the messages of the outbox, and writes those that users asked for about their own jobs.

A message whose channel is away waits and is tried again, less and less often, for three days. Users subscribe in their
profile (`extension.notifications`), or for one job as OpenPAI's job files do (`extras.jobStatusChangeNotification`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog

from openpai.access.accounts import User
from openpai.lifecycle.model import JobPhase
from openpai.orchestrator.alert_state import AlertParts, AlertWatch
from openpai.orchestrator.leader import Leader
from openpai.ports.alerts import Changes, Channel, Message, Notice, ReportedAlert
from openpai.ports.store import Event, LeaseLost
from openpai.protocol.errors import PaiError, Refused, Unavailable
from openpai.protocol.placement import asks_for_notice
from openpai.protocol.wording import plural

EVERY_S: Final = 5.0
AT_ONCE: Final = 200
OF_A_TARGET: Final = 30
TARGETS_AT_ONCE: Final = 8
BACK_OFF_MS: Final = 30_000
BACK_OFF_MAX_MS: Final = 3_600_000
GIVE_UP_MS: Final = 3 * 86_400_000
EVENTS_AT_ONCE: Final = 500
PER_HOUR: Final = 60
"""Messages of a subscription in an hour."""
WAITING_MINUTES: Final = 30
OWN: Final = ("webhook", "slack", "teams")
ASKED: Final[Mapping[str, tuple[str, ...]]] = {
    "Running": ("start",), "Succeeded": ("end",), "Failed": ("end", "failure"), "Stopped": ("end",),
    "Retried": ("retry",), "Restarted": ("retry",), "JobHangs": ("failure",), "GpusIdle": ("waiting", "failure"),
}  # fmt: skip
"""By the reason of an event, what a user may have asked for."""
_IN_JOB_FILE: Final = {
    "Running": "running", "Succeeded": "succeeded", "Failed": "failed", "Stopped": "stopped", "Retried": "retried",
}  # fmt: skip
_WORDS: Final = {
    "Running": "runs", "Succeeded": "succeeded", "Failed": "failed", "Stopped": "was stopped", "Retried": "is retried",
    "Restarted": "was restarted", "JobHangs": "hangs", "GpusIdle": "holds GPUs without using them",
}  # fmt: skip
log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a user wants to hear of their own jobs, and where."""

    on: frozenset[str] = frozenset()
    """start, end, failure, waiting and retry."""
    waiting_minutes: float = WAITING_MINUTES
    url: str = ""
    """A webhook of their own; empty: mail."""
    shape: str = "webhook"


def subscription_of(user: User) -> Subscription:
    """Return what a user asked for; the profile may hold anything."""
    found = user.extension.get("notifications")
    if not isinstance(found, Mapping):
        return Subscription()
    on, minutes, url, shape = (found.get(key) for key in ("on", "waitingMinutes", "url", "shape"))
    return Subscription(
        frozenset(each for each in on if isinstance(each, str)) if isinstance(on, list) else frozenset(),
        max(1.0, float(minutes))
        if isinstance(minutes, int | float) and not isinstance(minutes, bool)
        else WAITING_MINUTES,
        url if isinstance(url, str) else "",
        shape if shape in OWN else "webhook",
    )


async def serve_subscribers(leader: Leader) -> None:
    """Write messages about what happened to jobs since the last call, and about jobs that wait for too long."""
    parts, watch = leader.alert_parts, leader.alerts
    if parts is None:
        return
    first = watch.cursor is None
    cursor = await parts.store.cursor() if watch.cursor is None else watch.cursor
    about, end = await parts.store.events_after(cursor, EVENTS_AT_ONCE, ASKED.keys())
    users: dict[str, User] = {}
    mail = ""
    # A server with nothing to say reads neither the users nor the channels.
    if about or any(record.job.phase is JobPhase.QUEUED for record in leader.active.records.values()):
        users = {user.name: user for user in await parts.users.users()}
        mail = next((each.name for each in await parts.store.channels() if each.kind == "mail"), "")
    outgoing: list[tuple[str, Message]] = []
    now_ms = leader.clock.now_ms()
    for number, event, owner, name in about:
        user = users.get(owner)
        if user is None or event.at_ms < user.created_at_ms:
            continue
        wanted = subscription_of(user)
        if wanted.on.isdisjoint(ASKED[event.reason]):
            # The file of a job that is over is in the store. It is not read for a message that could not be sent.
            if not (user.email and mail) or not await _is_asked_by_file(leader, parts, event):
                continue
            wanted = replace(wanted, url="")
        message = Message(
            f"event/{number}", f"job {owner}~{name} {_WORDS[event.reason]}", _text(event, f"{owner}~{name}"), "firing",
            (_as_alert(event, owner, name),), user=owner,
        )  # fmt: skip
        outgoing += _addressed(watch, user, wanted, mail, message, now_ms)
    outgoing += _waiting(leader, users, mail, now_ms)
    if outgoing or end != cursor or first:
        await parts.store.save(Changes(notices=outgoing, cursor=end), now_ms, leader.epoch)
    watch.cursor = end


async def _is_asked_by_file(leader: Leader, parts: AlertParts, event: Event) -> bool:
    word = _IN_JOB_FILE.get(event.reason)
    if word is None:
        return False
    record = leader.active.records.get(event.job)
    spec = record.spec if record is not None else await parts.jobs.spec(event.job)
    return spec is not None and asks_for_notice(spec.extras, word)


def _waiting(leader: Leader, users: Mapping[str, User], mail: str, now_ms: int) -> Iterable[tuple[str, Message]]:
    watch = leader.alerts
    subscribed = {name: found for name, user in users.items() if "waiting" in (found := subscription_of(user)).on}
    for record in leader.active.records.values() if subscribed else ():
        wanted = subscribed.get(record.user)
        if wanted is None or record.job.phase is not JobPhase.QUEUED:
            continue
        minutes = (now_ms - (record.job.attempt_at_ms or record.job.submitted_at_ms)) / 60_000
        key = f"waiting/{record.job.id}/{record.job.attempt}"
        if minutes >= wanted.waiting_minutes and key not in watch.waited:
            watch.waited.add(key)
            name = record.full_name
            waited = f"job {name} has been waiting in {record.virtual_cluster} for {plural(round(minutes), 'minute')}"
            text = f"{waited}\nnext: pai job why {name}"
            message = Message(key, f"job {name} waits for a long time", text, user=record.user)
            yield from _addressed(watch, users[record.user], wanted, mail, message, now_ms)
    watch.waited = {key for key in watch.waited if key.split("/")[1] in leader.active.records}


def _addressed(
    watch: AlertWatch, user: User, wanted: Subscription, mail: str, message: Message, now_ms: int
) -> list[tuple[str, Message]]:
    """Return the message for the user's own webhook or mail, unless they had too many within an hour."""
    recent = [at_ms for at_ms in watch.sent_to.get(user.name, ()) if abs(now_ms - at_ms) < 3_600_000]
    if len(recent) > PER_HOUR or not (wanted.url or (user.email and mail)):
        return []
    watch.sent_to[user.name] = [*recent, now_ms]
    if len(recent) == PER_HOUR:
        text = f"{PER_HOUR} messages were sent within an hour; further ones of this hour are left out"
        message = replace(message, subject="more messages about your jobs are left out", text=text, alerts=())
    if wanted.url:
        return [(f"@{wanted.shape}", replace(message, url=wanted.url))]
    return [(mail, replace(message, to=(user.email,)))]


def _text(event: Event, name: str) -> str:
    where = f" on node {event.node}" if event.node else ""
    return f"job {name}: {event.message}{where}\nnext: pai job show {name}"


def _as_alert(event: Event, owner: str, name: str) -> ReportedAlert:
    labels = {
        "alertname": "PAIJobStatusChange", "severity": "warn", "job_name": f"{owner}~{name}", "username": owner,
        "state": event.reason.upper(),
    }  # fmt: skip
    return ReportedAlert(labels, {"summary": event.message}, event.at_ms)


async def deliver(leader: Leader) -> None:
    """Send the messages whose time has come, those for one target one after the other."""
    parts = leader.alert_parts
    if parts is None:
        return
    now_ms = leader.clock.now_ms()
    targets: dict[tuple[str, str], list[Notice]] = {}
    for notice in await parts.store.due(now_ms, AT_ONCE):
        targets.setdefault((notice.channel, notice.message.url), []).append(notice)
    if not targets:
        return
    channels = {channel.name: channel for channel in await parts.store.channels()}
    channels |= {f"@{kind}": Channel(f"@{kind}", kind, {}) for kind in OWN}
    free = asyncio.Semaphore(TARGETS_AT_ONCE)

    async def serve(name: str, notices: Sequence[Notice]) -> None:
        async with free:
            await _deliver_to(leader, parts, channels.get(name), notices)

    results = await asyncio.gather(
        *(serve(name, notices[:OF_A_TARGET]) for (name, _), notices in targets.items()), return_exceptions=True
    )
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def _deliver_to(leader: Leader, parts: AlertParts, channel: Channel | None, notices: Sequence[Notice]) -> None:
    for at, notice in enumerate(notices):
        try:
            if channel is None:
                raise Unavailable(f"there is no channel {notice.channel!r}", "add it, or change the rule")
            secrets = leader.secrets.open(channel.sealed)
            await parts.sender.send(channel, secrets, notice.message)
        except LeaseLost:
            raise
        except Refused as error:
            await parts.store.set_notice(replace(notice, state="given_up", error=error.message), leader.epoch)
        except PaiError as error:
            log.warning("a message waits", channel=notice.channel, error=error.message, tries=notice.tries + 1)
            # The others for the same target would wait as long for the same answer.
            for late in notices[at:]:
                await parts.store.set_notice(_later(late, error.message, leader.clock.now_ms()), leader.epoch)
            return
        else:
            sent = replace(notice, state="sent", tries=notice.tries + 1, error="")
            await parts.store.set_notice(sent, leader.epoch)


def _later(notice: Notice, error: str, now_ms: int) -> Notice:
    if abs(now_ms - notice.created_at_ms) > GIVE_UP_MS:
        return replace(notice, state="given_up", tries=notice.tries + 1, error=error)
    wait_ms = min(BACK_OFF_MAX_MS, BACK_OFF_MS * 2 ** min(notice.tries, 10))
    return replace(notice, tries=notice.tries + 1, next_at_ms=now_ms + wait_ms, error=error)
