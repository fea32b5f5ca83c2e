"""The past of series from Prometheus, or what speaks its query language, such as VictoriaMetrics."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Final

import httpx

from openpai.protocol.errors import Unavailable
from openpai.series.catalogue import METRICS
from openpai.series.labels import Labels, Matcher
from openpai.series.model import MISSING, Answer, Query, Series
from openpai.series.rounds import Round

_PATIENCE: Final = httpx.Timeout(20.0, connect=5.0)
_ANSWER_MAX: Final = 64 << 20
SERIES_MAX: Final = 10_000
"""The series of one query that are read; each takes some KB here."""
_NOT_OURS: Final = frozenset({"__name__", "instance", "job"})
"""Labels that a scrape adds."""
_FIRST_MS: Final = 1_000_000_000_000
"""September 2001: VictoriaMetrics takes smaller numbers of seconds for years, and nothing was measured before."""
_SCRAPE_S: Final = 30
"""The usual time between two scrapes; a rate needs two of them."""


class PrometheusHistory:
    """Answers queries from a server elsewhere, which scrapes `/metrics` or is written to."""

    def __init__(self, url: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._client = httpx.AsyncClient(base_url=url.rstrip("/"), timeout=_PATIENCE, transport=transport)

    async def open(self, now_ms: int) -> None:
        """Need nothing."""

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def keep(self, now: Round) -> None:
        """Leave it to the other server to keep values."""

    async def range(self, query: Query, now_ms: int) -> Answer:
        """Return the past of the matching series; none, but their number, if there are too many to be read."""
        matched = await self._count(query)
        if matched > max(query.series_max, SERIES_MAX):
            return Answer((), query.step_ms, matched)
        means = await self._ask(query, _over("avg", query))
        lows = highs = means
        if query.has_range:
            lows, highs = [await self._ask(query, _over(how, query)) for how in ("min", "max")]
        # A point of ours is about the time after it, one of Prometheus about the time before.
        start_ms = query.start_ms // query.step_ms * query.step_ms
        length = max(1, -(-(query.end_ms - start_ms) // query.step_ms))
        series = []
        for labels, mean in list(means.items())[: query.series_max]:
            columns = [
                [points.get(start_ms + (place + 1) * query.step_ms, MISSING) for place in range(length)]
                for points in (mean, lows.get(labels, {}), highs.get(labels, {}))
            ]
            series.append(Series(query.name, labels, start_ms, query.step_ms, *columns))
        return Answer(tuple(series), query.step_ms, len(means))

    async def _count(self, query: Query) -> int:
        """Return how many series match at the moment when most do: a million would not fit into memory."""
        counts = await self._ask(query, f"count({selector(query.name, query.matchers)})")
        return int(max((count for points in counts.values() for count in points.values()), default=0))

    async def _ask(self, query: Query, text: str) -> dict[Labels, dict[int, float]]:
        start_ms = (max(query.start_ms, _FIRST_MS) // query.step_ms + 1) * query.step_ms
        end_ms = max(start_ms, -(-query.end_ms // query.step_ms) * query.step_ms)
        form = {"query": text, "start": f"{start_ms / 1000}", "end": f"{end_ms / 1000}", "step": f"{query.step_ms}ms"}
        body = bytearray()
        try:
            async with self._client.stream("POST", "/api/v1/query_range", data=form) as answer:
                async for part in answer.aiter_bytes():
                    body += part
                    if len(body) > _ANSWER_MAX:
                        message = f"the answer of the server of metrics about {query.name} is larger than 64 MiB"
                        raise Unavailable(message, "ask for a shorter time, or narrow it by labels")
        except httpx.HTTPError as error:
            message = f"the server of metrics at {self._client.base_url.host} does not answer: {type(error).__name__}"
            raise Unavailable(message, "an administrator has to check --metrics-url") from error
        # Some MiB take a while, and the event loop has other work.
        return await asyncio.to_thread(_read, answer.status_code, body)


def selector(name: str, matchers: Sequence[Matcher]) -> str:
    """Return a query's series in Prometheus's language."""
    parts = []
    for one in matchers:
        # A value is matched as it is, whatever characters a user has put into it.
        values = "|".join(_literal(value) for value in sorted(one.values))
        parts.append(f'{one.label}{one.operator}~"{values}"')
    return f"{name}{{{','.join(parts)}}}"


def _over(how: str, query: Query) -> str:
    found = selector(query.name, query.matchers)
    # The other server may have more than what is measured here.
    if query.name in METRICS and METRICS[query.name].kind == "counter":
        window_ms = max(query.step_ms, 4 * _SCRAPE_S * 1000)
        return f"rate({found}[{window_ms}ms])"
    window_ms = max(query.step_ms, 2 * _SCRAPE_S * 1000)
    return f"{how}_over_time({found}[{window_ms}ms])"


def _literal(value: str) -> str:
    """Return an expression for RE2 that matches this text alone, as a string of Prometheus's language."""
    plain = "".join(f"\\{char}" if char in r"\.+*?()|[]{}^$" else char for char in value)
    return plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _read(status: int, body: bytearray) -> dict[Labels, dict[int, float]]:
    try:
        document: Any = json.loads(body)
        if document["status"] != "success":
            raise Unavailable(f"the server of metrics refused the query: {document.get('error', '')}"[:500])
        found = {}
        for row in document["data"]["result"]:
            labels = Labels.of({name: text for name, text in row["metric"].items() if name not in _NOT_OURS})
            found[labels] = {round(float(at_s) * 1000): float(value) for at_s, value in row["values"]}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"the server of metrics answered {status} with something else than Prometheus does"
        raise Unavailable(message, "an administrator has to check --metrics-url") from error
    return found
