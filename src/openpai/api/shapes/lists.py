"""What may be asked of the list of jobs, in OpenPAI's words, and what that means in ours."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from openpai.api.shapes.states import phases_of
from openpai.ports.store import JobFilter

LIMIT_MAX: Final = 50_000
_ORDERS: Final = frozenset(
    {
        "jobName",
        "submissionTime",
        "username",
        "vc",
        "retries",
        "totalTaskNumber",
        "totalGpuNumber",
        "state",
        "completionTime",
        "jobPriority",
    }
)
_TEXT: Final = r"^[^\x00]*$"


class JobsQuery(BaseModel):
    """Filters, order and page of the list of jobs. Conditions are joined by AND, values of one condition by OR."""

    model_config = ConfigDict(frozen=True)

    username: str = Field("", pattern=_TEXT, description="comma list of owners")
    vc: str = Field("", pattern=_TEXT, description="comma list of virtual clusters")
    state: str = Field("", description="comma list of WAITING, RUNNING, STOPPING, SUCCEEDED, FAILED, STOPPED")
    keyword: str = Field("", pattern=_TEXT, description="part of the owner's, the job's or the virtual cluster's name")
    tags_contain: str = Field("", alias="tagsContain", pattern=_TEXT, description="comma list: has any of these tags")
    tags_not_contain: str = Field(
        "", alias="tagsNotContain", pattern=_TEXT, description="comma list: has none of these"
    )
    job_priority: str = Field(
        "", alias="jobPriority", pattern=_TEXT, description="comma list of crit, prod, test, oppo, default"
    )
    offset: int = Field(0, ge=0, le=2**31 - 1)
    limit: int = Field(5_000, ge=0, le=LIMIT_MAX)
    order: str = Field("submissionTime,DESC", description="FIELD,ASC or FIELD,DESC; anything else is newest first")
    with_total_count: str = Field("", alias="withTotalCount", description="`true` wraps the list with its total count")


def filter_of(query: JobsQuery) -> JobFilter | None:
    """Return the filter a query means; None when no job can match it."""
    states = _listed(query.state)
    phases = phases_of(states)
    if (states and not phases) or query.limit == 0:
        return None
    order, _, direction = query.order.partition(",")
    is_ordered = order in _ORDERS and direction in ("ASC", "DESC")
    return JobFilter(
        users=_listed(query.username),
        virtual_clusters=_listed(query.vc),
        phases=phases,
        priority_classes=tuple(None if name == "default" else name for name in _listed(query.job_priority)),
        keyword=query.keyword,
        tags_any=_listed(query.tags_contain),
        tags_none=_listed(query.tags_not_contain),
        order=order if is_ordered else "submissionTime",
        is_ascending=is_ordered and direction == "ASC",
        offset=query.offset,
        limit=query.limit,
    )


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)
