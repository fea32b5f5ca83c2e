"""Applications in the shape of the API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from openpai.lifecycle.model import JOB_FINAL
from openpai.ports.applications import ApplicationState, ApplicationView
from openpai.ports.queries import JobRow
from openpai.protocol.applications import Application
from openpai.wire.applications import JobApplication


def job_applications(
    row: JobRow, found: Iterable[Application], views: Mapping[str, ApplicationView]
) -> list[JobApplication]:
    """Return the applications of a job with what the server that leads knows of them."""
    otherwise = ApplicationState.GONE if row.phase in JOB_FINAL else ApplicationState.WAITING
    unknown = ApplicationView(otherwise, None, None)
    return [_application(one, unknown if row.phase in JOB_FINAL else views.get(one.name, unknown)) for one in found]


def _application(application: Application, view: ApplicationView) -> JobApplication:
    return {
        "name": application.name,
        "title": application.title,
        "taskRoleName": application.role,
        "taskIndex": application.index,
        "state": view.state.value,
        "usedTime": view.used_at_ms,
        "stopTime": view.stops_at_ms,
    }
