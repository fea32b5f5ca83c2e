"""What parameters mean that have one meaning wherever they stand, and what errors say, for readers of the description.

An error's example is one that could be met: its sentence fits its name, for a reader learns from examples first.
"""

from __future__ import annotations

import re
from typing import Any, Final

from openpai.protocol.errors import STATUS_OF

JOB: Final = "`user~job`, `job` for one's own, or the job's id"
# What stands in a path is called after the words before it where its own name says too little.
_OF_PATH: Final = {
    "nodes/{name}": "name of the machine",
    "storages/{name}": "name of the storage",
    "storage/config/{name}": "name of the storage",
    "storage/server/{name}": "name of the storage",
    "affinitygroups/{name}": "name of the gang",
    "logs/{name}": "stdout, stderr, runtime or all",
    "files/{path}": "path in the storage",
    "extension/{path}": "keys of the extension, as in `acls/admin`",
}
_NAMED: Final = {
    "job": JOB,
    "number": "number of the job's attempt, counted from 0",
    "role": "name of the task role",
    "index": "number of the task in its role, counted from 0",
    "attempt": "number of the task's attempt, counted from 0",
    "vc": "name of the virtual cluster",
    "username": "name of the user",
    "groupname": "name of the group",
    "group": "name of the group",
    "token": "the token itself, or its id",
    "type": "only events of this kind",
    "browser": "true for logins only, false for tokens of applications only",
    "default": "only the default storages of one's groups",
    "names": "only these storages; may be repeated",
    "recursive": "also a directory with all that is in it",
    "path": "directory of the storage; its top unless given",
    "virtualCluster": "name of the virtual cluster; empty for all of them together",
    "user": "name of the user; empty for each user without a quota of their own",
    "actor": "done by these users; may be repeated",
    "action": "only these actions, as in `group.change`; may be repeated",
    "limit": "how many at most",
    "offset": "how many to leave out at the beginning",
}
_OF_REPORTS: Final = {
    "user": "comma list of users; may be repeated",
    "vc": "comma list of virtual clusters; may be repeated",
}
_SAID: Final = {
    "BadConfigurationError": ("virtualClusters.vision: promises more than there is", "promise less"),
    "FinishedJobError": ("job ann~train is over", "start it again first: pai job start train"),
    "IncorrectPasswordError": ("the password is not right", "try again"),
    "InvalidProtocolError": ("the job file has 1 fault", "mend the lines named in `faults`"),
    "NoApiError": ("there is no GET /api/v2/job", "see /docs for the API"),
    "NoEnoughQuotaError": ("ann may have 8 GPUs at a time in vision", "ask for fewer GPUs"),
}
# What each status says where the error's name does not say it.
_SAID_BY_STATUS: Final = {
    400: ("instances: input should be greater than or equal to 1", "see /docs for what this request may say"),
    401: ("this token has expired", "log in and send `Authorization: Bearer TOKEN`"),
    403: ("you may not do that", "ask an administrator"),
    405: ("this address takes no POST", "see /docs for what it takes"),
    413: ("the body is larger than may be sent here", "send less"),
    429: ("too many requests", "wait as long as the header Retry-After says"),
    500: ("something went wrong inside", "report it with the time and the address"),
    501: ("this backend cannot do that", ""),
    503: ("the server or its database cannot answer right now", "wait as long as the header Retry-After says"),
}


def meaning(path: str, name: str) -> str:
    """Return what a parameter of an operation means; raise KeyError for one without a description."""
    if path.endswith("/reports/use") and name in _OF_REPORTS:
        return _OF_REPORTS[name]
    for end, message in _OF_PATH.items():
        if f"/{end}" in path and end.endswith(f"{{{name}}}"):
            return message
    return _NAMED[name]


def error_example(code: str) -> dict[str, Any]:
    """Return a document of an error that could be met."""
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
        return {"code": code, "message": message, "advice": "look at the list of those there are"}
    message, advice = _SAID_BY_STATUS.get(STATUS_OF[code], ("it is in use", "wait until it is no longer in use"))
    return {"code": code, "message": message, "advice": advice}
