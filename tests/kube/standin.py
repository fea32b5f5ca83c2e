"""A small API server in memory, for faults by the thousand and for machines without Kubernetes' own.

It stores objects as the real one does: versions, UIDs, finalizers, grace periods of pods, preconditions, selectors,
patches, status apart from the rest, pages, watches with bookmarks, and versions that expire. The suite in
`test_standin.py` passes on this one and on the real one. It validates nothing that the platform does not rely on.
"""

from __future__ import annotations

import copy
import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from openpai.kube.objects.meta import PROTOBUF

Object = dict[str, Any]
Key = tuple[str, str]
EVENTS_KEPT: Final = 1000
_PATH: Final = re.compile(
    r"/(?:api/v1|apis/(?P<group>[^/]+/[^/]+))(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[^/]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<part>[^/]+))?"
)
_KINDS: Final = {
    "pods": ("v1", "Pod"),
    "nodes": ("v1", "Node"),
    "namespaces": ("v1", "Namespace"),
    "secrets": ("v1", "Secret"),
    "configmaps": ("v1", "ConfigMap"),
    "services": ("v1", "Service"),
    "events": ("v1", "Event"),
    "leases": ("coordination.k8s.io/v1", "Lease"),
    "resourceslices": ("resource.k8s.io/v1", "ResourceSlice"),
    "resourceclaims": ("resource.k8s.io/v1", "ResourceClaim"),
    "deviceclasses": ("resource.k8s.io/v1", "DeviceClass"),
}
_WITHOUT_NAMESPACE: Final = frozenset({"nodes", "namespaces", "resourceslices", "deviceclasses"})
_WITH_STATUS: Final = frozenset({"pods", "nodes", "resourceclaims", "services", "namespaces"})


class Refusal(Exception):
    """A request that is not carried out."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}


@dataclass(frozen=True)
class Event:
    """A change of an object. Objects in it are never changed."""

    version: int
    plural: str
    was: Object | None
    now: Object
    is_deletion: bool = False


@dataclass(frozen=True)
class Selection:
    """Which objects a list or watch wants."""

    plural: str
    namespace: str
    labels: str = ""
    fields: str = ""

    def takes(self, found: Object | None) -> bool:
        """Return whether it wants an object."""
        if found is None:
            return False
        meta = found["metadata"]
        if self.namespace and meta.get("namespace") != self.namespace:
            return False
        return _labels_fit(self.labels, meta.get("labels") or {}) and _fields_fit(self.fields, found)


@dataclass
class StandInApi:
    """The objects of one cluster."""

    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    admission: list[Callable[[str, Object], None]] = field(default_factory=list)
    """Called with the plural and each object that is to be created; may raise Refusal."""
    listeners: list[Callable[[Event], None]] = field(default_factory=list)
    objects: dict[str, dict[Key, Object]] = field(default_factory=dict)
    version: int = 100
    expired: int = 0
    """The newest version that is forgotten: a watch from before it is refused with 410."""
    _events: deque[Event] = field(default_factory=deque)
    _pages: dict[int, list[Object]] = field(default_factory=dict)
    _made: int = 0

    def handle(
        self, method: str, path: str, params: Mapping[str, str], body: bytes | None = None, content_type: str = ""
    ) -> tuple[int, bytes]:
        """Answer a request that is no watch."""
        try:
            answer = self._answer(method, path, params, body, content_type)
        except Refusal as refusal:
            return refusal.code, json.dumps(refusal.body).encode()
        return 201 if method == "POST" else 200, json.dumps(answer).encode()

    def watch(self, path: str, params: Mapping[str, str]) -> tuple[Selection, list[tuple[str, Object]]]:
        """Return what a watch selects, and the events that it begins with; raise Refusal for a version that expired."""
        selected = self._selection(path, params)
        version = params.get("resourceVersion", "")
        if params.get("sendInitialEvents"):
            found = [("ADDED", each) for each in self._selected(selected)]
            return selected, [*found, ("BOOKMARK", self.bookmark(selected, is_end=True))]
        if version in ("", "0"):
            return selected, [("ADDED", each) for each in self._selected(selected)]
        if int(version) < self.expired:
            raise Refusal(410, "Expired", f"too old resource version: {version} ({self.expired})")
        missed = [event for event in self._events if event.version > int(version)]
        return selected, [seen for event in missed if (seen := self.seen(selected, event))]

    @staticmethod
    def seen(selected: Selection, event: Event) -> tuple[str, Object] | None:
        """Return an event as a watch sees it: an object that it no longer selects is deleted for it."""
        if event.plural != selected.plural:
            return None
        was, now = selected.takes(event.was), selected.takes(event.now)
        if event.is_deletion or (was and not now):
            return ("DELETED", event.now) if was else None
        return ("MODIFIED" if was else "ADDED", event.now) if now else None

    def bookmark(self, selected: Selection, *, is_end: bool = False) -> Object:
        """Return an object that carries only the newest version."""
        api_version, kind = _KINDS[selected.plural]
        meta: Object = {"resourceVersion": str(self.version)}
        if is_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        return {"kind": kind, "apiVersion": api_version, "metadata": meta}

    def compact(self) -> None:
        """Forget every earlier version."""
        self._events.clear()
        self._pages.clear()
        self.expired = self.version

    def get(self, plural: str, name: str, namespace: str = "") -> Object | None:
        """Return an object as it is; do not change it."""
        return self.objects.get(plural, {}).get((namespace, name))

    def all(self, plural: str) -> list[Object]:
        """Return all objects of a kind."""
        return list(self.objects.get(plural, {}).values())

    def _answer(
        self, method: str, path: str, params: Mapping[str, str], body: bytes | None, content_type: str
    ) -> Object:
        if path == "/version":
            return {"major": "1", "minor": "36", "gitVersion": "v1.36.2"}
        plural, namespace, name, part = self._place(path)
        if content_type == PROTOBUF:
            raise Refusal(415, "UnsupportedMediaType", f"{content_type} is not known here")
        given = json.loads(body) if body else {}
        if method == "GET":
            return self._one(plural, namespace, name) if name else self._list(path, params)
        if method == "POST" and part == "binding":
            return self._bind(namespace, name, given)
        if method == "POST":
            return self._create(plural, namespace, given)
        if method == "DELETE":
            return self._delete(plural, namespace, name, given)
        before = self._one(plural, namespace, name)
        after = given if method == "PUT" else _patched(before, given, content_type)
        asked = after.get("metadata", {}).get("resourceVersion", "")
        if asked and asked != before["metadata"]["resourceVersion"]:
            raise _conflict(plural, name, "the object has been modified")
        return self._update(plural, before, after, part)

    def _place(self, path: str) -> tuple[str, str, str, str]:
        found = _PATH.fullmatch(path)
        if found is None or found["plural"] not in _KINDS:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        return found["plural"], found["namespace"] or "", found["name"] or "", found["part"] or ""

    def _one(self, plural: str, namespace: str, name: str) -> Object:
        found = self.get(plural, name, namespace)
        if found is None:
            raise Refusal(404, "NotFound", f'{plural} "{name}" not found')
        return found

    def _selection(self, path: str, params: Mapping[str, str]) -> Selection:
        plural, namespace, _, _ = self._place(path)
        return Selection(plural, namespace, params.get("labelSelector", ""), params.get("fieldSelector", ""))

    def _selected(self, selected: Selection) -> Iterator[Object]:
        for _, found in sorted(self.objects.get(selected.plural, {}).items()):
            if selected.takes(found):
                yield found

    def _list(self, path: str, params: Mapping[str, str]) -> Object:
        selected = self._selection(path, params)
        limit = int(params.get("limit", "0"))
        version, _, start = params.get("continue", "").partition(":")
        if version:
            if int(version) not in self._pages:
                raise Refusal(410, "Expired", "the provided continue parameter is too old")
            items = self._pages[int(version)]
        else:
            items = list(self._selected(selected))
        at = int(start or 0)
        meta = {"resourceVersion": version or str(self.version)}
        if limit and len(items) > at + limit:
            self._pages[int(meta["resourceVersion"])] = items
            meta["continue"] = f"{meta['resourceVersion']}:{at + limit}"
        return {"metadata": meta, "items": items[at : at + limit] if limit else items[at:]}

    def _create(self, plural: str, namespace: str, given: Object) -> Object:
        made = copy.deepcopy(given)
        meta = made.setdefault("metadata", {})
        if plural not in _WITHOUT_NAMESPACE:
            meta["namespace"] = namespace
        for check in self.admission:
            check(plural, made)
        key = (meta.get("namespace", ""), meta["name"])
        if key in self.objects.get(plural, {}):
            raise Refusal(409, "AlreadyExists", f'{plural} "{meta["name"]}" already exists')
        self._made += 1
        meta["uid"] = f"{self._made:08x}-0000-4000-8000-000000000000"
        meta["creationTimestamp"] = self._stamp()
        made["apiVersion"], made["kind"] = _KINDS[plural]
        if plural in _WITH_STATUS:
            made["status"] = {"phase": "Pending"} if plural == "pods" else {}
        if plural == "pods":
            made["spec"].setdefault("schedulerName", "default-scheduler")
            made["spec"].setdefault("terminationGracePeriodSeconds", 30)
        return self._store(plural, None, made)

    def _update(self, plural: str, before: Object, after: Object, part: str) -> Object:
        after = copy.deepcopy(after)
        old, meta = before["metadata"], after.setdefault("metadata", {})
        if meta.get("uid", old["uid"]) != old["uid"]:
            message = f"metadata.uid: Invalid value: {meta['uid']}: field is immutable"
            raise Refusal(422, "Invalid", message)
        if plural in _WITH_STATUS:
            # Each of the two writes only its part.
            kept = {**before, "metadata": meta} if part == "status" else {**after, "status": before.get("status", {})}
            after = {**kept, "status": after.get("status", {})} if part == "status" else kept
        fixed = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion")
        for name in (*fixed, "name", "namespace"):
            meta.pop(name, None)
            if name in old:
                meta[name] = old[name]
        if after == before:
            return before
        if "deletionTimestamp" in meta and not meta.get("finalizers") and not meta.get("deletionGracePeriodSeconds"):
            return self._remove(plural, before, after)
        return self._store(plural, before, after)

    def _bind(self, namespace: str, name: str, given: Object) -> Object:
        before = self._one("pods", namespace, name)
        if given["metadata"].get("uid", before["metadata"]["uid"]) != before["metadata"]["uid"]:
            raise _conflict("pods", name, "Precondition failed: UID in precondition")
        if before["spec"].get("nodeName") or before["metadata"].get("deletionTimestamp"):
            raise _conflict("pods/binding", name, f"pod {name} is already assigned to a node, or is being deleted")
        self._store("pods", before, {**before, "spec": {**before["spec"], "nodeName": given["target"]["name"]}})
        return {"kind": "Status", "status": "Success"}

    def _delete(self, plural: str, namespace: str, name: str, options: Object) -> Object:
        before = self._one(plural, namespace, name)
        meta = before["metadata"]
        for what, wanted in (options.get("preconditions") or {}).items():
            if meta[what] != wanted:
                raise _conflict(plural, name, f"Precondition failed: {what} in precondition: {wanted}")
        grace_s = self._grace(before, options.get("gracePeriodSeconds")) if plural == "pods" else 0
        if grace_s == 0 and not meta.get("finalizers"):
            return self._remove(plural, before, before)
        known = meta.get("deletionGracePeriodSeconds")
        if known is not None and known <= grace_s:
            return before
        due = datetime.fromtimestamp(self.now().timestamp() + grace_s, UTC)
        deleted = {"deletionTimestamp": _text(due), "deletionGracePeriodSeconds": grace_s}
        return self._store(plural, before, {**before, "metadata": {**meta, **deleted}})

    def _grace(self, pod: Object, asked: int | None) -> int:
        """Return how long the node of a pod may take to end it: no time if it is on none, or has ended."""
        if not pod["spec"].get("nodeName") or pod["status"].get("phase") in ("Succeeded", "Failed"):
            return 0
        return int(pod["spec"]["terminationGracePeriodSeconds"]) if asked is None else asked

    def _remove(self, plural: str, before: Object, last: Object) -> Object:
        meta = last["metadata"]
        del self.objects[plural][meta.get("namespace", ""), meta["name"]]
        self.version += 1
        gone = {**last, "metadata": {**meta, "resourceVersion": str(self.version)}}
        self._happened(Event(self.version, plural, before, gone, is_deletion=True))
        return gone

    def _store(self, plural: str, before: Object | None, after: Object) -> Object:
        self.version += 1
        after = {**after, "metadata": {**after["metadata"], "resourceVersion": str(self.version)}}
        meta = after["metadata"]
        self.objects.setdefault(plural, {})[meta.get("namespace", ""), meta["name"]] = after
        self._happened(Event(self.version, plural, before, after))
        return after

    def _happened(self, event: Event) -> None:
        self._events.append(event)
        if len(self._events) > EVENTS_KEPT:
            self.expired = self._events.popleft().version
        for listen in list(self.listeners):
            listen(event)

    def _stamp(self) -> str:
        return _text(self.now())


def _text(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _conflict(plural: str, name: str, why: str) -> Refusal:
    return Refusal(409, "Conflict", f'Operation cannot be fulfilled on {plural} "{name}": {why}')


def _patched(before: Object, patch: Any, content_type: str) -> Object:
    if "json-patch" in content_type or "apply-patch" in content_type:
        raise Refusal(415, "UnsupportedMediaType", f"{content_type} is not known here")
    lists: dict[str, list[Any]] = {}
    if "strategic" in content_type:
        patch = copy.deepcopy(patch)
        dropped = patch.get("metadata", {}).pop("$deleteFromPrimitiveList/finalizers", [])
        has = before["metadata"].get("finalizers", [])
        lists = {"finalizers": [each for each in has if each not in dropped]} if dropped else {}
    after = _merged(before, patch)
    for name, values in lists.items():
        after["metadata"] = {**after["metadata"], name: values}
        if not values:
            del after["metadata"][name]
    return after


def _merged(into: Any, patch: Any) -> Any:
    """Return a document with a JSON merge patch applied."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(into) if isinstance(into, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged


def _labels_fit(selector: str, labels: Mapping[str, str]) -> bool:
    for term in re.split(r",(?![^(]*\))", selector) if selector else ():
        name, is_in, values = term.partition(" in ")
        if is_in:
            if labels.get(name.strip()) not in [value.strip() for value in values.strip(" ()").split(",")]:
                return False
            continue
        name, is_equal, value = term.partition("=")
        if (labels.get(name) != value.lstrip("=")) if is_equal else name not in labels:
            return False
    return True


def _fields_fit(selector: str, found: Object) -> bool:
    for term in selector.split(",") if selector else ():
        path, _, value = term.partition("=")
        at: Any = found
        for step in path.split("."):
            at = (at or {}).get(step)
        if (at or "") != value.lstrip("="):
            return False
    return True
