"""The command `pai`: jobs, nodes and logs from a terminal, through the Python client alone.

Every command prints the next step for people, or a JSON document for programs. Commands import what they need when
they are called, so that each starts quickly.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any, Final

import typer

from openpai.cli import session
from openpai.cli.exits import Exit, exit_for, exit_table
from openpai.cli.lazy import lazily
from openpai.cli.options import option
from openpai.cli.output import aside, complain, document, replace_unencodable_text
from openpai.protocol.errors import Broken, InvalidParameters, PaiError, Refused
from openpai.protocol.wording import validation_message

# Where each command is, and its line in the help: the first of its own docstring.
COMMANDS: Final = {
    "login": ("openpai.cli.login:login", "Log in at a server; later commands use it."),
    "logout": ("openpai.cli.login:logout", "Log out: revoke the saved token of a server."),
    "job": ("openpai.cli.job:app", "Jobs: submit, watch, read, stop."),
    "market": ("openpai.cli.market:app", "The marketplace: templates, data sets and models of all users."),
    "sweep": ("openpai.cli.sweep:app", "Sweeps: many jobs of one file, as one."),
    "run": ("openpai.cli.run:run", "Run a command as a job, with the code in this directory."),
    "lab": ("openpai.cli.lab:lab", "Start JupyterLab as a job, and print its address."),
    "tensorboard": ("openpai.cli.tensorboard:tensorboard", "Show the logs of a job, or of a storage, in TensorBoard."),
    "node": ("openpai.cli.node:app", "The nodes that run jobs."),
    "vc": ("openpai.cli.vc:app", "Virtual clusters: the shares of the cluster."),
    "scheduler": ("openpai.cli.scheduler:app", "The scheduler: its decisions and its fairness."),
    "user": ("openpai.cli.user:app", "Users: accounts that may log in."),
    "group": ("openpai.cli.group:app", "Groups: users with the same rights."),
    "token": ("openpai.cli.token:app", "Tokens: your logins, and tokens for programs."),
    "ssh-key": ("openpai.cli.ssh_key:app", "SSH keys: the public keys of your profile."),
    "storage": ("openpai.cli.storage:app", "Storages: named places for data."),
    "quota": ("openpai.cli.quota:app", "Quotas: limits for users."),
    "budget": ("openpai.cli.budget:app", "Budgets: GPU hours in a month, a quarter or in total."),
    "exit-spec": ("openpai.cli.exit_spec:app", "Exit specs: causes of failures, and the rules that find them."),
    "report": ("openpai.cli.report:report", "Report use in hours of GPUs, CPUs and memory."),
    "metrics": ("openpai.cli.metrics:app", "Metrics: what is measured of the platform."),
    "settings": ("openpai.cli.settings:settings", "Show the settings of the server, and where each comes from."),
    "announcement": ("openpai.cli.announcement:app", "Announcements: what administrators tell all users."),
    "plugin-page": ("openpai.cli.plugin_page:app", "Plug-in pages: pages of other servers that the portal shows."),
    "audit": ("openpai.cli.audit:app", "The audit log: who did what."),
    "alert": ("openpai.cli.alert:app", "Alerts: what needs attention."),
    "import": ("openpai.cli.openpai_import:app", "Take over what another platform has."),
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
    url: Annotated[str | None, option("--url URL", "Server to use, instead of the one of the latest login.")] = None,
    version: Annotated[bool, option("--version", "Print the version.", callback=_version, is_eager=True)] = False,
) -> None:
    """Run jobs on an OpenPAI platform, and watch them."""
    session.use(url)


def _report(error: PaiError) -> int:
    if isinstance(error, Refused) and error.status == 401:
        # The server's advice is for those who write requests by hand.
        error.advice = session.how_to_log_in()
    if "--json" in sys.argv:
        document(error.as_dict())
    complain(error)
    return exit_for(error)


def _refuse_usage(message: str, context: typer.Context | None) -> int:
    if message.startswith("Usage:"):
        sys.stderr.write(message + "\n")
        return Exit.REFUSED
    path = "pai" if context is None else context.command_path
    return _report(InvalidParameters(message, f"see {path} --help"))


def wrong_value(error: Exception) -> str:
    """Return a sentence on the option, or its variable, whose value is wrong; empty for any other error."""
    faults = getattr(error.__cause__, "errors", None)
    param = getattr(error, "param", None)
    if faults is None or param is None:
        return ""
    (fault, *_) = faults()
    name = _name_given(param, getattr(error, "ctx", None))
    what = validation_message(fault).rstrip(".")
    # Such an error names the value itself.
    return f"{name}: {what}" if fault["type"] == "value_error" else f"{name} {what}, not {str(fault['input'])[:80]!r}"


def _name_given(param: Any, context: Any) -> str:
    """Return the name under which a value was given: its variable of the environment, its option or its argument."""
    source = context.get_parameter_source(param.name) if context is not None else None
    if getattr(source, "name", "") == "ENVIRONMENT":
        own = param.envvar or f"{context.auto_envvar_prefix}_{param.name.upper()}"
        names: list[str] = [own] if isinstance(own, str) else own
        return next((name for name in names if os.environ.get(name)), names[0])
    option: str = next((one for one in param.opts if one.startswith("--")), param.name.upper())
    return option


def _left_by_reader() -> int:
    """Return the code for output whose reader has closed it. Python would fail again when it flushes at exit."""
    sys.stdout = sys.__stdout__ or sys.stdout
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return Exit.OK


def _invoke() -> int:
    try:
        result = app(standalone_mode=False, prog_name="pai")
    except PaiError as error:
        return _report(error)
    except (KeyboardInterrupt, typer.Abort):
        aside("interrupted")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        return _left_by_reader()
    except SystemExit as end:
        # The library ends the process itself where it sees that the reader has gone.
        if isinstance(end.__context__, BrokenPipeError):
            return _left_by_reader()
        raise
    except UnicodeEncodeError as error:
        # Python keeps bytes of the command line that are not text, until they are sent.
        message = f"{error.object[:80]!r} is not text in this terminal's encoding"
        return _report(InvalidParameters(message, "use a locale with UTF-8, as in LC_ALL=C.UTF-8"))
    except Exception as error:
        # The library's exceptions for wrong use are private, but all of them have this method.
        usage = getattr(error, "format_message", None)
        if usage is not None:
            return _refuse_usage(wrong_value(error) or usage(), getattr(error, "ctx", None))
        if os.environ.get("PAI_DEBUG"):
            raise
        bug = Broken(f"{type(error).__name__}: {error}")
        bug.advice = "this is a bug in openpai; run the command again with PAI_DEBUG=1 and report what it prints"
        return _report(bug)
    return result if isinstance(result, int) else Exit.OK


def run() -> None:
    """Run the command line and end the process with the exit code that belongs to what happened."""
    replace_unencodable_text()
    sys.exit(int(_invoke()))
