"""Stores alerts, their actions, the channels of messages, and the messages that wait."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc

from openpai.alerts.actions import ActionCause, ActionSpec
from openpai.alerts.states import Alert, State
from openpai.lifecycle.model import AttemptKey
from openpai.ports.alerts import NOTICES_MAX, ActionRow, Changes, Channel, Message, Notice, ReportedAlert
from openpai.ports.store import Event, Sealed
from openpai.store.database import Stored
from openpai.store.forgetting import forget_where
from openpai.store.locks import check_lease
from openpai.store.schema import alert_actions, alerts, channels, events, jobs, notices, settings

_CURSOR: Final = "alert-cursor"
_ACTION_COLUMNS: Final = ("key", "rule", "target", "at_ms", "state", "detail", "alert")
_SHOWN_MAX: Final = 20_000
_REPLACED_AT_ONCE: Final = 1_000
_MANY: Final = 100
_FAR_MS: Final = 2 * 3_600_000
# Made once: the leader asks every few seconds, and making a statement takes longer than what the database does.
_CHANNELS: Final = sa.select(channels).order_by(channels.c.name)
_DUE: Final = (
    sa.select(notices)
    .where(
        notices.c.state == "waiting",
        # A time that far away is of a clock that was set back since.
        sa.or_(notices.c.next_at_ms <= sa.bindparam("now_ms"), notices.c.next_at_ms > sa.bindparam("far_ms")),
    )
    .order_by(notices.c.next_at_ms, notices.c.id)
    .limit(sa.bindparam("at_most"))
)
_NEWEST: Final = (
    sa.select(notices)
    .where(notices.c.state.in_(sa.bindparam("states", expanding=True)))
    .order_by(notices.c.id.desc())
    .limit(sa.bindparam("at_most"))
)
_NEXT: Final = (
    sa.select(events.c.id)
    .where(events.c.id > sa.bindparam("after"))
    .order_by(events.c.id)
    .limit(sa.bindparam("at_most"))
)
_LAST: Final = sa.select(sa.func.max(_NEXT.subquery().c.id))
_BETWEEN: Final = (
    sa.select(events, jobs.c.owner, jobs.c.name)
    .join(jobs, jobs.c.id == events.c.job)
    .where(events.c.id > sa.bindparam("after"), events.c.id <= sa.bindparam("last"))
    .where(events.c.reason.in_(sa.bindparam("reasons", expanding=True)))
    .order_by(events.c.id)
)


class SqlAlertStore(Stored):
    """`ports.alerts.AlertStore` over SQLite or PostgreSQL."""

    async def alerts(self) -> tuple[Alert, ...]:
        query = sa.select(alerts.c.body).order_by(alerts.c.since_ms.desc(), alerts.c.id).limit(_SHOWN_MAX)
        found = await self._database.read(lambda connection: list(connection.scalars(query)))
        return tuple(map(_alert, found))

    async def save(self, changes: Changes, now_ms: int, epoch: int | None) -> int:
        actions = [_action_columns(action) for action in changes.actions]

        def work(connection: sa.Connection) -> int:
            if epoch is not None:
                check_lease(connection, epoch)
            rows = {alert.id: _alert_columns(alert) for alert in changes.alerts}
            replaced = [*rows, *changes.gone]
            for start in range(0, len(replaced), _REPLACED_AT_ONCE):
                part = replaced[start : start + _REPLACED_AT_ONCE]
                connection.execute(sa.delete(alerts).where(alerts.c.id.in_(part)))
            if rows:
                connection.execute(alerts.insert(), list(rows.values()))
            for action in actions:
                _insert_new(connection, alert_actions, action)
            left_out = _add_notices(connection, changes.notices, now_ms)
            if changes.cursor is not None:
                _set_cursor(connection, changes.cursor, now_ms)
            return left_out

        # Thousands of jobs may wait, and each is a pending alert.
        return await self._database.write(work, is_long=len(changes.alerts) + len(changes.gone) > _MANY)

    async def actions(
        self, *, since_ms: int = 0, states: Sequence[str] = (), limit: int = 1000
    ) -> tuple[ActionRow, ...]:
        query = sa.select(alert_actions).where(alert_actions.c.at_ms >= since_ms)
        if states:
            query = query.where(alert_actions.c.state.in_(states))
        query = query.order_by(alert_actions.c.at_ms.desc(), alert_actions.c.key.desc()).limit(limit)
        found = await self._database.read(lambda connection: connection.execute(query).mappings().all())
        return tuple(_action(row) for row in found)

    async def set_action(self, key: str, state: str, detail: str, epoch: int | None) -> None:
        changed = sa.update(alert_actions).where(alert_actions.c.key == key).values(state=state, detail=detail)
        await self._fenced(changed, epoch)

    async def due(self, now_ms: int, limit: int) -> tuple[Notice, ...]:
        return await self._notices(_DUE, {"now_ms": now_ms, "far_ms": now_ms + _FAR_MS, "at_most": limit})

    async def notices(self, states: Sequence[str], limit: int) -> tuple[Notice, ...]:
        return await self._notices(_NEWEST, {"states": list(states), "at_most": limit})

    async def set_notice(self, notice: Notice, epoch: int | None) -> None:
        values = {"next_at_ms": notice.next_at_ms, "tries": notice.tries, "state": notice.state, "error": notice.error}
        await self._fenced(sa.update(notices).where(notices.c.id == notice.id).values(values), epoch)

    async def forget(self, before_ms: int) -> int:
        is_over = (alerts.c.state == State.RESOLVED.value) & (alerts.c.resolved_at_ms < before_ms)
        is_done = alert_actions.c.state.not_in(("planned", "started")) & (alert_actions.c.at_ms < before_ms)
        is_sent = (notices.c.state != "waiting") & (notices.c.created_at_ms < before_ms)
        old = ((alerts.c.id, is_over), (alert_actions.c.key, is_done), (notices.c.id, is_sent))
        return sum([await forget_where(self._database, key, condition) for key, condition in old])

    async def channels(self) -> tuple[Channel, ...]:
        found = await self._database.read(lambda connection: connection.execute(_CHANNELS).mappings().all())
        return tuple(
            Channel(**{
                **row, "data": json.loads(row["data"]),
                "sealed": Sealed(row["sealed"]) if row["sealed"] is not None else None,
            })
            for row in found
        )  # fmt: skip

    async def set_channel(self, channel: Channel) -> None:
        row = asdict(channel) | {
            "data": json.dumps(dict(channel.data)),
            "sealed": channel.sealed.data if channel.sealed is not None else None,
        }

        def work(connection: sa.Connection) -> None:
            connection.execute(sa.delete(channels).where(channels.c.name == channel.name))
            connection.execute(channels.insert(), row)

        await self._database.write(work)

    async def remove_channel(self, name: str) -> bool:
        gone = sa.delete(channels).where(channels.c.name == name)
        return bool(await self._database.write(lambda connection: connection.execute(gone).rowcount))

    async def cursor(self) -> int:
        query = sa.select(settings.c.body).where(settings.c.name == _CURSOR)
        newest = sa.select(sa.func.max(events.c.id))

        def work(connection: sa.Connection) -> int:
            body = connection.execute(query).scalar()
            return int(json.loads(body)["event"]) if body else int(connection.execute(newest).scalar() or 0)

        return await self._database.read(work)

    async def events_after(
        self, number: int, limit: int, reasons: Collection[str]
    ) -> tuple[tuple[tuple[int, Event, str, str], ...], int]:
        def read(connection: sa.Connection) -> tuple[Sequence[sa.RowMapping], int]:
            last = connection.execute(_LAST, {"after": number, "at_most": limit}).scalar()
            if last is None:
                return (), number
            values = {"after": number, "last": last, "reasons": sorted(reasons)}
            return connection.execute(_BETWEEN, values).mappings().all(), last

        found, last = await self._database.read(read)
        return tuple((row["id"], _event(row), row["owner"], row["name"]) for row in found), last

    async def _notices(self, query: sa.Select[Any], values: Mapping[str, Any]) -> tuple[Notice, ...]:
        found = await self._database.read(lambda connection: connection.execute(query, values).mappings().all())
        return tuple(
            Notice(
                row["id"], row["channel"], _message(row["body"]), row["created_at_ms"], row["next_at_ms"],
                row["tries"], row["state"], row["error"],
            )
            for row in found
        )  # fmt: skip

    async def _fenced(self, statement: Any, epoch: int | None) -> None:
        def work(connection: sa.Connection) -> None:
            if epoch is not None:
                check_lease(connection, epoch)
            connection.execute(statement)

        await self._database.write(work)


def _add_notices(connection: sa.Connection, wanted: Sequence[tuple[str, Message]], now_ms: int) -> int:
    if not wanted:
        return 0
    waiting = sa.select(sa.func.count()).select_from(notices).where(notices.c.state == "waiting")
    room = NOTICES_MAX - connection.execute(waiting).scalar_one()
    left_out = 0
    for channel, message in wanted:
        if room <= 0:
            left_out += 1
            continue
        body = json.dumps(asdict(message))
        row = {
            "key": message.key, "channel": channel, "body": body, "created_at_ms": now_ms, "next_at_ms": now_ms,
            "tries": 0, "state": "waiting", "error": "",
        }  # fmt: skip
        room -= _insert_new(connection, notices, row)
    return left_out


def _insert_new(connection: sa.Connection, table: sa.Table, row: Mapping[str, Any]) -> int:
    """Insert a row unless its key is known; return how many were inserted."""
    try:
        with connection.begin_nested():
            connection.execute(table.insert(), dict(row))
    except exc.IntegrityError:
        return 0
    return 1


def _set_cursor(connection: sa.Connection, event: int, now_ms: int) -> None:
    columns = {"body": json.dumps({"event": event}), "version": 1, "changed_at_ms": now_ms, "changed_by": "platform"}
    changed = sa.update(settings).where(settings.c.name == _CURSOR).values(columns)
    if connection.execute(changed).rowcount == 0:
        connection.execute(settings.insert(), {"name": _CURSOR, **columns})


def _alert_columns(alert: Alert) -> dict[str, Any]:
    return {
        "id": alert.id, "rule": alert.rule, "state": alert.state.value, "since_ms": alert.since_ms,
        "resolved_at_ms": alert.resolved_at_ms, "body": json.dumps(asdict(alert)),
    }  # fmt: skip


def _alert(body: str) -> Alert:
    read = json.loads(body)
    labels = tuple((name, text) for name, text in read.pop("labels"))
    return Alert(**{**read, "labels": labels, "state": State(read["state"])})


def _action_columns(action: ActionRow) -> dict[str, Any]:
    columns = {name: getattr(action, name) for name in _ACTION_COLUMNS}
    return columns | {"action": str(action.action), "target": action.target[:512],
                      "facts": json.dumps(action.cause.as_dict())}  # fmt: skip


def _action(row: Mapping[Any, Any]) -> ActionRow:
    values = {name: row[name] for name in _ACTION_COLUMNS}
    return ActionRow(**values, action=ActionSpec.read(row["action"]), cause=ActionCause.read(json.loads(row["facts"])))


def _message(body: str) -> Message:
    read = json.loads(body)
    alerts = tuple(ReportedAlert(**each) for each in read["alerts"])
    return Message(**{**read, "alerts": alerts, "to": tuple(read["to"])})


def _event(row: Any) -> Event:
    key = AttemptKey.parse(row["task"]) if row["task"] else None
    return Event(
        row["job"], row["at_ms"], row["reason"], row["message"], row["job_attempt"], key, row["node"],
        row["is_warning"],
    )  # fmt: skip
