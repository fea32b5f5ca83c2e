"""Queries to a Prometheus elsewhere: what it answers is bounded, and what it alone has can be asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from openpai.metrics import prometheus
from openpai.metrics.prometheus import PrometheusHistory
from openpai.protocol.errors import Unavailable
from openpai.series.model import Query

QUERY = Query("node_filefd_allocated", (), 0, 60_000, 10_000)


async def test_an_answer_of_a_million_series_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "_ANSWER_MAX", 5_000)
    sent = 0

    async def rows() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1_000):
            sent += 1
            yield b"x" * 1_000

    history = PrometheusHistory("http://mon", httpx.MockTransport(lambda _: httpx.Response(200, content=rows())))
    with pytest.raises(Unavailable, match="about node_filefd_allocated is larger than"):
        await history.range(QUERY, 0)
    await history.close()
    assert sent < 30


async def test_a_metric_of_another_program_is_asked_for_as_a_gauge() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.content.decode())
        row = {"metric": {"node": "n1"}, "values": [[10, "3"]]}
        return httpx.Response(200, json={"status": "success", "data": {"result": [row]}})

    history = PrometheusHistory("http://mon", httpx.MockTransport(answer))
    (series,) = (await history.range(QUERY, 0)).series
    await history.close()
    assert list(series.points()) == [(0, 3.0)]
    assert any("avg_over_time" in one for one in asked)
    assert not any("rate" in one for one in asked)
