"""What an older database holds is all there after it was brought up to date."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from openpai.lifecycle.model import Outcome, Plan, RolePlan, TaskId, Verdict
from openpai.ports.queries import JobFilter
from openpai.protocol.errors import Refused
from openpai.protocol.writing import dump_spec
from openpai.store import rows
from openpai.store.database import Database
from openpai.store.jobs import SqlJobStore
from openpai.store.opening import migrate
from openpai.store.queries import SqlJobQueries
from openpai.store.revisions import newest_schema, schemas
from openpai.store.usage import SqlUsageStore
from tests.contracts.held import SPEC
from tests.postgres import fresh_database

PLAN = Plan((RolePlan("worker", 2, 1, 2, 0),), 3, True)
OUTCOME = Outcome(Verdict.FAILED, 1, None, TaskId("worker", 1), "it failed: ü")
NAMES = ("first", "second", "third")


def upgrade(database: Database, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(files("openpai.store") / "migrations"))
    with database.engine.connect().execution_options(writes=True) as connection, connection.begin():
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


def old_row(number: int, revision: str) -> dict[str, object]:
    zeros = ("version", "priority", "attempt", "retries_counted", "retries_free", "gpus_total")
    row: dict[str, object] = {
        "id": f"{number:032x}", "owner": "ann", "name": NAMES[number], "phase": "failed", "virtual_cluster": "default",
        "is_stop_requested": False, "tasks_total": 2, "roles_total": 1, "submitted_at_ms": 1000 - number,
        "plan": rows.plan_text(PLAN), "spec": dump_spec(replace(SPEC, name=f"job-{number}")),
        "config": f"config {number}",
        "sealed": b"sealed" if number else None, "outcome": rows.outcome_text(OUTCOME), **dict.fromkeys(zeros, number),
    }  # fmt: skip
    if revision == "0001":
        return row
    return {**row, "archive_key": row["id"] if number == 2 else "", "is_tagged": number == 1}


@pytest.mark.parametrize("revision", ["0001", "0002"])
async def test_jobs_of_an_older_database_are_all_there(empty_url: str, revision: str) -> None:
    database = Database(empty_url)
    upgrade(database, revision)
    with database.engine.connect().execution_options(writes=True) as connection, connection.begin():
        jobs = sa.Table("jobs", sa.MetaData(), autoload_with=connection)
        tags = sa.Table("tags", sa.MetaData(), autoload_with=connection)
        connection.execute(jobs.insert(), [old_row(number, revision) for number in range(3)])
        connection.execute(tags.insert(), [{"job": f"{1:032x}", "tag": "paper"}])
    migrate(database)

    store, queries = SqlJobStore(database), SqlJobQueries(database)
    listed = await queries.jobs(JobFilter(), count=True)
    archived = await queries.jobs(JobFilter(is_archived=True), count=False)
    assert [row.name for row in listed.jobs + archived.jobs] == list(NAMES)
    assert [row.name for row in archived.jobs] == (["third"] if revision == "0002" else [])
    for number, row in enumerate((*listed.jobs, *archived.jobs)):
        record = await store.load(row.id)
        assert record is not None
        assert (record.job.plan, record.job.outcome, record.version) == (PLAN, OUTCOME, number)
        assert (record.spec, await queries.config(row.id)) == (replace(SPEC, name=f"job-{number}"), f"config {number}")
        assert (record.sealed.data if record.sealed else None) == (b"sealed" if number else None)
    tagged = await queries.jobs(JobFilter(tags_any=("paper",)), count=False)
    assert [row.name for row in tagged.jobs] == ["second"]
    database.close()


async def test_gpu_hours_of_an_older_database_count_in_their_months(empty_url: str) -> None:
    database = Database(empty_url)
    upgrade(database, "0003")
    december, hour = 1_701_388_800_000, 3_600_000
    held = [(december - 3 * hour, december + hour, 8), (december, december + 2 * hour, 1), (december - hour, None, 2)]
    key = {"owner": "ann", "virtual_cluster": "a"}
    rows_ = [
        {
            **key, "job": f"{number:032x}", "job_attempt": 0, "role": "worker", "task_index": 0, "attempt": 0,
            "phase": "running" if until is None else "failed", "retries_counted": 0, "retries_free": 0,
            "granted_at_ms": since, "ended_at_ms": until, "gpus": gpus,
        }
        for number, (since, until, gpus) in enumerate([*held, (december, december - 1, 4), (december, None, None)])
    ]  # fmt: skip
    deleted = {**key, "gpu_ms": 5.0 * hour, "cpu_ms": 0.0, "memory_mb_ms": 0.0, "task_attempts": 1}
    with database.engine.connect().execution_options(writes=True) as connection, connection.begin():
        task_attempts = sa.Table("task_attempts", sa.MetaData(), autoload_with=connection)
        past_use = sa.Table("past_use", sa.MetaData(), autoload_with=connection)
        connection.execute(task_attempts.insert(), rows_)
        connection.execute(past_use.insert(), [{**deleted, "day": december // 86_400_000 + day} for day in (-1, 0, 1)])
    migrate(database)

    usage = SqlUsageStore(database)
    assert await usage.gpu_hours_this_month("ann", december + 3 * hour) == {"a": 8 + 2 + 3 * 2 + 2 * 5}
    # The day before, as everything is known by now: what ended later counts whole, what runs on until then.
    assert await usage.gpu_hours_this_month("ann", december - hour) == {"a": 3 * 8 + 5}
    database.close()


def test_a_database_that_cannot_hold_every_letter_is_refused(postgres_server: str) -> None:
    options = "ENCODING SQL_ASCII LC_COLLATE 'C' LC_CTYPE 'C'"
    with fresh_database(postgres_server, "ascii", "template0", options) as url:
        database = Database(url)
        try:
            with pytest.raises(Refused, match="encoded in SQL_ASCII") as message:
                migrate(database)
            assert "createdb --encoding UTF8" in message.value.advice
        finally:
            database.close()


def test_the_schemas_are_those_of_alembic() -> None:
    config = Config()
    config.set_main_option("script_location", str(files("openpai.store") / "migrations"))
    script = ScriptDirectory.from_config(config)
    assert newest_schema() == script.get_current_head()
    assert schemas() == {revision.revision for revision in script.walk_revisions()}


def test_a_database_of_the_newest_schema_is_opened_without_alembic(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/openpai.db"
    made = Database(url)
    migrate(made)
    made.close()
    code = f"""
import sys
from openpai.app import assembly, health
from openpai.store.database import Database
from openpai.store.opening import migrate
migrate(Database({url!r}))
print([name for name in sys.modules if name.startswith(("alembic", "mako"))])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
