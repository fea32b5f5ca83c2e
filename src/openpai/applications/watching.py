"""Watches applications: whether they answer, when they were used last, and when their job is stopped for that.

Times are those of a clock that is never set, and begin again with the server: a restart stops no job at once.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import h11
import structlog

from openpai.applications.connections import Upstreams, asked, body_of
from openpai.applications.labels import label_of
from openpai.applications.model import Services
from openpai.ports.applications import ApplicationState, ApplicationView, PlacedApplication
from openpai.ports.platform import NotLeading
from openpai.protocol.applications import Kind
from openpai.protocol.errors import PaiError, Unavailable

ROUND_S: Final = 1.0
PROBE_S: Final = 5.0
PROBES_AT_ONCE: Final = 16
PAUSE_MAX_S: Final = 10.0
KERNELS_EVERY_S: Final = 60.0
WARN_S: Final = 15 * 60.0
"""How long before a job is stopped its owner is warned; a quarter of a short limit."""
BY: Final = "openpai"
_KERNELS_MAX: Final = 1 << 20
# What JupyterLab asks by itself as long as its page is open.
_BY_ITSELF: Final = re.compile(rb"/(?:api|lab/api|static|lsp)(?:/|$)")
_log: Final = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Watched:
    place: PlacedApplication
    used_s: float
    is_ready: bool = False
    probe_at_s: float = 0.0
    pause_s: float = 0.5
    kernels_at_s: float = 0.0
    is_warned: bool = False


class Watch:
    """What is known of the applications of all jobs that run."""

    def __init__(self, services: Services, upstreams: Upstreams) -> None:
        self._services = services
        self._upstreams = upstreams
        self._watched: dict[str, _Watched] = {}

    def touch(self, label: str) -> None:
        """Note that an application is used now."""
        found = self._watched.get(label)
        if found is not None:
            found.used_s = _now_s()

    def is_active(self, label: str) -> bool:
        """Return whether the job of an application is not over."""
        return label in self._watched

    @staticmethod
    def is_use(kind: Kind, method: str, path: bytes, query: bytes) -> bool:
        """Return whether a request is more than what an open page asks by itself."""
        if kind is not Kind.JUPYTER:
            return True
        return not (method in ("GET", "HEAD") and _BY_ITSELF.match(path)) and b"no_track_activity" not in query

    def views(self, job: str) -> Mapping[str, ApplicationView]:
        """Return what is known of the applications of a job, by their names."""
        now_s, now_ms = _now_s(), self._services.clock.now_ms()
        found = {label: one for label, one in self._watched.items() if one.place.job == job}
        stops_s = self._stops_s(found.values())
        return {
            one.place.application.name: ApplicationView(
                _state(one),
                int(now_ms - (now_s - one.used_s) * 1000) if one.place.key is not None else None,
                None if stops_s is None or one.place.key is None else int(now_ms + (stops_s - now_s) * 1000),
            )
            for one in found.values()
        }

    async def run(self) -> None:
        """Watch for ever, while this server leads."""
        while True:
            try:
                await self.look()
            except NotLeading:
                self._watched.clear()
            except Unavailable:
                # The database is away, as other messages say.
                pass
            await asyncio.sleep(ROUND_S)

    async def look(self) -> None:
        """Look at all applications once. Raise NotLeading on a server that does not lead."""
        now_s = _now_s()
        watched: dict[str, _Watched] = {}
        for place in await self._services.platform.applications():
            label = label_of(place)
            known = self._watched.get(label)
            if known is None or known.place.key != place.key or known.place.port != place.port:
                known = _Watched(place, now_s)
            known.place = place
            watched[label] = known
        self._watched = watched
        running = [one for one in watched.values() if one.place.key is not None and one.place.port is not None]
        await self._probe([one for one in running if not one.is_ready and one.probe_at_s <= now_s][:PROBES_AT_ONCE])
        for one in running:
            if one.is_ready and one.place.application.kind is Kind.JUPYTER and self._limit_s(one):
                await self._look_at_kernels(one)
        await self._end_idle(running)

    async def _probe(self, due: Sequence[_Watched]) -> None:
        for one in due:
            one.probe_at_s = _now_s() + one.pause_s
            one.pause_s = min(2 * one.pause_s, PAUSE_MAX_S)
        await asyncio.gather(*(self._ask(one) for one in due))

    async def _ask(self, one: _Watched) -> None:
        try:
            async with asked(self._upstreams, one.place, one.place.application.health_path, PROBE_S) as (status, _):
                one.is_ready = status < 500
                one.used_s = _now_s()
        except (PaiError, h11.RemoteProtocolError, h11.LocalProtocolError, OSError, TimeoutError):
            return

    async def _look_at_kernels(self, one: _Watched) -> None:
        if one.kernels_at_s > _now_s():
            return
        one.kernels_at_s = _now_s() + min(KERNELS_EVERY_S, (self._limit_s(one) or 0) / 4)
        for path in ("/api/kernels", "/api/terminals"):
            try:
                async with asked(self._upstreams, one.place, path, PROBE_S) as (status, upstream):
                    found = json.loads(await body_of(upstream, _KERNELS_MAX)) if status == 200 else []
            except (PaiError, h11.RemoteProtocolError, h11.LocalProtocolError, OSError, ValueError, RecursionError):
                continue
            ages = [age for each in found if (age := _age_s(each)) is not None] if isinstance(found, list) else []
            if ages:
                one.used_s = max(one.used_s, _now_s() - min(ages))

    def _limit_s(self, one: _Watched) -> float | None:
        application = one.place.application
        if application.idle_s is not None:
            return application.idle_s or None
        return (self._services.limits.idle_s or None) if application.owns_job else None

    def _stops_s(self, of_job: Iterable[_Watched]) -> float | None:
        """Return when the job of these applications is stopped: once all of them that have a limit are idle."""
        ends = [one.used_s + limit_s for one in of_job if (limit_s := self._limit_s(one)) is not None]
        return max(ends, default=None)

    async def _end_idle(self, running: Sequence[_Watched]) -> None:
        now_s = _now_s()
        jobs: dict[str, list[_Watched]] = {}
        for one in running:
            if self._limit_s(one) is not None:
                jobs.setdefault(one.place.job, []).append(one)
        for found in jobs.values():
            stops_s = self._stops_s(found)
            if stops_s is None:
                continue
            last = max(found, key=lambda one: one.used_s + (self._limit_s(one) or 0))
            limit_s = self._limit_s(last) or 0.0
            if now_s >= stops_s:
                await self._stop(last, limit_s)
            elif now_s < stops_s - min(WARN_S, limit_s / 4):
                last.is_warned = False
            elif not last.is_warned:
                last.is_warned = True
                await self._warn(last, now_s - last.used_s, stops_s - now_s)

    async def _warn(self, one: _Watched, idle_s: float, left_s: float) -> None:
        place = one.place
        message = (
            f"application {place.application.name} was not used for {_length(idle_s)}; the job is stopped in "
            f"{_length(left_s)} unless it is used: pai job open {place.full_name}"
        )
        await self._services.platform.warn(place.job, "ApplicationIdle", message)

    async def _stop(self, one: _Watched, limit_s: float) -> None:
        place = one.place
        reason = f"application {place.application.name} was not used for {_length(limit_s)}"
        _log.info("a job is stopped because its application is idle", job=place.full_name)
        await self._services.platform.stop(place.user, place.job_name, BY, reason)


def _state(one: _Watched) -> ApplicationState:
    if one.place.is_over:
        return ApplicationState.GONE
    if one.place.key is None:
        return ApplicationState.WAITING
    return ApplicationState.READY if one.is_ready else ApplicationState.STARTING


def _age_s(document: object) -> float | None:
    """Return how long ago a kernel or a terminal did something; None if it does not say."""
    if not isinstance(document, dict):
        return None
    if document.get("execution_state") == "busy":
        return 0.0
    try:
        at = datetime.fromisoformat(str(document.get("last_activity")))
        # The task's clock may differ from ours.
        return max(0.0, (datetime.now(at.tzinfo) - at).total_seconds())
    except (ValueError, TypeError):
        return None


def _length(seconds: float) -> str:
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} hours"
    return f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} seconds"


def _now_s() -> float:
    return asyncio.get_running_loop().time()
