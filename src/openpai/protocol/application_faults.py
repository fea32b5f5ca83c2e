"""Checks applications across keys: the task roles, tasks and ports that they name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from openpai.protocol.applications import HTTP_LABEL
from openpai.protocol.findings import Finding
from openpai.protocol.spelling import nearest
from openpai.protocol.wording import listed

_LABELS: Final = (HTTP_LABEL, "ssh")
"""Labels that every task role has."""


def application_faults(given: Sequence[Any], roles: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the faults of applications across keys: roles, tasks and ports that are not there, and names used twice."""
    seen: set[str] = set()
    for index, each in enumerate(given):
        if not isinstance(each, dict):
            continue
        name, wanted = each.get("name"), each.get("taskRole")
        if isinstance(name, str) and name in seen:
            message = f"there is already an application called {name!r}"
            yield Finding(("extras", "applications", index, "name"), message, "one name for each application")
        seen.add(str(name))
        if wanted is None and len(roles) > 1:
            message = "is missing, and the job has several task roles"
            yield Finding(("extras", "applications", index, "taskRole"), message, listed(list(roles)))
        elif isinstance(wanted, str) and wanted not in roles:
            message = f"there is no task role called {wanted!r}"
            place = ("extras", "applications", index, "taskRole")
            yield Finding(place, message, listed(list(roles)), nearest(wanted, list(roles)))
        else:
            role = roles.get(wanted) if isinstance(wanted, str) else next(iter(roles.values()), None)
            yield from _place_faults(index, each, role if isinstance(role, dict) else {})


def _place_faults(index: int, each: Mapping[str, Any], role: Mapping[str, Any]) -> Iterator[Finding]:
    tasks, task, port = role.get("instances", 1), each.get("taskIndex") or 0, each.get("port")
    if isinstance(tasks, int) and isinstance(task, int) and task >= tasks > 0:
        place = ("extras", "applications", index, "taskIndex")
        yield Finding(place, f"is {task}, and the task role has {tasks} tasks", f"0 to {tasks - 1}")
    need = role.get("resourcePerInstance")
    ports = need.get("ports") if isinstance(need, dict) else None
    labels = [*(ports if isinstance(ports, dict) else {}), *_LABELS]
    if isinstance(port, str) and port not in labels:
        message = f"there is no port labelled {port!r}"
        allowed = f"a number, or one of {listed(list(dict.fromkeys(labels)))}"
        yield Finding(("extras", "applications", index, "port"), message, allowed, nearest(port, labels))
