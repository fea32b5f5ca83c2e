"""Queries to a Prometheus elsewhere: what it answers is bounded, and what it alone has can be asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from urllib.parse import parse_qs

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


async def test_a_million_series_are_counted_and_not_asked_for() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(parse_qs(request.content.decode())["query"][0])
        rows = [{"metric": {}, "values": [[10, "12"], [20, "1000000"], [30, "7"]]}]
        return httpx.Response(200, json={"status": "success", "data": {"result": rows}})

    history = PrometheusHistory("http://mon", httpx.MockTransport(answer))
    found = await history.range(QUERY, 0)
    await history.close()
    assert (found.series, found.matched) == ((), 1_000_000)
    assert asked == ["count(node_filefd_allocated{})"]


async def test_who_needs_no_lows_and_highs_asks_half_as_much() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(parse_qs(request.content.decode())["query"][0].partition("(")[0])
        return httpx.Response(
            200, json={"status": "success", "data": {"result": [{"metric": {}, "values": [[10, "3"]]}]}}
        )

    history = PrometheusHistory("http://mon", httpx.MockTransport(answer))
    whole, means = [(await history.range(replace(QUERY, has_range=wanted), 0)).series for wanted in (True, False)]
    await history.close()
    assert asked == ["count", "avg_over_time", "min_over_time", "max_over_time", "count", "avg_over_time"]
    assert whole[0].points() == means[0].points() == [(0, 3.0)]


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


async def test_a_question_since_ever_begins_in_a_time_that_no_server_takes_for_a_year() -> None:
    asked: list[float] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(float(parse_qs(request.content.decode())["start"][0]))
        rows = [{"metric": {}, "values": [[1_799_971_200, "3"]]}]
        return httpx.Response(200, json={"status": "success", "data": {"result": rows}})

    history = PrometheusHistory("http://mon", httpx.MockTransport(answer))
    found = await history.range(Query("pai_node_cpus", (), 0, 1_800_000_000_000, 86_400_000), 1_800_000_000_000)
    await history.close()
    assert min(asked) >= 1_000_000_000
    ((_, value),) = found.series[0].points()
    assert value == 3
