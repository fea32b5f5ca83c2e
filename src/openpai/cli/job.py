"""`pai job`: submit, watch, list, read, stop and start jobs.

A job is named `job` when it is one's own and `user~job` in any case.
"""

from __future__ import annotations

from typing import Final

from openpai.cli.lazy import group

COMMANDS: Final = {
    "submit": ("openpai.cli.job_submit:submit", "Submit a job file."),
    "check": ("openpai.cli.job_submit:check", "Check a job file offline: every fault, with its line."),
    "list": ("openpai.cli.job_read:list_", "List jobs, newest first."),
    "show": ("openpai.cli.job_read:show", "Show a job: its state, its tasks, and why it waits or failed."),
    "logs": ("openpai.cli.job_logs:logs", "Print what a task wrote, or follow it with -f."),
    "events": ("openpai.cli.job_read:events", "Show what happened to a job, oldest first."),
    "why": (
        "openpai.cli.job_queue:why",
        "Say why a job waits, what would change it, and when it may start.",
    ),
    "move": ("openpai.cli.job_queue:move", "Move a waiting job among the equally urgent ones of its virtual cluster."),
    "priority": ("openpai.cli.job_queue:priority", "Change how urgent a job is; where it runs, it runs on."),
    "checkpoint": ("openpai.cli.job_queue:checkpoint", "Say that a job has just saved its work."),
    "config": ("openpai.cli.job_read:config", "Print a job's file, its secrets masked."),
    "wait": ("openpai.cli.job_wishes:wait", "Wait until a job is over."),
    "stop": ("openpai.cli.job_wishes:stop", "Let a job end; harmless when it is over already."),
    "start": ("openpai.cli.job_wishes:start", "Let a job that is over run again, as a new attempt."),
}
app = group("Jobs: submit, watch, read, stop.", COMMANDS)
