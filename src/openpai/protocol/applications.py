"""The applications of a job: servers in its tasks that browsers reach through the platform (`extras.applications`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

APPLICATIONS_MAX: Final = 16
NAME_PATTERN: Final = r"^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$"
"""A name is part of a label of the DNS, beside a job's id."""
PATH_PATTERN: Final = r"^/([^/\\\s?#%][^\\\s]*)?$"
IDLE_MAX_S: Final = 10 * 365 * 86_400.0
HTTP_LABEL: Final = "http"


class Kind(StrEnum):
    """What the platform knows about the server of an application."""

    WEB = "web"
    JUPYTER = "jupyter"
    """Busy kernels and terminals count as use, and what its page asks by itself does not."""


@dataclass(frozen=True, slots=True)
class Application:
    """A server in one task of a job."""

    name: str
    role: str
    index: int
    port: int | str
    """The port it listens on in the task, or the label of a port that the platform allocates."""
    title: str
    path: str = "/"
    """What a browser opens first."""
    health_path: str = "/"
    """What answers as soon as it is ready."""
    kind: Kind = Kind.WEB
    idle_s: float | None = None
    """After how long without use its job is stopped; 0 for never, None for the operator's default."""
    owns_job: bool = False
    """Whether the job exists for it alone, so that the operator's default applies."""


def declared(extras: Mapping[str, Any], roles: Sequence[str]) -> tuple[Application, ...]:
    """Return the applications that a valid job file declares; `roles` are its task roles in the order of the file."""
    given = extras.get("applications")
    return tuple(_application(each, roles) for each in given) if isinstance(given, list) else ()


def _application(each: Mapping[str, Any], roles: Sequence[str]) -> Application:
    path, idle_s = each.get("path") or "/", each.get("idleSeconds")
    return Application(
        name=each["name"],
        role=each.get("taskRole") or roles[0],
        index=each.get("taskIndex") or 0,
        port=each.get("port") or HTTP_LABEL,
        title=each.get("title") or each["name"],
        path=path,
        health_path=each.get("healthPath") or path,
        kind=Kind(each.get("kind") or Kind.WEB),
        idle_s=None if idle_s is None else float(idle_s),
        owns_job=each.get("ownsJob") is True,
    )
