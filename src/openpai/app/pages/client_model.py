"""The classes of the Python client, written from the documents in `openpai.wire`.

A field is called as its key, in snake case and with its unit last (`createdTime` is `created_at_ms`), unless `NAMES`
has another word for it. What a class knows beside its fields is in `openpai.client.behaviour`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from typing_extensions import get_original_bases, is_typeddict

from openpai import wire
from openpai.client import behaviour
from openpai.wire.doc import Doc

CLASSES: Final[Mapping[str, str]] = {
    "BulkResult": "Result", "BulkResults": "Results", "Capacity": "Amount", "ExitSpec": "ExitCodeRow",
    "ExitSpecDetail": "ExitSpec", "FileEntry": "FileView", "FileList": "FilePage", "Holdings": "Held",
    "JobAfter": "After", "JobApplication": "Application", "KeptTaskFiles": "WorkKept", "LogSearchHit": "LogHit",
    "Node": "NodeView", "OwnQuota": "Quota", "SshAddress": "SshTask", "SshGatewayAddress": "SshGatewayTask",
    "StorageDetail": "StorageView", "TaskStatus": "TaskView", "Token": "TokenView", "TokenInfo": "Checked",
    "UsageReport": "Report", "UsageRow": "Use",
}  # fmt: skip
"""The names of classes that are not called as their document."""

NAMES: Final[Mapping[str, str]] = {
    "AlertRule.text": "rule_text", "AlertRuleChange.text": "rule_text", "Checked.exp": "expires_at_s",
    "CheckedJob.totalGpuNumber": "gpus_total", "FilePage.entries": "files",
    "GroupAcls.managedVirtualClusters": "managed", "GroupAcls.storageConfigs": "storages",
    "JobDetail.taskRoles": "tasks", "JobPage.data": "jobs", "MetricChart.step": "step_ms",
    "OtherHoldings.cpus": "other_cpus", "OtherHoldings.gpus": "other_gpus", "OtherHoldings.jobs": "other_jobs",
    "OtherHoldings.tasks": "other_tasks", "QuotaUsage.gpuHoursThisMonth": "gpu_hours_used",
    "QuotaUsage.gpusRunning": "gpus_used", "QuotaUsage.jobsUnfinished": "jobs_used", "Resources.memory": "memory_mb",
    "RoleEfficiency.cpu": "cpu", "StorageView.share": "is_shared", "User.username": "name",
    "User.virtualCluster": "virtual_clusters", "appCompletedTime": "attempt_ended_at_ms",
    "appCreatedTime": "attempt_created_at_ms", "appExitCause": "cause", "appExitCode": "exit_code",
    "appExitDiagnostics": "exit_diagnostics", "appExitSpec": "exit_spec", "appExitTriggerMessage": "trigger_message",
    "appExitTriggerTaskIndex": "trigger_index", "appExitTriggerTaskRoleName": "trigger_role",
    "appLaunchedTime": "attempt_started_at_ms", "approval": "needs_approval", "attemptId": "attempt",
    "checkedTime": "checked_ms", "complete": "complete", "completedTime": "ended_at_ms", "containerExitCause": "cause",
    "containerExitCode": "exit_code", "containerExitDiagnostics": "exit_diagnostics", "containerExitSpec": "exit_spec",
    "containerGpus": "gpu_numbers", "containerIp": "address", "containerNodeName": "node", "containerPorts": "ports",
    "cpu": "cpus", "debugId": "id", "drainDeadline": "drain_deadline_ms", "dryRun": "is_dry",
    "earliestTime": "earliest_ms", "excludesNode": "excludes_node", "expirationTime": "expires_at_ms",
    "firstTimestamp": "first_at_ms", "from": "from_ms", "fromTime": "from_ms", "gpu": "gpus", "grouplist": "groups",
    "groupname": "name", "jobAttemptId": "job_attempt", "jobPriority": "priority", "keptUntil": "kept_until_ms",
    "lastTimestamp": "at_ms", "latestTime": "latest_ms", "launchedTime": "started_at_ms", "memoryMB": "memory_mb",
    "moveJobs": "moves_jobs", "others": "others", "powerLimitWatts": "power_limit_w", "powerWatts": "power_w",
    "resourcesBorrowed": "borrowed", "resourcesGuaranteed": "guaranteed", "resourcesLent": "lent",
    "resourcesTotal": "total", "resourcesUsed": "used", "retryDelayTime": "retry_delay_s", "runningGangs": "running",
    "runTimeErrorFactor": "run_error", "runTimes": "runs", "runTimesWithinFactor2": "runs_within_2x",
    "secondsLeft": "left_s", "sinceTime": "since_ms", "sourceHost": "node", "sshIp": "host", "sshPort": "port",
    "start": "start_ms", "startsAt": "since", "startsWithinRange": "starts_within", "stoppedProcesses": "stopped",
    "stopTime": "stops_at_ms", "storageConfig": "storages", "submissionTime": "submitted_at_ms", "taskIndex": "index",
    "taskName": "task", "taskRoleName": "role", "taskroleName": "role", "taskRoles": "roles", "taskState": "state",
    "temperatureCelsius": "temperature_c", "to": "to_ms", "totalCount": "total", "totalGpuNumber": "gpus",
    "totalTaskNumber": "tasks", "totalTaskRoleNumber": "task_roles", "toTime": "to_ms", "username": "user",
    "waitingGangs": "waiting",
}  # fmt: skip
"""Names of fields, by `Class.key` or by the key alone."""

FLAT: Final = frozenset({"acls", "annotations", "extension", "finding", "jobStatus", "others", "status", "used"})
"""Keys of inner documents whose fields are fields of the outer class."""
NULLABLE: Final = frozenset({
    "QueuedJob.job", "ClusterConfig.promises", "PromisePreview.promises", "AlertRuleChange.text",
    "QuotaUsage.gpuHoursThisMonth", "QuotaUsage.gpusRunning", "QuotaUsage.jobsUnfinished",
})  # fmt: skip
"""Texts that are None if the document has null there (others are empty), and numbers that only some answers have."""
EMPTY: Final = frozenset({"Cause", "FirstCause", "Resources"})
"""Classes of which an empty value stands for null."""
OLDER: Final = frozenset({
    "GPUs", "appExitMessages", "appExitType", "appId", "appProgress", "containerLog", "frameworkName", "hasGitHubPAT",
    "iat", "inhibitedBy", "jobSpecific", "podUid", "receivers", "taskUid", "uid", "vCores", "volumeName",
})  # fmt: skip
"""Keys that only older clients read."""
NEEDED: Final[Mapping[str, Sequence[str]]] = {
    "AuditPage": ["entries"], "Checked": ["username"], "FilePage": ["entries"], "Group": ["groupname"],
    "JobPage": ["data", "totalCount"], "Login": ["user", "token"], "NewToken": ["token"], "Report": ["rows", "total"],
    "Results": ["results"], "SshGatewayTask": ["host", "port", "user"], "SshTask": ["sshIp", "sshPort"],
    "StorageTest": ["ok", "steps"], "User": ["username"], "WhatIf": ["now", "then"],
}  # fmt: skip
"""Keys without which an answer makes no sense."""

_HEAD: Final = '''"""The answers of the platform as frozen values, written from `openpai.wire` by `make docs`.

Names are in snake case and times are milliseconds since the epoch. Fields that a newer server adds are in `document`,
the unchanged answer, which `--json` prints.
"""

# ruff: noqa: PLC0414
from openpai.client import behaviour
from openpai.client import reading as field
from openpai.client.reading import Answer
from openpai.client.reading import LogPiece as LogPiece
'''


@dataclass(frozen=True)
class _Field:
    """A line of a class."""

    name: str
    declared: str
    description: str
    inner: type | None


def client_model() -> str:
    """Return the module of the classes that the client's calls name, and of those inside them."""
    found = _Documents()
    return _HEAD + "".join(found.written())


class _Documents:
    def __init__(self) -> None:
        modules = [import_module(f"{wire.__name__}.{each.name}") for each in iter_modules(wire.__path__)]
        documents = [each for module in modules for each in vars(module).values() if is_typeddict(each)]
        by_class = {_class(each): each for each in documents}
        sources = [path.read_text("utf-8") for path in Path(behaviour.__file__).parent.rglob("*.py")]
        named = {name for source in sources for name in re.findall(r"\bmodel\.([A-Z]\w+)", source)}
        self.wanted: list[type] = []
        for name in sorted(named & by_class.keys()):
            self._want(by_class[name])
        above = [base for each in self.wanted for base in _ancestors(each)]
        for base in sorted({each for each in above if above.count(each) > 1}, key=_class):
            self._want(base)

    def _want(self, document: type) -> None:
        if document not in self.wanted:
            self.wanted.append(document)
            for field in _fields(document):
                if field.inner is not None:
                    self._want(field.inner)

    def written(self) -> Iterator[str]:
        done: list[type] = []
        for document in self.wanted:
            yield from self._written(document, done)

    def _written(self, document: type, done: list[type]) -> Iterator[str]:
        if document in done:
            return
        done.append(document)
        bases = self._bases(document)
        inherited = {field.name for base in bases for field in _fields(base)}
        fields = [field for field in _fields(document) if field.name not in inherited]
        for needed in (*bases, *(field.inner for field in fields if field.inner is not None)):
            yield from self._written(needed, done)
        name = _class(document)
        own = [f"behaviour.{name}"] if hasattr(behaviour, name) else []
        above = [*own, *map(_class, bases)] if bases else [*own, "Answer"]
        yield f'\n\nclass {name}({", ".join(above)}):\n    """{_in_python(document.__doc__ or "")}"""\n'
        if keys := NEEDED.get(name):
            yield f"\n    needed = ({', '.join(map(_quoted, keys))}{',' * (len(keys) == 1)})"
        for number, field in enumerate(fields):
            yield "\n" * (number == 0) + f"    {field.name} = {field.declared}\n"
            if field.description:
                yield f'    """{field.description}"""\n'

    def _bases(self, document: type) -> list[type]:
        """Return the nearest ancestors that are classes of their own."""
        found: list[type] = []
        for base in get_original_bases(document):
            if is_typeddict(base):
                found += [base] if base in self.wanted else self._bases(base)
        return found


def _ancestors(document: type) -> Iterator[type]:
    for base in get_original_bases(document):
        if is_typeddict(base) and base.__annotations__:
            yield base
            yield from _ancestors(base)


def _class(document: type) -> str:
    return CLASSES.get(document.__name__, document.__name__)


def _fields(document: type, outer: str = "", path: tuple[str, ...] = ()) -> list[_Field]:
    """Return the fields of a document, with those of its inner documents that are flat."""
    of = _class(document)
    own = getattr(behaviour, outer or of, object)
    found: list[_Field] = []
    for key, hint in _hints(document).items():
        if key in FLAT and (inner := _document(hint)):
            found += _fields(inner, outer or of, (*path, key))
        elif get_origin(hint) is not Literal or len(get_args(hint)) > 1:
            found += [each for each in _field(document, key, path) if not hasattr(own, each.name)]
    return found


@cache
def _hints(document: type, *, extras: bool = False) -> dict[str, Any]:
    """Return the type of each field."""
    return get_type_hints(document, include_extras=extras)


def _field(document: Any, key: str, path: tuple[str, ...]) -> Iterator[_Field]:
    of, hint = _class(document), _hints(document)[key]
    name = NAMES.get(f"{of}.{key}") or NAMES.get(key) or _name(key, hint)
    reader, kind = _reader(of, key, hint, key in document.__optional_keys__)
    if not reader or key in OLDER:
        return
    arguments = [*([] if kind is None else [_class(kind)]), *map(_quoted, (*path, key))]
    if reader == "grouped":
        arguments += [_quoted("taskStatuses"), _quoted("role")]
    secret = ", is_secret=True" if key in ("token", "extension") else ""
    yield _Field(name, f"field.{reader}({', '.join(arguments)}{secret})", _description(document, key), kind)


def _name(key: str, hint: Any) -> str:
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower()
    if hint is bool:
        return name if re.match(r"(has|is|needs|may)_", name) else f"is_{name}"
    if _plain(hint) is int and name.endswith("_at"):
        return f"{name}_ms"
    for end, unit in (("_per_second", "_per_s"), ("_seconds", "_s"), ("_time", "_at_ms")):
        if name.endswith(end):
            return name.removesuffix(end) + unit
    return "at_ms" if name == "time" else name


def _reader(of: str, key: str, hint: Any, is_optional: bool) -> tuple[str, Any]:
    """Return the function of `client.reading` for a type, and the inner document if there is one."""
    kind = _plain(hint)
    may_be_null = is_optional or hint != kind or f"{of}.{key}" in NULLABLE
    if get_origin(kind) is Literal:
        kind = type(get_args(kind)[0])
    origin, inside = get_origin(kind), get_args(kind)
    if is_typeddict(kind):
        return ("part_if_any" if may_be_null and _class(kind) not in EMPTY else "part"), kind
    if origin is not None and issubclass(origin, Mapping):
        if key == "taskRoles" and of == "JobDetail":
            return "grouped", get_type_hints(inside[1])["taskStatuses"].__args__[0]
        if is_typeddict(inside[1]):
            return "named_parts", inside[1]
        return ("mapping_if_any" if may_be_null else "mapping"), None
    if origin is not None and issubclass(origin, Sequence):
        item = _plain(inside[0])
        if is_typeddict(item):
            return "parts", item
        return {int: "amounts", float: "measures"}.get(item, "texts"), None
    if kind is str and key.endswith("Timestamp"):
        return "moment", None
    if kind is str:
        return ("text_if_any" if f"{of}.{key}" in NULLABLE else "text"), None
    if kind is int:
        return ("number" if may_be_null else "amount"), None
    if kind is float:
        return ("measured" if may_be_null else "real"), None
    return {bool: "flag", Any: "anything", NoneType: ""}[kind], None


def _plain(hint: Any) -> Any:
    """Return the type without null."""
    if get_origin(hint) in (Union, UnionType):
        others = [each for each in get_args(hint) if each is not NoneType]
        return others[0] if len(others) == 1 else Any
    return hint


def _document(hint: Any) -> type | None:
    kind: Any = _plain(hint)
    return kind if is_typeddict(kind) else None


def _description(document: type, key: str) -> str:
    docs = [each for each in _extras(_hints(document, extras=True)[key]) if isinstance(each, Doc) and each.description]
    text = docs[-1].description if docs else ""
    if text.startswith("milliseconds since 1970"):
        text = text.partition("; ")[2]
    text = _in_python(text.replace(", in milliseconds since 1970", "").replace(", in ms since 1970", ""))
    # A few words say no more than the name of the field.
    return f"{text[0].upper()}{text[1:].rstrip('.')}." if len(text.split()) > 3 else ""


def _in_python(text: str) -> str:
    return re.sub(r"\bnull\b", "None", text).replace("Null", "None")


def _extras(hint: Any) -> Iterator[Any]:
    if hasattr(hint, "__metadata__"):
        yield from hint.__metadata__
    elif get_origin(hint) is not None and getattr(get_origin(hint), "__name__", "") in ("NotRequired", "Required"):
        yield from _extras(get_args(hint)[0])


def _quoted(text: str) -> str:
    return f'"{text}"'
