"""Names, labels and annotations of the objects of a task attempt.

Names follow from the attempt alone, so that a second launch of it fails, whichever server sends it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Final

from openpai.lifecycle.model import AttemptKey

PREFIX: Final = "openpai/"
SCOPE_LABEL: Final = f"{PREFIX}scope"
JOB_LABEL: Final = f"{PREFIX}job"
ATTEMPT_LABEL: Final = f"{PREFIX}job-attempt"
ROLE_LABEL: Final = f"{PREFIX}role"
INDEX_LABEL: Final = f"{PREFIX}index"
USER_LABEL: Final = f"{PREFIX}user"
NAME_LABEL: Final = f"{PREFIX}name"
PART_LABEL: Final = f"{PREFIX}part"
"""What an object is: `task`, `fence`, `files`, `registry`, `network`, `grants`."""
EPOCH_LABEL: Final = f"{PREFIX}epoch"
"""The epoch of the leader that created a pod."""
NOTICE_ANNOTATION: Final = f"{PREFIX}end-notice"
"""Why a pod is about to be deleted, for its task."""
FINALIZER: Final = f"{PREFIX}exit"
"""Keeps a pod that was deleted until its exit is recorded."""
NODE_NAME_MAX: Final = 253
_LABEL_MAX: Final = 63
_SLUG_MAX: Final = 24
_UNFIT_FOR_DNS: Final = re.compile(r"[^a-z0-9]+")
_UNFIT_FOR_LABELS: Final = re.compile(r"[^A-Za-z0-9._-]+")
_NODE_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_PEOPLE: Final[Mapping[str, str]] = {"user": USER_LABEL, "job": NAME_LABEL, "role": ROLE_LABEL, "index": INDEX_LABEL}


# An attempt is named a few times within a moment, and its pod keeps the name.
@lru_cache(maxsize=1024)
def pod_name(scope: str, key: AttemptKey) -> str:
    """Return the name of an attempt's pod, a DNS label that no other attempt of any platform has."""
    return f"pai-{_role_slug(key.role)}-{key.index}-{digest(scope, key.path(), length=20)}"


def host_name(key: AttemptKey) -> str:
    """Return the name of a task's host within its job: the same for every attempt, and no other task's."""
    return f"{_host_role(key.role)}-{key.index}"


@lru_cache(maxsize=256)
def _role_slug(role: str) -> str:
    return slug(role)


@lru_cache(maxsize=256)
def _host_role(role: str) -> str:
    short = slug(role)
    return short if short == role else f"{short}-{digest(role, length=4)}"


@lru_cache(maxsize=256)
def service_name(job: str) -> str:
    """Return the name of the service under which the tasks of a job find each other."""
    return f"pai-{job}" if is_dns_label(f"pai-{job}") else f"pai-{slug(job)}-{digest(job, length=20)}"


def label_value(text: str) -> str:
    """Return text as the value of a label: unchanged if it may be one, else similar to it."""
    return _UNFIT_FOR_LABELS.sub("_", text)[:_LABEL_MAX].strip("._-")


def people_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels for people who look at a pod: its user, its job's name, its role and its index."""
    return {_PEOPLE[name]: label_value(text) for name, text in labels.items() if name in _PEOPLE}


def index_label(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the one of `people_labels` in which the tasks of a role differ."""
    return {INDEX_LABEL: label_value(labels["index"])} if "index" in labels else {}


def is_node_name(name: str) -> bool:
    """Return whether a node can have this name."""
    return len(name) <= NODE_NAME_MAX and _NODE_NAME.fullmatch(name) is not None


def is_dns_label(name: str) -> bool:
    """Return whether a name is one label of a DNS name."""
    return len(name) <= _LABEL_MAX and "." not in name and is_node_name(name)


def slug(text: str) -> str:
    """Return text with only what a DNS name may contain, cut to a length that leaves room for the rest of a name."""
    return _UNFIT_FOR_DNS.sub("-", text.lower())[:_SLUG_MAX].strip("-") or "x"


def digest(*parts: str, length: int) -> str:
    """Return hexadecimal digits that differ for different parts."""
    joined = "\0".join(f"{len(part)} {part}" for part in parts)
    return hashlib.sha256(joined.encode()).hexdigest()[:length]


class NodeNames(Collection[str]):
    """Whether a name can be a node's: one that is gone now is no fault of the job."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and is_node_name(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0
