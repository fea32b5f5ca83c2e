"""Which job stands for its sweep in a list that has one line for each sweep: the first that is not archived."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from openpai.protocol.sweeps import LATER_TAG, SWEEP_TAG
from openpai.store.schema import jobs, tags

_TRIES: Final = 5
_SWEEP_OF: Final = (
    sa.select(jobs.c.owner, tags.c.tag)
    .join(tags, tags.c.job == jobs.c.id)
    .where(jobs.c.id == sa.bindparam("of_job"), tags.c.tag.startswith(SWEEP_TAG, autoescape=True))
)
_MEMBERS: Final = (
    sa.select(jobs.c.id)
    .join(tags, tags.c.job == jobs.c.id)
    .where(tags.c.tag == sa.bindparam("of_tag"), jobs.c.owner == sa.bindparam("of_owner"), jobs.c.archive_key == "")
)
# Their names end with their numbers.
_FIRST: Final = _MEMBERS.order_by(sa.func.length(jobs.c.name), jobs.c.name).limit(1).with_for_update(of=jobs)
_IS_LATER: Final = sa.exists().where(tags.c.job == jobs.c.id, tags.c.tag == LATER_TAG).correlate(jobs)


def sweep_of(connection: sa.Connection, job: str) -> tuple[str, str] | None:
    """Return the owner and the tag of the sweep that a job belongs to; None if it belongs to none."""
    found = connection.execute(_SWEEP_OF, {"of_job": job}).first()
    return None if found is None else (found[0], found[1])


def choose_line(connection: sa.Connection, sweep: tuple[str, str] | None) -> None:
    """Let the first job of a sweep that is not archived stand for it, and no other one."""
    if sweep is None:
        return
    of = {"of_owner": sweep[0], "of_tag": sweep[1]}
    for _ in range(_TRIES):
        first: str | None = connection.execute(_FIRST, of).scalar()
        # Another server may have archived the first one just now; then its row is not returned, nor the next one.
        if first is not None or connection.execute(_MEMBERS.limit(1), of).first() is None:
            break
    if first is None:
        return
    connection.execute(sa.delete(tags).where(tags.c.job == first, tags.c.tag == LATER_TAG))
    others = connection.execute(_MEMBERS.where(jobs.c.id != first, sa.not_(_IS_LATER)), of).scalars().all()
    if others:
        connection.execute(tags.insert(), [{"job": other, "tag": LATER_TAG} for other in others])
