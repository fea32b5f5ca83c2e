"""A job comes back from the store with every field that was saved, those included that are added later."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields, replace
from typing import Any, Final

from openpai.lifecycle.model import Job
from openpai.ports.store import JobRecord, Sealed
from openpai.store.database import Database
from openpai.store.jobs import SqlJobStore
from tests.contracts.test_store import new

_UNLIKE: Final[dict[str, Any]] = {"int": 7_919, "int | None": 7_919, "str | None": "x", "Sealed | None": Sealed(b"s")}
# Written with a task, an attempt or an outcome, and tried with those.
_WITH_OTHERS: Final = frozenset({"slots", "tasks", "retries", "outcome", "phase"})


def unlike(field: Field[Any]) -> Any:
    """Return a value of a field that is not its default."""
    return not field.default if field.type == "bool" else _UNLIKE[str(field.type)]


def with_every_field(of: Any) -> Any:
    """Return a value with each of its optional fields set to something that is not the default."""
    optional = [field for field in fields(of) if field.default is not MISSING or field.default_factory is not MISSING]
    return replace(of, **{field.name: unlike(field) for field in optional if field.name not in _WITH_OTHERS})


async def test_no_field_of_a_job_is_lost(database: Database) -> None:
    store = SqlJobStore(database)
    plain = new("train")
    job: Job = with_every_field(plain.record.job)
    record: JobRecord = replace(with_every_field(plain.record), job=job)
    await store.add_job(replace(plain, record=record), None)
    assert await store.load(job.id) == record
