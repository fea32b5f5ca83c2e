"""Prometheus's two queries, for pages of OpenPAI's old portal that are blank without an answer.

The administrator's home asks for jobs that use their GPUs little. This platform measures no use yet, so nothing is
known of any job, and that is what is answered: an empty result with a warning. The portal sends no login along, and
nothing about anybody is told here.
"""

from __future__ import annotations

from typing import Final, Literal

from fastapi import APIRouter, Request
from starlette.responses import Response

from openpai.api.answers import reply

router = APIRouter(tags=["cluster"])
_WARNING: Final = "this platform measures no metrics: there is nothing to answer a query from"


@router.get("/prometheus/api/v1/query")
async def query(request: Request) -> Response:
    """Answer a query at one moment: nothing is measured."""
    return reply(_nothing("vector"))


@router.get("/prometheus/api/v1/query_range")
async def query_range(request: Request) -> Response:
    """Answer a query over a span of time: nothing is measured."""
    return reply(_nothing("matrix"))


def _nothing(kind: Literal["vector", "matrix"]) -> dict[str, object]:
    return {"status": "success", "data": {"resultType": kind, "result": []}, "warnings": [_WARNING]}
