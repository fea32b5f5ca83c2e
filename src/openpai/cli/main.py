"""The command `pai`: jobs, nodes and logs from a terminal, through the Python client alone.

Every command tells people the next step and programs a JSON document. Commands load what they need when they are
called, so that none keeps a person waiting.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Final

import typer

from openpai.cli import session
from openpai.cli.exits import Exit, exit_for, exit_table
from openpai.cli.lazy import lazily
from openpai.cli.output import aside, complain, document, put_up_with_any_text
from openpai.protocol.errors import Broken, PaiError, Refused
from openpai.protocol.wording import validation_message

# Where each command is, and its line in the help: the first of its own docstring.
COMMANDS: Final = {
    "login": ("openpai.cli.login:login", "Log in at a server; later commands talk to it."),
    "logout": ("openpai.cli.login:logout", "Revoke the token kept for a server and forget it."),
    "job": ("openpai.cli.job:app", "Jobs: submit, watch, read, stop."),
    "run": ("openpai.cli.run:run", "Run a command as a job, and the code in this directory with it."),
    "node": ("openpai.cli.node:app", "The machines that run jobs."),
    "vc": ("openpai.cli.vc:app", "Virtual clusters: who is promised what."),
    "scheduler": ("openpai.cli.scheduler:app", "The scheduler: its decisions and its fairness."),
    "user": ("openpai.cli.user:app", "People who may log in."),
    "group": ("openpai.cli.group:app", "Groups: people who are granted the same."),
    "token": ("openpai.cli.token:app", "Your logins, and tokens for programs."),
    "storage": ("openpai.cli.storage:app", "Storages: named places for data."),
    "quota": ("openpai.cli.quota:app", "Quotas: what a user may use."),
    "report": ("openpai.cli.report:report", "Tell what was used, in hours of GPUs, processors and memory."),
    "audit": ("openpai.cli.audit:app", "The audit log: who did what."),
    "alert": ("openpai.cli.alert:app", "Alerts: what wants attention."),
    "protocol": ("openpai.cli.protocol:app", "The format of job files."),
}
EPILOG = f"""\b
A first job: pai login, then pai job submit FILE --watch
No platform to log in at? pai up runs one on this machine.

\b
Exit codes:
{exit_table()}
"""

app = typer.Typer(
    name="pai",
    cls=lazily(COMMANDS),
    help="Run jobs on an OpenPAI platform, and watch them.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        sys.stdout.write(f"pai {version('openpai')}\n")
        raise typer.Exit


@app.callback()
def options(
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="Server to talk to, instead of the latest login's.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Run jobs on an OpenPAI platform, and watch them."""
    session.use(url)


def _tell(error: PaiError) -> int:
    if isinstance(error, Refused) and error.status == 401:
        # The server's advice is for whoever writes requests by hand.
        error.advice = session.how_to_log_in()
    if "--json" in sys.argv:
        document(error.as_dict())
    complain(error)
    return exit_for(error)


def _misused(message: str, context: typer.Context | None) -> int:
    if message.startswith("Usage:"):
        sys.stderr.write(message + "\n")
        return Exit.REFUSED
    path = "pai" if context is None else context.command_path
    return _tell(Refused("InvalidParametersError", message, f"see {path} --help"))


def _wrong_value(error: Exception) -> str:
    """Return in a sentence what value of which option is wrong; empty where that is not what is wrong."""
    faults = getattr(error.__cause__, "errors", None)
    param = getattr(error, "param", None)
    if faults is None or param is None:
        return ""
    (fault, *_) = faults()
    name = next((one for one in param.opts if one.startswith("--")), param.name.upper())
    what = validation_message(fault).rstrip(".")
    # Such an error names the value itself.
    return f"{name}: {what}" if fault["type"] == "value_error" else f"{name} {what}, not {str(fault['input'])[:80]!r}"


def _invoke() -> int:
    try:
        result = app(standalone_mode=False, prog_name="pai")
    except PaiError as error:
        return _tell(error)
    except (KeyboardInterrupt, typer.Abort):
        aside("interrupted")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain again when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except UnicodeEncodeError as error:
        # Python keeps bytes of the command line that are no text, until somebody wants to send them.
        message = f"{error.object[:80]!r} is no text in this terminal's encoding"
        return _tell(Refused("InvalidParametersError", message, "use a locale with UTF-8, as in LC_ALL=C.UTF-8"))
    except Exception as error:
        # What the command line library raises for a wrong use is private to it, but all of it can be told.
        usage = getattr(error, "format_message", None)
        if usage is not None:
            return _misused(_wrong_value(error) or usage(), getattr(error, "ctx", None))
        if os.environ.get("PAI_DEBUG"):
            raise
        bug = Broken(f"{type(error).__name__}: {error}")
        bug.advice = "this is a bug in openpai; run the command again with PAI_DEBUG=1 and report what it prints"
        return _tell(bug)
    return result if isinstance(result, int) else Exit.OK


def run() -> None:
    """Run the command line and end the process with the exit code that belongs to what happened."""
    put_up_with_any_text()
    sys.exit(int(_invoke()))
