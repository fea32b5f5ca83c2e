"""Times, durations, sizes and states as text for people."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from openpai.protocol import wording
from openpai.wire.states import STATES

STATE_STYLE: Final = {
    "WAITING": "yellow",
    "RUNNING": "cyan",
    "STOPPING": "magenta",
    "SUCCEEDED": "green",
    "FAILED": "bold red",
    "STOPPED": "magenta",
}

plural = wording.plural
memory = wording.memory


def size(count: int) -> str:
    """Return a number of bytes for a person."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def span(seconds: float) -> str:
    """Return a duration in at most two units, as in `4.2s`, `3m 05s` or `2d 3h`."""
    if seconds < 0:
        return "0s"
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    for unit_s, unit, below_s, below in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= unit_s:
            rest = whole % unit_s // below_s
            return f"{whole // unit_s}{unit} {rest:02d}{below}"
    return f"{whole}s"


def ran_for(started_at_ms: int | None, ended_at_ms: int | None, now_ms: int) -> str:
    """Return how long something has run; a dash when it never did."""
    if started_at_ms is None:
        return "-"
    return span(((now_ms if ended_at_ms is None else ended_at_ms) - started_at_ms) / 1000)


def ago(at_ms: int | None, now_ms: int) -> str:
    """Return how long ago something was; a dash when it never was."""
    return "-" if at_ms is None else f"{span(max(0, now_ms - at_ms) / 1000)} ago"


def clock_time(at_ms: int | None) -> str:
    """Return a time of this machine's clock, with the date unless it is today; a dash for none."""
    if at_ms is None:
        return "-"
    then = datetime.fromtimestamp(at_ms / 1000).astimezone()
    today = datetime.now().astimezone().date()
    return then.strftime("%H:%M:%S" if then.date() == today else "%Y-%m-%d %H:%M")


def styled(state: str) -> str:
    """Return a state in its colour, as Rich markup."""
    style = STATE_STYLE.get(state)
    return f"[{style}]{state}[/]" if style else state


def counts(states: Iterable[str]) -> str:
    """Return how many there are of each state, as in `1 RUNNING, 3 WAITING`, as Rich markup."""
    found = Counter(states)
    order = [state for state in STATES if state in found] + sorted(found.keys() - set(STATES))
    return ", ".join(f"{found[state]} {styled(state)}" for state in order)


def joined(names: Iterable[str]) -> str:
    """Return names as a list for people."""
    return ", ".join(names)


def split(given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of an option that may be repeated and may hold comma lists; empty ones are dropped."""
    return tuple(name for part in given or () for name in (word.strip() for word in part.split(",")) if name)


def details(detail: Mapping[str, Any]) -> str:
    """Return the recorded values of a request, as in `drained=true reason="fans"`; else the request itself."""
    values = " ".join(
        f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in detail.items() if key != "request"
    )
    return values or str(detail.get("request", ""))


def percent(part: int, whole: int) -> str:
    """Return a share in percent, such as `85 %`."""
    return f"{100 * part // whole} %" if whole else "0 %"
