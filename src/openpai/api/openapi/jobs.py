"""Operations on jobs: submit, list, show and change them."""

from __future__ import annotations

from typing import Final

from openpai.api.openapi.operations import Operation
from openpai.wire import answers, job_bulk, job_events, jobs

_JOB: Final = "NoJobError"
_LINK: Final = {"Link": 'the next page, as `<address>; rel="next"`, while there are more'}
_FILE: Final = {
    "protocolVersion": 2,
    "name": "train",
    "type": "job",
    "prerequisites": [{"type": "dockerimage", "name": "image", "uri": "python"}],
    "taskRoles": {
        "worker": {
            "instances": 1,
            "dockerImage": "image",
            "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0},
            "commands": ["true"],
        }
    },
}
_J: Final = "/api/v2/jobs"
OPERATIONS: Final[dict[str, Operation]] = {
    f"POST {_J}": Operation(
        "submitJob",
        "Submit a job",
        jobs.Submitted,
        "InvalidProtocolError ForbiddenUserError NoEnoughQuotaError NoVirtualClusterError NoStorageError "
        "ConflictJobError",
        request=_FILE,
    ),
    f"GET {_J}": Operation("listJobs", "List jobs", list[jobs.JobSummary] | jobs.JobPage, "NoNodeError", headers=_LINK),
    f"POST {_J}/bulk": Operation(
        "changeJobs", "Act on many jobs", job_bulk.BulkResults, request={"action": "stop", "jobs": ["a"]}
    ),
    f"GET {_J}/{{job}}": Operation("getJob", "Show a job", jobs.JobDetail, _JOB),
    f"DELETE {_J}/{{job}}": Operation("deleteJob", "Delete a job", answers.StatusMessage, f"{_JOB} ConflictJobError"),
    f"GET {_J}/{{job}}/attempts/{{number}}": Operation(
        "getJobAttempt", "Show an attempt of a job", jobs.JobDetail, _JOB
    ),
    f"PUT {_J}/{{job}}/executionType": Operation(
        "setJobExecution",
        "Stop, start or restart a job",
        answers.StatusMessage,
        f"{_JOB} ReadOnlyJobError ConflictJobError NoEnoughQuotaError",
    ),
    f"GET {_J}/{{job}}/config": Operation(
        "getJobConfig", "Show a job's file", None, f"{_JOB} NoJobConfigError", media={"text/yaml": _FILE}
    ),
    f"GET {_J}/{{job}}/events": Operation("listJobEvents", "List the events of a job", job_events.EventList, _JOB),
    f"GET {_J}/{{job}}/why": Operation("explainJob", "Show why a job waits", job_events.JobWaits, _JOB),
    f"GET {_J}/{{job}}/ssh": Operation(
        "getJobSsh",
        "Show how to reach a job's tasks",
        job_events.SshAddresses,
        f"{_JOB} NoJobConfigError NoJobSshInfoError",
    ),
    f"PUT {_J}/{{job}}/tag": Operation(
        "tagJob", "Put a tag on a job", answers.StatusMessage, _JOB, request={"value": "baseline"}
    ),
    f"DELETE {_J}/{{job}}/tag": Operation(
        "untagJob", "Take a tag off a job", answers.StatusMessage, f"{_JOB} NoTagError", request={"value": "baseline"}
    ),
    f"PUT {_J}/{{job}}/archive": Operation(
        "archiveJob", "Put a job into the archive", answers.StatusMessage, f"{_JOB} ConflictJobError"
    ),
    f"DELETE {_J}/{{job}}/archive": Operation(
        "unarchiveJob", "Take a job out of the archive", answers.StatusMessage, f"{_JOB} ConflictJobError"
    ),
    f"PUT {_J}/{{job}}/priority": Operation(
        "setJobPriority", "Change a job's priority", answers.StatusMessage, f"{_JOB} ReadOnlyJobError FinishedJobError"
    ),
    f"PUT {_J}/{{job}}/rank": Operation(
        "setJobRank", "Move a job in its queue", answers.StatusMessage, f"{_JOB} ReadOnlyJobError FinishedJobError"
    ),
    f"POST {_J}/{{job}}/checkpoint": Operation(
        "checkpointJob",
        "Record that a job saved its work",
        answers.StatusMessage,
        f"{_JOB} ReadOnlyJobError FinishedJobError",
    ),
}
