"""Reads pods and events of a watch in protobuf, the form in which the API server keeps objects.

It encodes an event in protobuf once for all who watch, and in JSON for each: that costs it a tenth of creating a pod.
What is read equals what is read of JSON. The numbers of fields are those of Kubernetes' `generated.proto` files, which
never change; fields that are not listed here are skipped unread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple, TypeVar

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal import api_implementation
from google.protobuf.message import DecodeError

from openpai.kube.objects.meta import PROTOBUF_MARK, Condition, Meta, Resource
from openpai.kube.objects.pods import (
    AllocatedDevice,
    AllocatedResource,
    Container,
    ContainerState,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    Requirements,
    Running,
    Terminated,
    Waiting,
)

UNREADABLE: Final = (DecodeError, ValueError)
"""What reading raises for something that is no protobuf."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)
_SCHEMA: Final[Mapping[str, str]] = {
    "Event": "type=1 text, object=2 Extension",
    "Extension": "raw=1 text",
    "PodEnvelope": "raw=2 Pod",
    "StatusEnvelope": "raw=2 Status",
    "CreatedEnvelope": "raw=2 Created",
    "Time": "seconds=1 number",
    "Quantity": "string=1 text",
    "Entry": "key=1 text, value=2 text",
    "Amount": "key=1 text, value=2 Quantity",
    "Meta": (
        "name=1 text, namespace=3 text, uid=5 text, resource_version=6 text, creation_timestamp=8 Time, "
        "deletion_timestamp=9 Time, deletion_grace_period_seconds=10 number, labels=11 text*, annotations=12 Entry*, "
        "finalizers=14 text*"
    ),
    "Created": "metadata=1 CreatedMeta",
    "CreatedMeta": "name=1 text, namespace=3 text, uid=5 text, resource_version=6 text, annotations=12 Entry*",
    "Requirements": "limits=1 Amount*, requests=2 Amount*",
    "Container": "name=1 text, image=2 text, resources=8 text, restart_policy=24 text",
    "PodSpec": (
        "containers=2 Container*, node_name=10 text, scheduler_name=19 text, init_containers=20 Container*, "
        "priority=25 number, preemption_policy=31 text, overhead=32 Amount*, resources=40 text"
    ),
    "Condition": "type=1 text, status=2 text, reason=5 text, message=6 text",
    "Waiting": "reason=1 text, message=2 text",
    "Running": "started_at=1 Time",
    "Terminated": (
        "exit_code=1 number, signal=2 number, reason=3 text, message=4 text, started_at=5 Time, finished_at=6 Time"
    ),
    "ContainerState": "waiting=1 Waiting, running=2 Running, terminated=3 Terminated",
    "AllocatedDevice": "id=1 text",
    "AllocatedResource": "name=1 text, resources=2 AllocatedDevice*",
    "ContainerStatus": "name=1 text, state=2 ContainerState, ready=4 flag, allocated=14 AllocatedResource*",
    "PodStatus": (
        "phase=1 text, conditions=2 Condition*, message=3 text, reason=4 text, start_time=7 Time, "
        "container_statuses=8 ContainerStatus*"
    ),
    "Pod": "metadata=1 Meta, spec=2 PodSpec, status=3 PodStatus",
    "Cause": "reason=1 text, message=2 text, field=3 text",
    "Details": "causes=4 Cause*, retry_after_seconds=5 number",
    "Status": "message=3 text, reason=4 text, details=5 Details, code=6 number",
}
"""The messages and their fields; a star is a list. Text is read as bytes: it need not be UTF-8 to be stored.

What many pods have alike, a label or what they ask for, is text here, too: it is looked up instead of read again.
"""
T = TypeVar("T")


class Event(NamedTuple):
    """An event of a watch."""

    type: str
    object: bytes
    """The object, in its envelope."""


def is_quick() -> bool:
    """Return whether protobuf is read by compiled code; without it, JSON is the quicker form."""
    return bool(api_implementation.Type() == "upb")


def reader_of(kind: type[Resource]) -> Callable[[bytes], Any] | None:
    """Return what reads objects of a type, in their envelopes; None for one that is read in JSON only."""
    return pod_of if kind is Pod and is_quick() else None


def event_of(frame: bytes) -> Event:
    """Return an event of a watch. Raises `UNREADABLE`."""
    found = _message("Event").FromString(frame)
    return Event(_text(found.type), found.object.raw)


def pod_of(content: bytes) -> Pod:
    """Return a pod. Raises `UNREADABLE`."""
    found = _opened("PodEnvelope", content)
    return Pod(metadata=_meta(found.metadata), spec=_spec(found.spec), status=_status(found.status))


class PodReader:
    """Reads only some labels, annotations and conditions of pods, which are most of their parts.

    When a pod was created, and its finalizers, are left out, too.
    """

    def __init__(self, *, labels: Iterable[str], annotations: Iterable[str], conditions: Iterable[str]) -> None:
        self._labels = tuple([_key(name) for name in labels])
        self._annotations = frozenset([name.encode() for name in annotations])
        self._conditions = frozenset([name.encode() for name in conditions])

    def read(self, content: bytes) -> Pod:
        """Return what is wanted of a pod. Raises `UNREADABLE`."""
        found = _opened("PodEnvelope", content)
        meta, status = found.metadata, found.status
        return Pod(
            metadata=Meta(
                name=_text(meta.name),
                namespace=_text(meta.namespace),
                uid=_text(meta.uid),
                resource_version=_text(meta.resource_version),
                deletion_timestamp=_time(meta, "deletion_timestamp"),
                deletion_grace_period_seconds=_if_there(meta, "deletion_grace_period_seconds", int),
                labels=dict([_label(each) for each in meta.labels if each.startswith(self._labels)]) or None,
                annotations={
                    _text(each.key): _text(each.value) for each in meta.annotations if each.key in self._annotations
                }
                or None,
            ),
            spec=_spec(found.spec),
            status=_status(status, [each for each in status.conditions if each.type in self._conditions]),
        )


def _key(name: str) -> bytes:
    """Return what a label of this name begins with."""
    found: bytes = _message("Entry")(key=name.encode()).SerializeToString()
    return found


def metadata_of(content: bytes) -> Meta:
    """Return the metadata of an object of any kind. Raises `UNREADABLE`."""
    return _meta(_opened("PodEnvelope", content).metadata)


def created_of(content: bytes) -> Meta:
    """Return the names, the version and the annotations of an object that was created. Raises `UNREADABLE`."""
    found = _opened("CreatedEnvelope", content).metadata
    return Meta(
        name=_text(found.name),
        namespace=_text(found.namespace),
        uid=_text(found.uid),
        resource_version=_text(found.resource_version),
        annotations=_annotations(found),
    )


def status_of(content: bytes) -> dict[str, Any]:
    """Return what the API server says of a request that it did not carry out, as JSON has it. Raises `UNREADABLE`."""
    found = _opened("StatusEnvelope", content)
    causes = [
        {"reason": _text(cause.reason), "message": _text(cause.message), "field": _text(cause.field)}
        for cause in found.details.causes
    ]
    details = {"causes": causes, "retryAfterSeconds": found.details.retry_after_seconds}
    return {
        "code": found.code,
        "reason": _text(found.reason),
        "message": _text(found.message),
        "details": {name: value for name, value in details.items() if value},
    }


def _opened(envelope: str, content: bytes) -> Any:
    if not content.startswith(PROTOBUF_MARK):
        raise ValueError("an object does not begin with its mark")
    return _message(envelope).FromString(content[len(PROTOBUF_MARK) :]).raw


@cache
def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"openpai.{name}"))


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    kinds = descriptor_pb2.FieldDescriptorProto
    scalars = {"text": kinds.TYPE_BYTES, "number": kinds.TYPE_INT64, "flag": kinds.TYPE_BOOL}
    file = descriptor_pb2.FileDescriptorProto(name="openpai.proto", package="openpai", syntax="proto2")
    for message, fields in _SCHEMA.items():
        described = file.message_type.add(name=message)
        for each in fields.split(", "):
            place, kind = each.split()
            name, _, number = place.partition("=")
            label = kinds.LABEL_REPEATED if kind.endswith("*") else kinds.LABEL_OPTIONAL
            field = described.field.add(name=name, number=int(number), label=label)
            kind = kind.rstrip("*")
            field.type = scalars.get(kind, kinds.TYPE_MESSAGE)
            if kind not in scalars:
                field.type_name = f".openpai.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


def _text(found: bytes) -> str:
    return str(found, "utf-8", "replace")


def _time(found: Any, name: str) -> datetime | None:
    """Return a time of a message; the nearest that there is for one that no clock shows."""
    return _time_at(seconds) if found.HasField(name) and (seconds := getattr(found, name).seconds) else None


# Pods of a gang begin within the same seconds.
@lru_cache(maxsize=1024)
def _time_at(seconds: int) -> datetime:
    try:
        return _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return _LAST if seconds > 0 else _FIRST


def _if_there(found: Any, name: str, read: Callable[[Any], T]) -> T | None:
    return read(getattr(found, name)) if found.HasField(name) else None


def _meta(found: Any) -> Meta:
    return Meta(
        name=_text(found.name),
        namespace=_text(found.namespace),
        uid=_text(found.uid),
        resource_version=_text(found.resource_version),
        creation_timestamp=_time(found, "creation_timestamp"),
        deletion_timestamp=_time(found, "deletion_timestamp"),
        deletion_grace_period_seconds=_if_there(found, "deletion_grace_period_seconds", int),
        labels=dict(map(_label, found.labels)) or None,
        annotations=_annotations(found),
        finalizers=[_text(each) for each in found.finalizers] or None,
    )


def _annotations(found: Any) -> dict[str, str] | None:
    return {_text(each.key): _text(each.value) for each in found.annotations} or None


def _spec(found: Any) -> PodSpec:
    return PodSpec(
        node_name=_text(found.node_name),
        containers=tuple([_container(each) for each in found.containers]),
        init_containers=tuple([_container(each) for each in init]) if (init := found.init_containers) else (),
        overhead=_amounts(found.overhead),
        resources=_if_there(found, "resources", _requirements),
        priority=_if_there(found, "priority", int),
        preemption_policy=_if_there(found, "preemption_policy", _text),
        scheduler_name=_text(found.scheduler_name),
    )


def _container(found: Any) -> Container:
    return Container(
        name=_text(found.name),
        image=_text(found.image),
        resources=_requirements(found.resources),
        restart_policy=_if_there(found, "restart_policy", _text),
    )


@lru_cache(maxsize=1024)
def _label(content: bytes) -> tuple[str, str]:
    found = _message("Entry").FromString(content)
    return _text(found.key), _text(found.value)


@lru_cache(maxsize=256)
def _requirements(content: bytes) -> Requirements:
    found = _message("Requirements").FromString(content)
    return Requirements(requests=_amounts(found.requests), limits=_amounts(found.limits))


def _amounts(found: Collection[Any]) -> dict[str, str] | None:
    return {_text(each.key): _text(each.value.string) for each in found} if found else None


def _status(found: Any, conditions: Iterable[Any] | None = None) -> PodStatus:
    return PodStatus(
        phase=_text(found.phase),
        reason=_text(found.reason),
        message=_text(found.message),
        conditions=tuple([_condition(each) for each in (found.conditions if conditions is None else conditions)]),
        start_time=_time(found, "start_time"),
        container_statuses=tuple([_container_status(each) for each in found.container_statuses]),
    )


def _condition(found: Any) -> Condition:
    return _condition_of(found.type, found.status, found.reason, found.message)


# What is kept of them has no times, so nearly all pods have the same.
@lru_cache(maxsize=256)
def _condition_of(kind: bytes, status: bytes, reason: bytes, message: bytes) -> Condition:
    return Condition(type=_text(kind), status=_text(status), reason=_text(reason), message=_text(message))


def _container_status(found: Any) -> ContainerStatus:
    now = found.state
    state = ContainerState(
        waiting=_waiting(now.waiting) if now.HasField("waiting") else None,
        running=Running(started_at=_time(now.running, "started_at")) if now.HasField("running") else None,
        terminated=_terminated(now.terminated) if now.HasField("terminated") else None,
    )
    allocated = tuple([_allocated(each) for each in found.allocated])
    return ContainerStatus(name=_text(found.name), state=state, ready=found.ready, allocated_resources_status=allocated)


def _waiting(found: Any) -> Waiting:
    return Waiting(reason=_text(found.reason), message=_text(found.message))


def _terminated(found: Any) -> Terminated:
    return Terminated(
        exit_code=found.exit_code,
        signal=found.signal,
        reason=_text(found.reason),
        message=_text(found.message),
        started_at=_time(found, "started_at"),
        finished_at=_time(found, "finished_at"),
    )


def _allocated(found: Any) -> AllocatedResource:
    devices = tuple([AllocatedDevice(id=_text(each.id)) for each in found.resources])
    return AllocatedResource(name=_text(found.name), resources=devices)
