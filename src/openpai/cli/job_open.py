"""`pai job open`: an address that opens an application of a job in a browser."""

from __future__ import annotations

import time
import webbrowser
from typing import TYPE_CHECKING, Annotated, Final

from openpai.cli import output, session
from openpai.cli.exits import Exit
from openpai.cli.job import Name
from openpai.cli.options import argument, option
from openpai.protocol.errors import Refused

if TYPE_CHECKING:
    from openpai.client import Client, JobDetail
    from openpai.client.model import Application

LOOK_EVERY_S: Final = 0.5
Browser = Annotated[bool, option("--browser -b", "Open the address in a browser of this machine.")]


def open_(
    name: Name,
    application: Annotated[
        str | None, argument("APPLICATION", "Its name; needed if the job has several applications.")
    ] = None,
    browser: Browser = False,
    json: output.Json = False,
) -> int:
    """Print an address that opens an application of a job, such as Jupyter, once it is ready.

    The address works once, within a minute: who opens it first gets in. Ctrl-C stops waiting; the job runs on.
    """
    with session.connect() as pai:
        return open_when_ready(pai, name, application, browser=browser, json=json)


def open_when_ready(pai: Client, name: str, application: str | None, *, browser: bool, json: bool) -> int:
    """Wait until an application is ready, and print its address; return the exit code."""
    try:
        job, found = _ready(pai, name, application, json=json)
    except KeyboardInterrupt:
        output.say(f"\n{name} keeps running; only the view has ended.")
        output.next_step(f"pai job open {name}", f"pai job stop {name}")
        return Exit.INTERRUPTED
    if found is None:
        if json:
            output.document(job.document)
            return Exit.JOB_FAILED
        return _over(job, name)
    ticket = pai.open_application(job.full_name, found.name)
    if json:
        output.document({"job": job.full_name, "application": found.name, **ticket.document})
        return Exit.OK
    output.say(f"{found.title} is ready. This address opens it in one browser, within a minute:")
    output.say(f"\n  {ticket.uri}\n")
    if browser:
        webbrowser.open(ticket.uri)
    if found.stops_at_ms is not None and found.used_at_ms is not None:
        from openpai.cli.formatting import span

        idle = span((found.stops_at_ms - found.used_at_ms) / 1000)
        output.say(f"The job is stopped when {found.title} was not used for {idle}.")
    output.next_step(f"pai job open {name}", f"pai job stop {name}")
    return Exit.OK


def _ready(pai: Client, name: str, application: str | None, *, json: bool) -> tuple[JobDetail, Application | None]:
    """Return a job and its application once that is ready, None if it never will be."""
    last_shown = ""
    while True:
        job = pai.job(name)
        found = _chosen(job, application)
        if job.is_final or found.state == "gone":
            return job, None
        if found.state == "ready":
            return job, found
        message = _message(pai, job, found, name)
        if not json and message != last_shown:
            output.aside(message)
            last_shown = message
        time.sleep(LOOK_EVERY_S)


def _message(pai: Client, job: JobDetail, found: Application, name: str) -> str:
    if found.state == "starting":
        return f"{found.title} is starting ..."
    waits = pai.why(name) if job.state == "WAITING" else ()
    why = f": {waits[0].message}" if waits else ""
    return f"{job.full_name} is {job.state.lower()}{why} ..."


def _chosen(job: JobDetail, application: str | None) -> Application:
    names = [one.name for one in job.applications]
    if not names:
        message = f"job {job.full_name} has no applications"
        raise Refused("NoApplicationError", message, "`pai lab` starts Jupyter; docs/applications.md shows more")
    if application is None and len(names) > 1:
        message = f"job {job.full_name} has {len(names)} applications: {', '.join(names)}"
        raise Refused("InvalidParametersError", message, f"name one: pai job open {job.name} {names[0]}")
    found = next((one for one in job.applications if application in (None, one.name)), None)
    if found is None:
        message = f"job {job.full_name} has no application {application!r}"
        raise Refused("NoApplicationError", message, f"it has: {', '.join(names)}")
    return found


def _over(job: JobDetail, name: str) -> int:
    """Print why an application will not be ready, with the end of its log; return the exit code."""
    from openpai.cli.job_submit import ended

    if not job.is_final:
        output.say(f"Its task in {job.full_name} has ended, and the job runs on.")
        output.next_step(f"pai job logs {name}", f"pai job show {name}")
        return Exit.JOB_FAILED
    ended(job, name)
    return Exit.JOB_FAILED
