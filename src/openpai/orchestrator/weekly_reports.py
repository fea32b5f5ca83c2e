"""Writes what virtual clusters used in the last week, and sends it to the managers who asked for it.

A week is from Monday to Sunday, in UTC. The message goes into the outbox once: its key names the user and the week.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from openpai.access.budgets import Kind, in_words
from openpai.access.memberships import rights_of
from openpai.orchestrator.alert_outbox import subscription_of
from openpai.orchestrator.leader import Leader
from openpai.ports.alerts import Changes, Message
from openpai.ports.usage import UsageStore, UseRow

EVERY_S: Final = 1800.0
WORD: Final = "weekly"
"""The subscription that asks for it."""
AFTER: Final = timedelta(hours=6)
"""How long after the week the message is written, so that nothing of it is missing."""
USERS_SHOWN: Final = 10
_END: Final = "\nYou asked for this message. What else you may hear, and how to end it: pai alert subscribe --help"
_WEEK: Final = timedelta(days=7)


async def weekly_report(usage: UsageStore, virtual_clusters: Sequence[str], now_ms: int) -> tuple[str, str]:
    """Return subject and text about the last week that is over; without virtual clusters, of all."""
    monday = last_monday(now_ms)
    rows, before = [
        await usage.use(_ms(since), _ms(since + _WEEK), virtual_clusters=virtual_clusters)
        for since in (monday - _WEEK, monday - 2 * _WEEK)
    ]
    budgets = [
        use for use in await usage.budgets(now_ms)
        if not virtual_clusters or (use.budget.kind is Kind.VC and use.budget.name in virtual_clusters)
    ]  # fmt: skip
    names = sorted({row.virtual_cluster for row in (*rows, *before)} | set(virtual_clusters))
    lines = [f"GPU hours from {_day(monday - _WEEK)} to {_day(monday - timedelta(days=1))} (UTC)", ""]
    for name in names:
        lines += _of_cluster(name, [row for row in rows if row.virtual_cluster == name], before)
    if not names:
        lines += ["Nothing was used.", ""]
    if budgets:
        lines += ["Budgets", *(f"  {use.budget.label}: {in_words(use.budget, use.hours)}" for use in budgets), ""]
    lines.append(f"next: pai report --by vc,user --from {_day(monday - _WEEK)} --to {_day(monday)}")
    several = f"{len(names)} virtual clusters" if names else "the platform"
    whose = virtual_clusters[0] if len(virtual_clusters) == 1 else several
    return f"GPU hours of {whose} in the week of {_day(monday - _WEEK)}", "\n".join(lines)


def _of_cluster(name: str, rows: Sequence[UseRow], before: Iterable[UseRow]) -> list[str]:
    used, last = _used(rows), _used(row for row in before if row.virtual_cluster == name)
    borrowed, lent = sum(row.gpu_hours_borrowed for row in rows), sum(row.gpu_hours_lent for row in rows)
    idle, failed = sum(row.gpu_hours_idle for row in rows), sum(row.gpu_hours_failed for row in rows)
    lost = f"lost by failures of the platform {failed:.1f}, by preemption {sum(_preempted(rows)):.1f}"
    lines = [
        f"Virtual cluster {name}",
        f"  used {used:.1f} ({last:.1f} in the week before), without a guarantee {borrowed:.1f}; lent {lent:.1f}",
        f"  wasted {sum(map(_wasted, rows)):.1f}: idle {idle:.1f}, {lost}",
    ]
    users: dict[str, list[UseRow]] = {}
    for row in rows:
        if row.user:
            users.setdefault(row.user, []).append(row)
    ordered = sorted(users, key=lambda user: (-_used(users[user]), user))
    lines += [
        f"  {user}: {_used(users[user]):.1f}, wasted {sum(map(_wasted, users[user])):.1f}"
        for user in ordered[:USERS_SHOWN]
    ]
    if len(ordered) > USERS_SHOWN:
        rest = sum(_used(users[user]) for user in ordered[USERS_SHOWN:])
        lines.append(f"  {len(ordered) - USERS_SHOWN} others: {rest:.1f}")
    return [*lines, ""]


async def mail_reports(leader: Leader) -> None:
    """Write the message of the last week for everyone who asked for it, once."""
    parts, now_ms = leader.alert_parts, leader.clock.now_ms()
    monday = last_monday(now_ms)
    if parts is None or now_ms < _ms(monday + AFTER):
        return
    mail = next((each.name for each in await parts.store.channels() if each.kind == "mail"), "")
    outgoing: list[tuple[str, Message]] = []
    texts: dict[tuple[str, ...], tuple[str, str]] = {}
    for user in await parts.users.users():
        wanted, clusters = subscription_of(user), tuple(sorted(rights_of(user).managed))
        channel = f"@{wanted.shape}" if wanted.url else mail if user.email else ""
        if WORD not in wanted.on or not channel or not (clusters or user.is_admin):
            continue
        of = () if user.is_admin else clusters
        if of not in texts:
            subject, text = await weekly_report(parts.usage, of, now_ms)
            texts[of] = subject, text + _END
        to = () if wanted.url else (user.email,)
        key = f"{WORD}/{user.name}/{_day(monday)}"
        outgoing.append((channel, Message(key, *texts[of], to=to, url=wanted.url, user=user.name)))
    if outgoing:
        # A message that was written before has the same key, and is dropped.
        await parts.store.save(Changes(notices=outgoing), now_ms, leader.epoch)


def last_monday(now_ms: int) -> datetime:
    """Return the beginning of the week of a time."""
    today = datetime.fromtimestamp(now_ms / 1000, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - timedelta(days=today.weekday())


def _used(rows: Iterable[UseRow]) -> float:
    return sum(row.gpu_hours for row in rows)


def _wasted(row: UseRow) -> float:
    return row.gpu_hours_idle + row.gpu_hours_failed + row.gpu_hours_preempted


def _preempted(rows: Iterable[UseRow]) -> Iterable[float]:
    return (row.gpu_hours_preempted for row in rows)


def _ms(at: datetime) -> int:
    return int(at.timestamp()) * 1000


def _day(at: datetime) -> str:
    return at.date().isoformat()
