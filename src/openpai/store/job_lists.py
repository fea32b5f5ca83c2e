"""The list of jobs as SQL: which jobs match, in which order, and where a page begins.

A query over a million jobs may have to read every one. PostgreSQL reads the rows, which contain no long values, with
several processes. SQLite has one: it reads `ix_jobs_listing`, `ix_jobs_archived` or `ix_jobs_of_owner`, which contain
everything that a filter, a search or an order needs. Columns whose own index would make it read rows are wrapped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from openpai.lifecycle.model import JOB_FINAL, JobPhase
from openpai.lifecycle.states import JOB_STATES
from openpai.ports.queries import Cursor, JobFilter
from openpai.protocol.sweeps import SWEEP_TAG
from openpai.store.schema import jobs, tags
from openpai.wire.states import STATES

Condition = sa.ColumnElement[bool]

ACTIVE: Final = tuple(phase.value for phase in JobPhase if phase not in JOB_FINAL)
# A list ordered by state has the names of the states in alphabetical order.
_RANKS: Final = {state: sa.literal_column(str(rank), sa.Integer) for rank, state in enumerate(sorted(STATES))}
_STATE: Final = sa.case({phase.value: _RANKS[state.state] for phase, state in JOB_STATES.items()}, value=jobs.c.phase)
_ORDERS: Final[Mapping[str, Any]] = {
    "jobName": jobs.c.name,
    "submissionTime": jobs.c.submitted_at_ms,
    "username": jobs.c.owner,
    "vc": jobs.c.virtual_cluster,
    "retries": jobs.c.attempt,
    "totalTaskNumber": jobs.c.tasks_total,
    "totalGpuNumber": jobs.c.gpus_total,
    "state": _STATE,
    "completionTime": jobs.c.ended_at_ms,
    "jobPriority": jobs.c.priority_class,
}
SHORT_MAX: Final = 100
"""A page of so few jobs is read without a thread."""
_PAGE: Final[Mapping[str, Any]] = {
    name: getattr(JobFilter(), name) for name in ("order", "is_ascending", "offset", "limit", "after")
}
_NULLABLE: Final = frozenset({"completionTime", "jobPriority"})


def _owners() -> sa.CTE:
    first = sa.select(sa.func.min(jobs.c.owner).label("name")).cte("owners", recursive=True)
    following = sa.select(sa.func.min(jobs.c.owner)).where(jobs.c.owner > first.c.name).scalar_subquery()
    return first.union_all(sa.select(following).select_from(first).where(first.c.name.is_not(None)))


_OWNERS: Final = _owners()
"""All owners of jobs, by one step in an index each instead of reading every job."""
OWNERS_HOLDING: Final = sa.select(_OWNERS.c.name).where(sa.func.instr(_OWNERS.c.name, sa.bindparam("word")) > 0)


class Manner(NamedTuple):
    """The differences between the databases."""

    holds: Callable[[Any, str], Condition]
    """Whether a text contains a word, case-sensitive."""
    apart: Callable[[sa.Column[str]], sa.ColumnElement[str]]
    """The same value, in a form for which the database chooses no index."""
    untagged: Condition
    """A condition that avoids reading the tags; empty where the database joins them efficiently."""
    counts_unseen: bool
    """Whether it counts all rows of a table without reading them."""


OF_SQLITE: Final = Manner(
    lambda name, word: sa.func.instr(name, word) > 0,
    lambda column: sa.func.coalesce(column, ""),
    sa.not_(jobs.c.is_tagged),
    counts_unseen=True,
)
# Its LIKE is case-sensitive, unlike SQLite's, and takes half as long as its strpos.
OF_POSTGRESQL: Final = Manner(
    lambda name, word: name.contains(word, autoescape=True), lambda column: column, sa.false(), counts_unseen=False
)


def is_newest_first(where: JobFilter) -> bool:
    """Return whether a page can be read from the index without sorting."""
    return _name(where) == "submissionTime" and len(where.users) < 2


def is_short(where: JobFilter) -> bool:
    """Return whether a page is the start of an index, however many jobs there are."""
    is_bare = replace(selection(where), users=()) == JobFilter()
    return is_bare and is_newest_first(where) and where.offset + where.limit <= SHORT_MAX


def selection(where: JobFilter) -> JobFilter:
    """Return the filter alone, without page and order."""
    return replace(where, **_PAGE)


def condition(where: JobFilter, manner: Manner, owners: Sequence[str] | None = None) -> Condition:
    """Return the conditions on jobs, without the cursor.

    `owners` are those whose names contain the keyword, if known.
    """
    is_active = bool(where.phases) and set(where.phases) <= set(ACTIVE)
    parts = [_archived(where, manner if is_active else None)]
    parts += _listed(where, None if is_active and not where.users else manner)
    if where.keyword:
        parts.append(sa.or_(*_holding(where.keyword, manner, owners)))
    if where.submitted_from_ms is not None:
        parts.append(jobs.c.submitted_at_ms >= where.submitted_from_ms)
    if where.submitted_to_ms is not None:
        parts.append(jobs.c.submitted_at_ms < where.submitted_to_ms)
    if where.tags_any:
        parts += [jobs.c.is_tagged, _has_tag(where.tags_any)]
    if where.sweeps:
        parts += [jobs.c.is_tagged, _has_tag([f"{SWEEP_TAG}{name}" for name in where.sweeps])]
    if where.tags_none:
        parts.append(sa.or_(manner.untagged, sa.not_(_has_tag(where.tags_none))))
    return sa.and_(*parts)


def _holding(word: str, manner: Manner, owners: Sequence[str] | None) -> Iterable[Condition]:
    yield manner.holds(jobs.c.name, word)
    yield manner.holds(jobs.c.virtual_cluster, word)
    if owners is None:
        yield manner.holds(jobs.c.owner, word)
    elif owners:
        yield jobs.c.owner.in_(owners)


def counting(where: JobFilter, matching: Condition, manner: Manner) -> sa.Select[int]:
    """Return the query for how many jobs match."""
    count = sa.select(sa.func.count()).select_from(jobs)
    if not manner.counts_unseen or selection(where) != JobFilter():
        return count.where(matching)
    archived = count.where(_archived(JobFilter(is_archived=True), None))
    return sa.select(count.scalar_subquery() - archived.scalar_subquery())


def _archived(where: JobFilter, apart: Manner | None) -> Condition:
    # Written out, as a parameter would keep the databases from seeing that an index is for just these.
    nothing: sa.ColumnElement[str] = sa.literal_column("''")
    if where.is_archived:
        return jobs.c.archive_key > nothing
    return (apart.apart(jobs.c.archive_key) if apart else jobs.c.archive_key) == nothing


def _listed(where: JobFilter, apart: Manner | None) -> Iterable[Condition]:
    if where.users:
        yield jobs.c.owner.in_(where.users)
    if where.ids is not None:
        yield jobs.c.id.in_(where.ids)
    if where.virtual_clusters:
        yield jobs.c.virtual_cluster.in_(where.virtual_clusters)
    if where.phases:
        yield (apart.apart(jobs.c.phase) if apart else jobs.c.phase).in_(where.phases)
    if where.priority_classes:
        named = [name for name in where.priority_classes if name is not None]
        either: list[Condition] = [jobs.c.priority_class.in_(named)]
        if None in where.priority_classes:
            either.append(jobs.c.priority_class.is_(None))
        yield sa.or_(*either)


def _has_tag(wanted: Sequence[str]) -> Condition:
    return sa.exists().where(tags.c.job == jobs.c.id, tags.c.tag.in_(wanted)).correlate(jobs)


def order(where: JobFilter, of: Any) -> tuple[Any, ...]:
    """Return the order of rows with `key` and `id`; the id decides between equals, so that pages leave no gaps."""
    column, id_ = of.key, of.id
    first, second = (column.asc(), id_.asc()) if where.is_ascending else (column.desc(), id_.desc())
    if _name(where) in _NULLABLE:
        first = first.nulls_last() if where.is_ascending else first.nulls_first()
    return (first, second)


class Listed(NamedTuple):
    """What the list is ordered by, and the id, of the jobs themselves or of a selection of them."""

    key: Any
    id: Any


def of_jobs(where: JobFilter) -> Listed:
    """Return what the list is ordered by."""
    return Listed(_ORDERS[_name(where)], jobs.c.id)


def after(where: JobFilter, cursor: Cursor, of: Any) -> Condition:
    """Return what a row with `key` and `id` has to be to come after a place in the list."""
    column, value, id_ = of.key, cursor.value, of.id
    beyond_id = id_ > cursor.job if where.is_ascending else id_ < cursor.job
    if value is None:
        same = sa.and_(column.is_(None), beyond_id)
        return same if where.is_ascending else sa.or_(column.is_not(None), same)
    if _name(where) not in _NULLABLE:
        here, there = sa.tuple_(column, id_), sa.tuple_(sa.literal(value, column.type), sa.literal(cursor.job))
        return here > there if where.is_ascending else here < there
    beyond = column > value if where.is_ascending else column < value
    parts = [beyond, sa.and_(column == value, beyond_id)]
    return sa.or_(*parts, column.is_(None)) if where.is_ascending else sa.or_(*parts)


def _name(where: JobFilter) -> str:
    return where.order if where.order in _ORDERS else "submissionTime"
