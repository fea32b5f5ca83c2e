"""`pai job`: submit, watch, list, read, stop and start jobs.

A job is named `job` by its owner and `user~job` by anyone. The CLI counts attempts from 1; the API counts from 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from openpai.cli import completion
from openpai.cli.formatting import plural
from openpai.cli.lazy import group
from openpai.cli.options import argument
from openpai.protocol.errors import Refused

if TYPE_CHECKING:
    from openpai.client import Client, JobDetail, TaskView

COMMANDS: Final = {
    "submit": ("openpai.cli.job_submit:submit", "Submit a job file."),
    "clone": ("openpai.cli.job_submit:clone", "Submit a copy of a job under another name, with its secrets."),
    "check": ("openpai.cli.job_submit:check", "Check a job file offline: every fault, with its line."),
    "list": ("openpai.cli.job_read:list_", "List jobs, newest first."),
    "show": ("openpai.cli.job_read:show", "Show a job: its state, its tasks, and why it waits or failed."),
    "logs": ("openpai.cli.job_logs:logs", "Print the log of a task, or follow it with -f."),
    "top": ("openpai.cli.job_top:top", "Show what the running tasks of a job use: processors, memory, GPUs."),
    "metrics": ("openpai.cli.job_metrics:metrics", "Show charts of what the tasks of a job used."),
    "efficiency": (
        "openpai.cli.job_efficiency:efficiency",
        "Show how much of what it asked for a job used, and what to ask for instead.",
    ),
    "fetch": ("openpai.cli.job_fetch:fetch", "Fetch the files that tasks left in their working directories."),
    "events": ("openpai.cli.job_read:events", "Show what happened to a job, oldest first."),
    "why": (
        "openpai.cli.job_queue:why",
        "Show why a job waits, which jobs are in its way, and when it may start; or why it failed.",
    ),
    "move": ("openpai.cli.job_queue:move", "Move a waiting job among those of equal priority in its virtual cluster."),
    "scale": ("openpai.cli.job_queue:scale", "Change the number of tasks of a job; the other tasks run on."),
    "priority": ("openpai.cli.job_queue:priority", "Change the priority of a job; a running job keeps running."),
    "checkpoint": ("openpai.cli.job_queue:checkpoint", "Record that a job has just saved a checkpoint."),
    "config": ("openpai.cli.job_read:config", "Print a job's file, with its secrets masked."),
    "exec": ("openpai.cli.job_exec:exec_", "Run a command in a running task, or a shell with -it."),
    "ssh": ("openpai.cli.job_ssh:ssh", "Open a shell in a running task, or connect to its own SSH server."),
    "cp": ("openpai.cli.job_cp:cp", "Copy files to or from a running task."),
    "forward": ("openpai.cli.job_forward:forward", "Forward a port of this machine to a running task."),
    "open": ("openpai.cli.job_open:open_", "Print an address that opens an application of a job, such as Jupyter."),
    "wait": ("openpai.cli.job_actions:wait", "Wait until a job ends."),
    "stop": ("openpai.cli.job_actions:stop", "Stop jobs; a job that has ended stays as it is."),
    "start": ("openpai.cli.job_actions:start", "Run jobs that have ended again, as a new attempt."),
    "restart": ("openpai.cli.job_actions:restart", "Run jobs again from their beginning, running or ended."),
    "tag": ("openpai.cli.job_actions:tag", "Add a tag to jobs, by which they can be found."),
    "untag": ("openpai.cli.job_actions:untag", "Remove a tag from jobs."),
    "archive": (
        "openpai.cli.job_actions:archive",
        "Archive ended jobs: they leave the list, and their names become free.",
    ),
    "unarchive": ("openpai.cli.job_actions:unarchive", "Move jobs, named by their ids, out of the archive."),
    "delete": ("openpai.cli.job_actions:delete", "Delete ended jobs with their logs, for good."),
}
app = group("Jobs: submit, watch, read, stop.", COMMANDS)

Name = Annotated[str, argument("NAME", "Job, as `job` or `user~job`.", completion.jobs)]


def job_in(pai: Client, name: str, attempt: int | None) -> JobDetail:
    """Return a job in one of its attempts, the newest for None; raise Refused for one that it never had."""
    if attempt is None:
        return pai.job(name)
    newest = pai.job(name)
    _check(f"job {newest.full_name}", attempt, newest.attempt)
    return pai.job(name, attempt - 1)


def task_attempt(task: TaskView, attempt: int | None) -> int | None:
    """Return the API's number of a task's attempt, the newest for None; raise Refused for one that it never had."""
    if attempt is None:
        return task.attempt
    _check(f"task {task.name}", attempt, task.attempt)
    return attempt - 1


def _check(what: str, attempt: int, newest: int | None) -> None:
    made = 0 if newest is None else newest + 1
    if attempt > made:
        raise Refused("NoJobError", f"{what} has no attempt {attempt}", f"it has had {plural(made, 'attempt')} so far")
