"""Messages are made of a few kinds of events; of the others nothing is read but how far they go."""

from __future__ import annotations

import sqlalchemy as sa

from openpai.store.alerts import SqlAlertStore
from openpai.store.database import Database
from openpai.store.jobs import SqlJobStore
from openpai.store.schema import events
from tests.contracts.held import Held, new


async def test_events_with_other_reasons_are_passed_over(database: Database) -> None:
    await SqlJobStore(database).add_job(new(1, Held("ann", "vision", 0, None)), None)
    job, first = await database.read(lambda connection: connection.execute(sa.select(events.c.job, events.c.id)).one())
    reasons = ("TaskStarted", "Running", "TaskSucceeded", "Succeeded", "TaskForgotten")
    rows = [
        {"job": job, "at_ms": 1, "reason": reason, "message": reason, "job_attempt": 0, "is_warning": False}
        for reason in reasons
    ]
    await database.write(lambda connection: connection.execute(events.insert(), rows))
    store = SqlAlertStore(database)
    found, last = await store.events_after(first, 4, ("Running", "Succeeded"))
    assert ([event.reason for _, event, _, _ in found], last) == (["Running", "Succeeded"], first + 4)
    assert await store.events_after(last, 4, ("Running", "Succeeded")) == ((), first + 5)
    assert await store.events_after(first + 5, 4, ("Running",)) == ((), first + 5)
