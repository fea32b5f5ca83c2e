"""`pai lab`: JupyterLab as a job."""

from __future__ import annotations

from typing import Annotated, Final

from openpai.cli import application_job, completion, output, session
from openpai.cli.application_job import Needs, Program
from openpai.cli.job_open import Browser
from openpai.cli.options import fields_as_options, option

IMAGE: Final = "jupyter/scipy-notebook:latest"
IMAGE_WITH_GPUS: Final = "tensorflow/tensorflow:latest-gpu-jupyter"
# The token is in no argument, which other users of the machine can read, and is not printed.
_SCRIPT: Final = """if command -v jupyter-lab >/dev/null 2>&1; then program=lab
elif command -v jupyter-notebook >/dev/null 2>&1; then program=notebook
else
    echo "error: JupyterLab is not installed where this task runs: PATH=$PATH" >&2
    echo "Install it in the Python environment of the server's tasks (pip install jupyterlab) and start it again," >&2
    echo "or, on a platform with containers, name an image that has it: pai lab --image IMAGE" >&2
    exit 127
fi
{directory}
export JUPYTER_TOKEN="$PAI_APPLICATION_TOKEN"
exec jupyter "$program" --no-browser --allow-root --ip=127.0.0.1 --port="$PAI_CURRENT_CONTAINER_PORT" \\
    --ServerApp.port_retries=0 --ServerApp.allow_remote_access=True --ServerApp.root_dir="$dir"
"""


@fields_as_options(Needs, "needs")
def lab(
    *,
    needs: Needs,
    storage: Annotated[
        str | None,
        option("--storage NAME", "Storage in which notebooks are kept; without one, in the task.", completion.storages),
    ] = None,
    detach: Annotated[bool, option("--detach -d", "Return once the job is submitted.")] = False,
    browser: Browser = False,
    print_: Annotated[bool, option("--print --dry-run", "Print the job file instead of running it.")] = False,
    json: output.Json = False,
) -> int:
    """Start JupyterLab as a job, and print its address when it is ready.

    It gets 1 CPU and 4 GiB unless options say otherwise. Without --storage, notebooks are in the task's working
    directory, from which `pai job fetch` brings them back for a day after its end.
    """
    job = application_job.job_of(program(needs, storage), needs, (storage,) if storage else ())
    if print_:
        return application_job.print_job(job)
    with session.connect() as pai:
        return application_job.submit(pai, job, detach=detach, browser=browser, json=json)


def program(needs: Needs, storage: str | None) -> Program:
    """Return what runs JupyterLab in a task."""
    where = application_job.directory_of_storage(storage) if storage else 'dir="${PAI_WORK_DIR:-$PWD}"'
    return Program(
        "lab",
        "JupyterLab",
        IMAGE_WITH_GPUS if needs.gpus else IMAGE,
        (_SCRIPT.format(directory=where),),
        path="/",
        health_path="/api/status",
        kind="jupyter",
    )
