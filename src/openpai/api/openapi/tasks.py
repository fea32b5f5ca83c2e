"""Operations on tasks, their logs and files, and on job attempts for older clients."""

from __future__ import annotations

from typing import Final

from openpai.api.openapi.operations import Operation
from openpai.wire import job_attempts, kept_work, logs, tasks

_NO_JOB: Final = "NoJobError"
_J: Final = "/api/v2/jobs/{job}"
_TASK: Final = f"{_J}/attempts/{{number}}/taskRoles/{{role}}/taskIndex/{{index}}/attempts"
_LOGS: Final = f"{_TASK}/{{attempt}}/logs"
_KEPT: Final = "NoJobError NoJobConfigError"
_EVENT: Final = (
    'id: stdout=3\nevent: log\ndata: {"stream":"stdout","offset":0,"text":"hi\\n"}\n\nevent: end\ndata: {}\n\n'
)
_HEADERS: Final = {
    "X-Log-Offset": "of a single log: offset of the answer's first byte",
    "X-Log-End": "of a single log: offset after the answer's last byte, counting parts that were cut out",
    "X-Log-Size": "of a single log: its size in bytes",
}
_TAR: Final = f"{_TASK}/{{attempt}}/work"
OPERATIONS: Final[dict[str, Operation]] = {
    f"GET {_TASK}": Operation("listTaskAttempts", "Show a task and its attempts", tasks.TaskDetail, _KEPT),
    f"GET {_LOGS}": Operation(
        "listLogs", "List the logs of a task attempt", logs.LogLocations, f"{_KEPT} NoTaskLogError"
    ),
    f"GET {_LOGS}/{{name}}": Operation(
        "getLog",
        "Read or follow a log",
        None,
        f"{_KEPT} NoTaskLogError",
        media={"text/plain": "epoch 1 of 10\n", "text/event-stream": _EVENT},
        headers=_HEADERS,
    ),
    f"GET {_J}/work": Operation(
        "listKeptWork", "List what tasks left in their working directories", kept_work.KeptFiles, _NO_JOB
    ),
    f"GET {_TAR}": Operation(
        "getKeptWork",
        "Fetch what a task left in its working directory",
        None,
        f"{_KEPT} NoTaskLogError NoFileError",
        media={"application/x-tar": "(a tar archive)"},
    ),
    f"GET {_J}/job-attempts/healthz": Operation(
        "checkOldAttempts", "Check whether attempts are kept", media={"text/plain": "ok"}
    ),
    f"GET {_J}/job-attempts": Operation(
        "listOldAttempts", "List attempts for older clients", list[job_attempts.OldAttempt], _KEPT
    ),
    f"GET {_J}/job-attempts/{{number}}": Operation(
        "getOldAttempt", "Show an attempt for older clients", job_attempts.OldAttempt, _KEPT
    ),
}
