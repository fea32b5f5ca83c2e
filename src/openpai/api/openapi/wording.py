"""Descriptions of parameters that mean the same in all operations, and examples of errors.

Each example of an error could really occur: its message fits its name.
"""

from __future__ import annotations

import re
from typing import Any, Final

from openpai.protocol.errors import STATUS_OF

JOB: Final = "`user~job`, `job` for one's own, or the job's id"
# Parameters in paths, with the words before them where the name alone is ambiguous.
_OF_PATH: Final = {
    "nodes/{name}": "name of the node",
    "storages/{name}": "name of the storage",
    "storage/config/{name}": "name of the storage",
    "storage/server/{name}": "name of the storage",
    "affinitygroups/{name}": "name of the affinity group",
    "announcements/{id}": "id of the announcement",
    "logs/{name}": "stdout, stderr, runtime or all",
    "exit-specs/{name}": "name of the exit spec",
    "files/{path}": "path in the storage",
    "extension/{path}": "keys of the extension, as in `acls/admin`",
}
_NAMED: Final = {
    "job": JOB,
    "number": "number of the job's attempt, counted from 0",
    "role": "name of the task role",
    "index": "number of the task in its role, counted from 0",
    "attempt": "number of the task's attempt, counted from 0",
    "port": "TCP port that the task listens on",
    "application": "name of the application",
    "item": "name of the item",
    "revision": "number of the revision",
    "vc": "name of the virtual cluster",
    "username": "name of the user",
    "groupname": "name of the group",
    "group": "name of the group",
    "key": "id of an SSH key",
    "token": "the token itself, or its id",
    "type": "only events of this kind",
    "browser": "true for logins only, false for tokens of applications only",
    "default": "only the default storages of one's groups",
    "names": "only these storages; may be repeated",
    "digest": "SHA-256 of the list of the code's files",
    "sweep": "name of a sweep of one's own, or user~sweep",
    "recursive": "also a directory with its contents",
    "path": "directory of the storage; by default its top",
    "virtualCluster": "name of the virtual cluster; empty for all together",
    "user": "name of the user; empty for each user without a quota of their own",
    "actor": "by these users; may be repeated",
    "action": "only these actions, as in `group.change`; may be repeated",
    "name": "only changes of this exit spec",
    "reason": "the reason for the change",
    "limit": "how many at most",
    "offset": "how many to skip at the beginning",
}
_OF_REPORTS: Final = {
    "user": "comma list of users; may be repeated",
    "vc": "comma list of virtual clusters; may be repeated",
}
_SAID: Final = {
    "BadConfigurationError": ("virtualClusters.vision: guarantees more than the cluster has", "guarantee less"),
    "FinishedJobError": ("job ann~train is over", "start it again first: pai job start train"),
    "IncorrectPasswordError": ("the password is wrong", "try again"),
    "InvalidProtocolError": ("the job file has 1 fault", "correct the lines named in `faults`"),
    "NoApiError": ("there is no GET /api/v2/job", "see /docs for the API"),
    "NoEnoughQuotaError": ("ann may have 8 GPUs at a time in vision", "ask for fewer GPUs"),
}
# The message for each status, unless the error has its own above.
_SAID_BY_STATUS: Final = {
    400: ("instances: input should be greater than or equal to 1", "see /docs for what this request may contain"),
    401: ("this token has expired", "log in and send `Authorization: Bearer TOKEN`"),
    403: ("you may not do that", "ask an administrator"),
    405: ("this path does not accept POST", "see /docs for its methods"),
    413: ("the body is too large", "send less"),
    429: ("too many requests", "wait for the time in the header Retry-After"),
    500: ("the server failed to answer request 5f1c08d6e2", "report it with the lines of the server's log"),
    501: ("this backend cannot do that", ""),
    503: ("the server or its database cannot answer right now", "wait for the time in the header Retry-After"),
}


def meaning(path: str, name: str) -> str:
    """Return the description of a parameter of an operation; raise KeyError if it has none."""
    if path.endswith("/reports/use") and name in _OF_REPORTS:
        return _OF_REPORTS[name]
    for end, message in _OF_PATH.items():
        if f"/{end}" in path and end.endswith(f"{{{name}}}"):
            return message
    return _NAMED[name]


def error_example(code: str) -> dict[str, Any]:
    """Return a document of an error that could occur."""
    if code in _SAID:
        message, advice = _SAID[code]
        return {"code": code, "message": message, "advice": advice}
    if found := re.fullmatch(r"(No|Conflict|ReadOnly)([A-Z]\w+)Error", code):
        thing = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", found[2]).lower()
        message = {
            "No": f"there is no such {thing}",
            "Conflict": f"there is already such a {thing}",
            "ReadOnly": f"this {thing} cannot be changed",
        }[found[1]]
        return {"code": code, "message": message, "advice": "list the existing ones"}
    message, advice = _SAID_BY_STATUS.get(STATUS_OF[code], ("it is in use", "wait until it is no longer in use"))
    return {"code": code, "message": message, "advice": advice}
