"""Applications of jobs: tickets that let a browser in. The applications themselves have origins of their own."""

from __future__ import annotations

from typing import Annotated

from fastapi import Request

from openpai.api.answers import Reply, reply
from openpai.api.context import context_of, needs
from openpai.api.job_access import job_for
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.protocol.errors import Refused
from openpai.wire.applications import ApplicationTicket

router = Router("jobs")


@router.serves(
    "POST /api/v2/jobs/{job}/applications/{application}/ticket",
    "Make an address that opens an application",
    "NoApplicationError NoRunningTaskError",
)
async def make_application_ticket(
    request: Request, caller: Annotated[Caller, needs("job.exec")], job: str, application: str
) -> Reply[ApplicationTicket]:
    """Return an address that opens an application of a job in a browser; it works once, for a minute.

    The browser gets a session of that application, which ends with the login of the user who requested the address.
    """
    row = await job_for(request, caller, job)
    services = context_of(request).services
    found = await services.platform.applications(row.id)
    place = next((one for one in found if one.application.name == application), None)
    name = f"job {row.user}~{row.name}"
    if place is None:
        message = f"{name} has no application {application!r} that runs"
        raise Refused("NoApplicationError", message, "`pai job show` lists its applications")
    entrance = services.applications()
    if entrance is None:
        message = "this platform does not let browsers into applications"
        raise Refused("NotImplementedError", message, "an administrator switches that on with --app-ports")
    entry = entrance.enter(place, caller.token.digest, request.headers.get("host", "localhost"))
    return reply(ApplicationTicket(uri=entry.uri, expiresAt=entry.until_ms))
