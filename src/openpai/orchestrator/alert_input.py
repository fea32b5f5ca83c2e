"""Fetches what the conditions of rules select: measured values from `ports.metrics`, recorded ones from facts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from typing import Final

from openpai.alerts.series import NOTHING, SERIES_MAX, Data, Fetched, Labels, Points, Selector, as_labels, matching
from openpai.orchestrator.alert_facts import NAMES
from openpai.orchestrator.alert_state import Facts
from openpai.ports.metrics import Metrics
from openpai.protocol.errors import Unavailable
from openpai.protocol.spelling import nearest
from openpai.series.catalogue import METRICS
from openpai.series.labels import Matcher
from openpai.series.model import Query

POINTS: Final = 60
"""About how many points of each series a range is read as."""
STEP_MIN_MS: Final = 10_000
_ALSO: Final = {"node": "node_name", "gpu": "minor_number", "virtual_cluster": "vc_name"}
"""Labels of measured values that recorded ones, and actions, know by another name."""
STALE_MS: Final = 5 * 60_000
"""How old a value of the past may be to hold at a time."""


async def fetch(wanted: Iterable[Selector], facts: Facts, metrics: Metrics | None, now_ms: int) -> Data:
    """Return what each selector matches now; of the past while it does not answer, why not."""
    found: dict[Selector, Fetched] = {}
    unavailable = ""
    for selector in wanted:
        if selector in found:
            continue
        if selector.name in facts:
            found[selector] = matching(facts[selector.name], selector.matchers)
        elif metrics is None:
            found[selector] = NOTHING
        elif selector.range_ms:
            if not unavailable:
                try:
                    found[selector] = await _past(metrics, selector, now_ms - selector.range_ms, now_ms)
                    continue
                except Unavailable as error:
                    # Each further question would wait as long, and rules about present values must go on.
                    unavailable = error.message
            found[selector] = Fetched({}, {}, problem=unavailable)
        else:
            samples = metrics.latest(selector.name, _exact(selector))
            found[selector] = matching({_named(each.labels.pairs): each.value for each in samples}, selector.matchers)
    return found


async def fetch_past(
    wanted: Iterable[Selector], metrics: Metrics | None, from_ms: int, to_ms: int, step_ms: int
) -> Mapping[Selector, Fetched]:
    """Return for a replay all points of measured series, with those before it that ranges reach."""
    found: dict[Selector, Fetched] = {}
    for selector in wanted:
        if metrics is not None and selector not in found:
            start_ms = from_ms - (selector.range_ms or STALE_MS)
            found[selector] = await _past(metrics, selector, start_ms, to_ms, step_ms)
    return found


def misnamed(wanted: Iterable[Selector], data: Data) -> str:
    """Return what to correct if a selector without values names nothing that is measured or recorded; else nothing."""
    for selector in wanted:
        fetched = data.get(selector, NOTHING)
        if selector.name in METRICS or selector.name in NAMES or fetched.newest or fetched.points or fetched.problem:
            continue
        near = nearest(selector.name, (*NAMES, *METRICS))
        meant = f"; did you mean {near}?" if near else "."
        where = "`pai metrics list` shows what is measured, and docs/alerts.md what else rules know"
        return f"there is no metric {selector.name}{meant} {where}"
    return ""


def at(past: Mapping[Selector, Fetched], facts: Facts, wanted: Iterable[Selector], at_ms: int, step_ms: int) -> Data:
    """Return what each selector matched at a time of the past."""
    data: dict[Selector, Fetched] = {}
    for selector in wanted:
        if selector.name in facts:
            data[selector] = matching(facts[selector.name], selector.matchers)
            continue
        fetched = past.get(selector, NOTHING)
        since_ms = at_ms - (selector.range_ms or max(STALE_MS, 2 * step_ms))
        parts: dict[Labels, Points] = {}
        for labels, points in fetched.points.items():
            first = bisect_left(points, since_ms, key=lambda point: point[0])
            last = bisect_right(points, at_ms, key=lambda point: point[0])
            if first < last:
                parts[labels] = points[first:last]
        newest = {} if selector.range_ms else {labels: points[-1][1] for labels, points in parts.items()}
        data[selector] = Fetched(newest, parts if selector.range_ms else {}, fetched.is_cut)
    return data


async def _past(metrics: Metrics, selector: Selector, from_ms: int, to_ms: int, step_ms: int = 0) -> Fetched:
    step_ms = max(STEP_MIN_MS, min(selector.range_ms or to_ms - from_ms, to_ms - from_ms) // POINTS, step_ms // 2)
    query = Query(selector.name, _exact(selector), from_ms, to_ms, step_ms, SERIES_MAX, has_range=False)
    answer = await metrics.range(query)
    numbered = {_named(each.labels.pairs): float(number) for number, each in enumerate(answer.series)}
    kept = matching(numbered, selector.matchers)
    is_counter = selector.name in METRICS and METRICS[selector.name].kind == "counter" and selector.range_ms > 0
    points: dict[Labels, Points] = {}
    for labels, number in kept.newest.items():
        series = answer.series[int(number)].points()
        points[labels] = _added_up(series) if is_counter else series
    # Which of the others fit is not known, so a rule must not go on without them.
    return Fetched({}, points, answer.matched > SERIES_MAX)


def _added_up(rates: Points) -> Points:
    """Return a counter whose rates are these: the platform keeps the rates of counters."""
    found: list[tuple[int, float]] = []
    value, before_ms = 0.0, rates[0][0] if rates else 0
    for at_ms, rate in rates:
        value += max(0.0, rate) * (at_ms - before_ms) / 1000
        found.append((at_ms, value))
        before_ms = at_ms
    return found


def _exact(selector: Selector) -> tuple[Matcher, ...]:
    known = [each for each in selector.matchers if each.operator == "=" and each.label not in _ALSO.values()]
    return tuple(Matcher(each.label, "=", frozenset({each.value})) for each in known)


def _named(labels: Labels) -> Labels:
    """Return labels with their other names beside them."""
    found = dict(labels)
    more = {also: found[name] for name, also in _ALSO.items() if name in found and also not in found}
    return as_labels({**found, **more}) if more else labels
