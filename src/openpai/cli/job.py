"""`pai job`: submit, watch, list, read, stop and start jobs.

A job is named `job` when it is one's own and `user~job` in any case.
"""

from __future__ import annotations

import typer

from openpai.cli import job_logs, job_read, job_submit, job_wishes

app = typer.Typer(help="Jobs: submit, watch, read, stop.", no_args_is_help=True, rich_markup_mode=None)
app.command("submit")(job_submit.submit)
app.command("check")(job_submit.check)
app.command("list")(job_read.list_)
app.command("show")(job_read.show)
app.command("logs")(job_logs.logs)
app.command("events")(job_read.events)
app.command("why")(job_read.why)
app.command("config")(job_read.config)
app.command("wait")(job_wishes.wait)
app.command("stop")(job_wishes.stop)
app.command("start")(job_wishes.start)
