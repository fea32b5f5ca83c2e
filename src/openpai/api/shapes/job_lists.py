"""Queries of the list of jobs: OpenPAI's parameters, and the filters of the store that they mean."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Final

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from openpai.api.bodies import Body, invalid
from openpai.lifecycle.states import phases_of
from openpai.ports.queries import Cursor, JobFilter
from openpai.protocol.errors import Refused
from openpai.protocol.sweeps import LATER_TAG
from openpai.wire.states import STATES

LIMIT: Final = 200
LIMIT_MAX: Final = 50_000
_MS_MAX: Final = 2**53
_COUNT_MAX: Final = 2**31 - 1
_WORDS: Final = frozenset({"jobName", "username", "vc", "jobPriority"})
_TIMES: Final = frozenset({"submissionTime", "completionTime"})
_ORDERS: Final = _WORDS | _TIMES | {"retries", "totalTaskNumber", "totalGpuNumber", "state"}
_OPEN: Final = frozenset({"completionTime", "jobPriority"})
_TEXT: Final = r"^[^\x00]*$"


class JobsWhere(Body):
    """Which jobs. Conditions are joined by AND, values of one condition by OR."""

    model_config = ConfigDict(alias_generator=to_camel)

    username: str = Field("", pattern=_TEXT, description="comma list of owners")
    vc: str = Field("", pattern=_TEXT, description="comma list of virtual clusters")
    state: str = Field("", description=f"comma list of {', '.join(STATES)}")
    keyword: str = Field("", pattern=_TEXT, description="part of the owner's, the job's or the virtual cluster's name")
    tags_contain: str = Field("", pattern=_TEXT, description="comma list: has any of these tags")
    tags_not_contain: str = Field("", pattern=_TEXT, description="comma list: has none of these")
    sweep: str = Field("", pattern=_TEXT, description="comma list of names of sweeps")
    job_priority: str = Field("", pattern=_TEXT, description="comma list of crit, prod, test, oppo, default")
    submitted_from: int | None = Field(None, ge=0, le=_MS_MAX, description="submitted at this time in ms, or later")
    submitted_to: int | None = Field(None, ge=0, le=_MS_MAX, description="submitted before this time in ms")
    archived: bool = Field(False, description="`true` for the jobs in the archive instead of the others")


class JobsQuery(JobsWhere):
    """Filters, order and page of the list of jobs."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    node: str = Field("", max_length=253, description="holds resources on this node now")
    fold_sweeps: bool = Field(False, description="`true` lists of each sweep only its first job")
    after: str = Field("", max_length=2000, description="the place to continue after, from the header `Link` of a page")
    offset: int = Field(0, ge=0, le=2**31 - 1)
    limit: int = Field(LIMIT, ge=0, le=LIMIT_MAX)
    order: str = Field("submissionTime,DESC", description="FIELD,ASC or FIELD,DESC; anything else is newest first")
    with_total_count: str = Field("", description="`true` wraps the list with its total count")


def filter_of(query: JobsWhere) -> JobFilter | None:
    """Return the filter for conditions, newest first; None if no job can match."""
    states = _listed(query.state)
    phases = phases_of(states)
    if states and not phases:
        return None
    return JobFilter(
        users=_listed(query.username),
        virtual_clusters=_listed(query.vc),
        phases=phases,
        priority_classes=tuple(None if name == "default" else name for name in _listed(query.job_priority)),
        keyword=query.keyword,
        tags_any=_listed(query.tags_contain),
        tags_none=_listed(query.tags_not_contain),
        sweeps=_listed(query.sweep),
        submitted_from_ms=query.submitted_from,
        submitted_to_ms=query.submitted_to,
        is_archived=query.archived,
    )


def page_of(query: JobsQuery) -> JobFilter | None:
    """Return the filter, order and page of a query; None if no job can match."""
    where = filter_of(query)
    if where is None:
        return None
    order, _, direction = query.order.partition(",")
    is_ordered = order in _ORDERS and direction in ("ASC", "DESC")
    where = replace(
        where,
        order=order if is_ordered else "submissionTime",
        is_ascending=is_ordered and direction == "ASC",
        offset=query.offset,
        limit=query.limit,
        tags_none=(*where.tags_none, *([LATER_TAG] if query.fold_sweeps else [])),
    )
    return replace(where, after=_cursor(query.after, where)) if query.after else where


def cursor_text(where: JobFilter, end: Cursor) -> str:
    """Return a place in a list as text for a URL."""
    place = json.dumps([where.order, where.is_ascending, end.value, end.job], separators=(",", ":"))
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def _cursor(text: str, where: JobFilter) -> Cursor:
    """Return the place in a text; raise InvalidParametersError if it is not a place in a list of this order."""
    try:
        order, is_ascending, value, job = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), b"-_", True))
    except (ValueError, TypeError, RecursionError):
        raise _strange(text) from None
    if (order, is_ascending) != (where.order, where.is_ascending) or not (_is_word(job) and _is_value(where, value)):
        raise _strange(text)
    return Cursor(value, job)


def _is_value(where: JobFilter, value: object) -> bool:
    if value is None:
        return where.order in _OPEN
    if where.order in _WORDS:
        return _is_word(value)
    return type(value) is int and 0 <= value <= (_MS_MAX if where.order in _TIMES else _COUNT_MAX)


def _is_word(value: object) -> bool:
    """Return whether databases accept a value as text: without NUL and lone surrogates."""
    return isinstance(value, str) and not any(char == "\0" or "\ud800" <= char <= "\udfff" for char in value)


def _strange(text: str) -> Refused:
    return invalid(f"after: {text[:40]!r} is not a place in a list of this order")


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)
