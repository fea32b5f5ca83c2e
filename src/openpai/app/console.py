"""What a server prints when it starts and stops, and its log: text on a terminal, JSON lines elsewhere."""

from __future__ import annotations

import logging
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any

import structlog

from openpai.app.settings import LogFormat, Settings

if TYPE_CHECKING:
    from rich.console import Console as Terminal


def set_up_logging(form: LogFormat = "auto") -> None:
    """Send the log to standard error: text on a terminal and one JSON object per line elsewhere, or as `form` says."""
    is_text = form == "text" or (form == "auto" and sys.stderr.isatty())
    # By default structlog prints local variables, and some hold secrets.
    plain = structlog.dev.plain_traceback
    renderer: Any = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)
        if is_text
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=not is_text),
            structlog.processors.StackInfoRenderer(),
            *([] if is_text else [structlog.processors.format_exc_info]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    _set_up_libraries(structlog.get_config()["processors"])


def _set_up_libraries(processors: list[Any]) -> None:
    """Format the log lines of libraries like those of the server."""
    meant_for_us = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    form = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.add_logger_name, *processors[:-1]],
        processors=[meant_for_us, processors[-1]],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(form)
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


class Console:
    """Prints messages of the server to standard output."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @cached_property
    def _console(self) -> Terminal:
        # Read when something is printed: a server prints nothing before its first decision.
        from rich.console import Console as Terminal

        return Terminal(highlight=False, emoji=False, soft_wrap=True)

    def welcome(self, version: str, url: str, password: str | None, admin: str, *, is_open: bool) -> None:
        """Print the URL of the server, its backend, and the next step."""
        say = self._console.print
        say(f"[bold]openpai {version}[/bold] is up at [bold]{url}[/bold]   (API: {url}/docs)")
        if self._settings.api_only:
            say(
                f"data in {self._settings.data_dir}   answers requests only; another server runs the jobs", markup=False
            )
            return
        say(f"data in {self._settings.data_dir}   backend: {self._settings.backend}", markup=False)
        if self._settings.backend == "process":
            settings = self._settings
            others = ", or run tasks as other users with --task-uids" if settings.runs_tasks_as_root else ""
            message = f"jobs run as processes with {settings.rights}: give accounts only to people you trust{others}"
            say(message, style="yellow", markup=False)
            if is_open:
                say("[bold yellow]other machines can reach it, because of --allow-remote[/bold yellow]")
        if password is not None:
            say(f"first start: user [bold]{admin}[/bold], password [bold]{password}[/bold]   (shown only now)")
        say(f"next: pai login --url {url} --user {admin}   Ctrl-C ends the server, not its jobs")

    def ssh(self, port: int) -> None:
        """Print how SSH clients reach running tasks."""
        host = self._settings.host
        self._console.print(f"SSH: pai ssh-key add FILE.pub, then ssh -p {port} USER+JOB@{host}", markup=False)

    def ended(self) -> None:
        """Print that the server ended and that tasks did not."""
        if self._settings.api_only:
            return
        self._console.print("the server has ended; running tasks run on, and the next start finds them again")
