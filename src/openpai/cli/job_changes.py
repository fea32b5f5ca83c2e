"""The options that change a job file before it is sent: `--set`, `--vc`, `--gpus` and so on."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from openpai.cli import completion, job_file
from openpai.cli.durations import FORMS, whole_seconds
from openpai.cli.job_edit import Edited, Editor, child, keys_of
from openpai.cli.options import setting
from openpai.cli.sweep import matrix_of
from openpai.protocol.errors import InvalidParameters, InvalidProtocol
from openpai.protocol.spelling import nearest
from openpai.protocol.sweeps import SWEEP_JOBS_MAX

if TYPE_CHECKING:
    import yaml

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs from the job file; each field is an option of the commands that send one."""

    name: str | None = setting("Name of the job, instead of the file's.", flags="--name NAME")
    parameters: list[str] | None = setting("Another value for a parameter of the file.", flags="--set KEY=VALUE")
    vc: str | None = setting("Virtual cluster to run in.", flags="--vc NAME", complete=completion.virtual_clusters)
    priority: str | None = setting("crit, prod, test or oppo.", flags="--priority CLASS")
    time_limit: str | None = setting(
        f"Longest run of an attempt: {FORMS}; a bare number is minutes.", flags="--time-limit TIME"
    )
    env: list[str] | None = setting("Variable for every task; visible in the job file.", flags="--env -e NAME=VALUE")
    gpus: list[str] | None = setting("GPUs for each task.", flags="--gpus [ROLE=]N")
    instances: list[str] | None = setting("Number of tasks.", flags="--instances [ROLE=]N")
    matrix: list[str] | None = setting(
        "Make a sweep: a job for each combination of these values, as in lr=0.1,0.01 or seed=1..5.",
        flags="--matrix NAME=VALUES",
    )
    max_running: int | None = setting(
        "How many jobs of a sweep may run at a time.", flags="--max-running N", min=1, max=SWEEP_JOBS_MAX
    )

    @property
    def are_none(self) -> bool:
        """Return whether nothing changes."""
        single = (self.name, self.vc, self.priority, self.time_limit, self.max_running)
        lists = (self.parameters, self.env, self.gpus, self.instances, self.matrix)
        return all(one is None for one in single) and not any(lists)


def changed(content: bytes, wanted: Changes, code: str = "") -> Edited:
    """Return a job file with changes made; raise Refused for one that this file has no place for.

    `code` names the code that is sent along.
    """
    if wanted.are_none and not code:
        return Edited(content, content.decode("utf-8", "replace"), ())
    parameters = [_assignment(one, "--set key=value") for one in wanted.parameters or ()]
    variables = [_variable(one) for one in wanted.env or ()]
    minutes = None if wanted.time_limit is None else _minutes(wanted.time_limit)
    editor = Editor(content)
    root = editor.root
    if root is None or not keys_of(root):
        return Edited(content, content.decode("utf-8", "replace"), ())
    is_v1 = "protocolVersion" not in keys_of(root) and not keys_of(child(root, "taskRoles"))
    _set_parameters(editor, root, parameters)
    if wanted.name is not None:
        editor.put(root, ("jobName" if child(root, "jobName") else "name",), wanted.name)
    if wanted.vc is not None:
        editor.put(root, ("virtualCluster",) if is_v1 else ("defaults", "virtualCluster"), wanted.vc)
    if wanted.priority is not None:
        editor.put(root, ("extras", "hivedScheduler", "jobPriorityClass"), wanted.priority)
    _put_sweep(editor, root, wanted)
    if code:
        editor.put(root, ("extras", "code"), code)
    if minutes is not None:
        editor.put(root, ("extras", "timeLimitMinutes"), minutes)
    roles = dict(_roles(root))
    for given, flag, old, new in (
        (wanted.gpus, "--gpus", ("gpuNumber",), ("resourcePerInstance", "gpu")),
        (wanted.instances, "--instances", ("taskNumber",), ("instances",)),
    ):
        for role, value in (_of_role(one, roles, flag) for one in given or ()):
            if sum(one is roles[role] for one in roles.values()) > 1:
                message = f"{flag}: task role {role!r} shares its definition with other roles"
                raise InvalidParameters(message, "change it in the file")
            editor.put(roles[role], old if is_v1 else new, _number(value))
    _add_variables(editor, root, roles, variables, is_v1)
    return editor.edited()


def _put_sweep(editor: Editor, root: yaml.Node, wanted: Changes) -> None:
    if wanted.matrix:
        editor.put(root, ("extras", "sweep", "matrix"), matrix_of(wanted.matrix))
    if wanted.max_running is not None:
        editor.put(root, ("extras", "sweep", "maxRunning"), wanted.max_running)


def makes_sweep(edited: Edited) -> bool:
    """Return whether a file, as it is sent, has a matrix."""
    return b"matrix" in edited.content and child(child(Editor(edited.content).root, "extras"), "sweep") is not None


def describe(file: str, edited: Edited, refusal: InvalidProtocol) -> str:
    """Return the number of faults and all of them, each with its line in the file."""
    count = "1 fault" if len(refusal.faults) == 1 else f"{len(refusal.faults)} faults"
    return f"{file} has {count}:\n\n{job_file.describe(edited.text, edited.faults(refusal.faults))}\n"


def _set_parameters(editor: Editor, root: yaml.Node, wanted: Sequence[tuple[str, str]]) -> None:
    # Version 1 of the format has other names for the same.
    parameters = child(root, "parameters") or child(root, "jobEnvs")
    for key, value in wanted:
        node = child(parameters, key)
        if node is None:
            near = nearest(key, keys_of(parameters))
            known = ", ".join(keys_of(parameters)) or "none"
            raise InvalidParameters(
                f"the job file has no parameter {key!r}; it has: {known}",
                f"did you mean {near!r}?" if near else "only a parameter that is in the file can be changed",
            )
        editor.replace(node, f"parameter {key!r}", value)


def _add_variables(
    editor: Editor, root: yaml.Node, roles: dict[str, yaml.Node], variables: Sequence[tuple[str, str]], is_v1: bool
) -> None:
    if is_v1:
        for name, value in variables:
            editor.put(root, ("jobEnvs", name), value)
    elif variables:
        exports = [f"export {name}={shlex.quote(value)}" for name, value in variables]
        for role in roles.values():
            editor.prepend(child(role, "commands"), exports)


def _roles(root: yaml.Node) -> Iterator[tuple[str, yaml.Node]]:
    """Yield the task roles of either version by name."""
    import yaml

    roles = child(root, "taskRoles")
    if isinstance(roles, yaml.MappingNode):
        yield from ((str(name.value), role) for name, role in roles.value if keys_of(role))
    elif isinstance(roles, yaml.SequenceNode):
        for role in roles.value:
            if (name := child(role, "name")) is not None:
                yield str(name.value), role


def _of_role(given: str, roles: dict[str, yaml.Node], option: str) -> tuple[str, str]:
    role, equals, value = given.rpartition("=")
    known = ", ".join(roles)
    if equals and role not in roles:
        near = nearest(role, roles)
        advice = f"did you mean {near!r}?" if near else f"its task roles: {known or 'none'}"
        raise InvalidParameters(f"the job file has no task role {role!r}", advice)
    if not equals and len(roles) != 1:
        raise InvalidParameters(
            f"{option} {given}: the job file has {len(roles)} task roles: {known or 'none'}",
            f"name the role: {option} {next(iter(roles))}={given}" if roles else "add one to the file",
        )
    return role or next(iter(roles)), value


def _number(text: str) -> int | str:
    # The check of the job file reports what is not a number.
    return int(text) if re.fullmatch(r"-?\d{1,12}", text) else text


def _assignment(given: str, form: str) -> tuple[str, str]:
    key, equals, value = given.partition("=")
    if not equals or not key:
        raise InvalidParameters(f"{given!r} is not an assignment", f"write it as {form}")
    return key, value


def _variable(given: str) -> tuple[str, str]:
    name, value = _assignment(given, "--env NAME=value")
    if not _VARIABLE.fullmatch(name):
        advice = "use letters, digits and _, and do not begin with a digit"
        raise InvalidParameters(f"{name!r} is not a name for a variable", advice)
    return name, value


def _minutes(given: str) -> float:
    """Return a time limit in minutes; a bare number is minutes, as in Slurm."""
    limit_s = whole_seconds(given, "--time-limit", bare="m")
    return limit_s // 60 if limit_s % 60 == 0 else round(limit_s / 60, 4)
