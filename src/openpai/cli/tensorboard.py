"""`pai tensorboard`: TensorBoard over the logs of a job or of a storage."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from openpai.cli import application_job, completion, formatting, output, session
from openpai.cli.application_job import Needs, Program
from openpai.cli.job_open import Browser, open_when_ready
from openpai.cli.options import argument, fields_as_options, option
from openpai.protocol.errors import InvalidParameters, Refused

if TYPE_CHECKING:
    from openpai.client import Client

NAME: Final = "tensorboard"
IMAGE: Final = "tensorflow/tensorflow:latest"
EVENTS: Final = "**/*tfevents*"
# TensorBoard has no login of its own, and other users of a machine reach its loopback ports: what does not come
# through the platform is refused.
_SCRIPT: Final = """{directory}
python=$(command -v python3 || command -v python || echo python3)
"$python" -c 'import tensorboard' 2>/dev/null || {{
    echo "error: TensorBoard is not installed where this task runs: $python cannot import it" >&2
    echo "Install it in the Python environment of the server's tasks (pip install tensorboard) and start it again," >&2
    echo "or, on a platform with containers, name an image that has it: pai tensorboard --image IMAGE" >&2
    exit 127
}}
[ -d "$dir" ] || {{ echo "error: there is no directory $dir" >&2; exit 1; }}
exec "$python" - --logdir="$dir" --host=127.0.0.1 --port="$PAI_CURRENT_CONTAINER_PORT" <<'END_OF_PROGRAM'
import hmac, os, sys
from tensorboard import default, program
wanted = "Bearer " + os.environ["PAI_APPLICATION_TOKEN"]
class Guarded(program.WerkzeugServer):
    def __init__(self, app, flags):
        def checked(environ, start):
            if hmac.compare_digest(environ.get("HTTP_AUTHORIZATION", "").encode(), wanted.encode()):
                return app(environ, start)
            start("401 Unauthorized", [("Content-Type", "text/plain")])
            return [b"open it through the platform: pai job open"]
        super().__init__(checked, flags)
board = program.TensorBoard(default.get_plugins(), server_class=Guarded)
board.configure(argv=sys.argv)
sys.exit(board.main())
END_OF_PROGRAM
"""


@fields_as_options(Needs, "needs", without={"gpus"})
def tensorboard(
    job: Annotated[str | None, argument("JOB", "A job, as `job` or `user~job`.", completion.jobs)] = None,
    *,
    needs: Needs,
    storage: Annotated[
        str | None,
        option("--storage NAME", "Show logs of this storage instead of those of a job.", completion.storages),
    ] = None,
    path: Annotated[str, option("--path PATH", "Directory in the storage.")] = "",
    detach: Annotated[bool, option("--detach -d", "Return once the job is submitted.")] = False,
    browser: Browser = False,
    print_: Annotated[bool, option("--print --dry-run", "Print the job file instead of running it.")] = False,
    json: output.Json = False,
) -> int:
    """Show the logs of a job, or of a storage, in TensorBoard, and print its address when it is ready.

    A job that runs TensorBoard itself, by the plugin `tensorboard`, is opened there. Of one that has ended, the event
    files that its tasks left are sent to a small job with TensorBoard, as those of a storage are shown by one.
    """
    if (job is None) == (storage is None):
        raise InvalidParameters("give a job, or --storage NAME", "see pai tensorboard --help")
    if path and storage is None:
        raise InvalidParameters("--path is a directory in a storage", "add --storage NAME")
    with session.connect() as pai:
        if storage is not None:
            where = application_job.directory_of_storage(storage, path)
            made = application_job.job_of(_program(where), needs, (storage,))
        else:
            name = job or ""
            known = pai.job(name)
            if not known.is_final and any(one.name == NAME for one in known.applications):
                return open_when_ready(pai, name, NAME, browser=browser, json=json)
            code = "" if print_ else _send_events(pai, name, json=json)
            made = application_job.job_of(_program('dir="$PWD"'), needs, code=code)
        if print_:
            return application_job.print_job(made)
        return application_job.submit(pai, made, detach=detach, browser=browser, json=json)


def _program(directory: str) -> Program:
    return Program(NAME, "TensorBoard", IMAGE, (_SCRIPT.format(directory=directory),))


def _send_events(pai: Client, name: str, *, json: bool) -> str:
    """Send the event files that the tasks of a job left; return the name of what was sent."""
    from openpai.client.code import code_of
    from openpai.client.sending import list_code, send_code

    with tempfile.TemporaryDirectory(prefix="pai-tensorboard-") as there:
        count = _fetch(pai, name, Path(there))
        if not count:
            message = f"the tasks of {name} left no event files of TensorBoard that are kept"
            advice = (
                "a running job shows them with the plugin `tensorboard` in its file; logs in a storage with "
                "`pai tensorboard --storage NAME --path PATH`"
            )
            raise Refused("NoFileError", message, advice)
        listed = list_code(code_of(Path(there)))
        send_code(pai, listed)
        if not json:
            output.say(f"Sent {formatting.plural(count, 'event file')}, {formatting.size(listed.bytes)}.")
        return listed.digest


def _fetch(pai: Client, name: str, there: Path) -> int:
    """Fetch the event files of the newest attempt of each task; return how many there are."""
    from openpai.client.kept_work import fetch_work

    newest = {(one.role, one.index): one for one in pai.kept_work(name)}
    count = 0
    for one in newest.values():
        try:
            count += len(fetch_work(pai, name, one, there / one.name if len(newest) > 1 else there, (EVENTS,)))
        except Refused as error:
            # Some of several tasks may have left none.
            if error.code != "NoFileError":
                raise
    return count
