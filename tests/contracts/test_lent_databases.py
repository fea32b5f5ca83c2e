"""A PostgreSQL database that one test has used is for the next one as a new one."""

from __future__ import annotations

import psycopg
import pytest

from tests.postgres import Databases

pytestmark = pytest.mark.slow


def test_rows_and_numbers_of_the_last_test_are_gone(newest_postgres: Databases) -> None:
    with newest_postgres.lent() as url:
        left = psycopg.connect(url)
        groups = left.execute("SELECT * FROM groups ORDER BY name").fetchall()
        assert groups
        left.execute("DELETE FROM groups")
        left.execute("SELECT nextval('events_id_seq')")
        left.commit()
        # An open transaction, which holds locks.
        left.execute("DELETE FROM alembic_version")
    with newest_postgres.lent() as again, psycopg.connect(again) as connection:
        assert again == url
        assert connection.execute("SELECT * FROM groups ORDER BY name").fetchall() == groups
        assert connection.execute("SELECT nextval('events_id_seq')").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM alembic_version").fetchone() == (1,)


@pytest.mark.parametrize(
    "change", ["CREATE TABLE added (x int)", "DROP TABLE inbox CASCADE", "ALTER TABLE groups ADD COLUMN added int"]
)
def test_a_database_whose_schema_was_changed_is_not_used_again(newest_postgres: Databases, change: str) -> None:
    with newest_postgres.lent() as url, psycopg.connect(url) as connection:
        connection.execute(change)
    with newest_postgres.lent() as another:
        assert another != url
