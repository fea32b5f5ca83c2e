"""A thin client of the Kubernetes API: what the platform asks of it, typed, and no more.

Every call raises `KubeError` if it was not carried out. A body is a dictionary, an object of ours, or JSON or protobuf
that was encoded before, which is the quickest for many pods that differ in a name.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from functools import cache
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

import msgspec

from openpai.kube.config import ClusterAccess
from openpai.kube.connection import CONNECTIONS, JSON, METADATA, METADATA_LIST, Connection
from openpai.kube.errors import KubeError, error_of
from openpai.kube.exec import ExecSession, open_attach, open_exec
from openpai.kube.objects.kinds import PODS, Kind, ListOf, T
from openpai.kube.objects.meta import PROTOBUF, PROTOBUF_MARK, ListMeta, Meta
from openpai.kube.objects.salvage import salvage
from openpai.protocol.errors import Broken

PAGE: Final = 500
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

Body = bytes | Mapping[str, Any] | msgspec.Struct | list[Any]
R = TypeVar("R")
# The managed fields are most of it, and in JSON the API server writes each of them again.
_METADATA: Final = f"{METADATA.replace(JSON, PROTOBUF)}, {METADATA}"


class Page(msgspec.Struct, Generic[R]):
    """A whole list: its objects, and the version from which a watch goes on."""

    items: list[R]
    resource_version: str
    unreadable: dict[tuple[str, str], str]
    """Objects, by namespace and name, that do not fit the type of their kind, with the reason; `items` has the rest."""


class KubeClient:
    """A client of one API server. Use it as an asynchronous context, or close it."""

    def __init__(self, access: ClusterAccess, *, connections: int = CONNECTIONS, user_agent: str = "openpai") -> None:
        self.access = access
        self.connection = Connection(access, connections=connections, user_agent=user_agent)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self.connection.close()

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        """Return an object."""
        answer = await self.connection.call(
            "GET", kind.path(namespace, name), doing=_doing("read", kind, name, namespace)
        )
        return _decoded(kind, answer)

    async def find(self, kind: Kind[T], name: str, namespace: str = "") -> T | None:
        """Return an object, or None if there is none of that name."""
        try:
            return await self.get(kind, name, namespace)
        except KubeError as error:
            if error.is_missing:
                return None
            raise

    async def list(
        self, kind: Kind[T], namespace: str = "", *, labels: str = "", fields: str = "", only_metadata: bool = False
    ) -> list[T]:
        """Return all objects, of all namespaces if none is named, that the selectors select.

        With `only_metadata` everything else of them is left out.
        """
        page = await self.list_page(kind, namespace, labels=labels, fields=fields, only_metadata=only_metadata)
        for (place, name), fault in page.unreadable.items():
            raise Broken(f"cannot read {kind.plural}/{name} in {place}: {fault}")
        return page.items

    async def list_page(
        self, kind: Kind[T], namespace: str = "", *, labels: str = "", fields: str = "", only_metadata: bool = False
    ) -> Page[T]:
        """Return all objects and the version of the list. It is read in pages, and consistent."""
        params, accept = selectors(labels, fields), METADATA_LIST if only_metadata else JSON
        try:
            return await self._listed(kind, namespace, params, PAGE, accept)
        except KubeError as error:
            # The version that the pages belong to was removed meanwhile: then all in one piece.
            if not error.is_expired:
                raise
        return await self._listed(kind, namespace, params, 0, accept)

    async def _listed(
        self, kind: Kind[T], namespace: str, params: Mapping[str, str], limit: int, accept: str
    ) -> Page[T]:
        found: Page[T] = Page([], "", {})
        query = {**params, **({"limit": str(limit)} if limit else {})}
        doing = _doing("list", kind, "", namespace)
        while True:
            answer = await self.connection.call("GET", kind.path(namespace), doing=doing, params=query, accept=accept)
            more = read_page(kind, answer, found)
            if not more:
                return found
            query["continue"] = more

    async def create(
        self,
        kind: Kind[T],
        body: Body,
        namespace: str = "",
        *,
        dry_run: bool = False,
        manager: str = "openpai",
        only_metadata: bool = False,
    ) -> T:
        """Create an object and return it as it was stored.

        With `only_metadata` nothing is sure to be there but its names, its version and its annotations.
        """
        params, accept = _write_params(dry_run, manager), _METADATA if only_metadata else JSON
        return await self._write("POST", kind, body, "create", namespace, "", "", params, accept=accept)

    async def replace(
        self,
        kind: Kind[T],
        name: str,
        body: Body,
        namespace: str = "",
        *,
        subresource: str = "",
        manager: str = "openpai",
    ) -> T:
        """Replace an object or a part of it, such as `status`; refused if its resourceVersion is not the newest."""
        params = _write_params(False, manager)
        return await self._write("PUT", kind, body, "replace", namespace, name, subresource, params)

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        body: Body,
        namespace: str = "",
        *,
        how: str = MERGE_PATCH,
        subresource: str = "",
        manager: str = "openpai",
        force: bool = False,
        only_metadata: bool = False,
    ) -> T:
        """Change parts of an object. `how` is one of the patches above; `force` takes fields from other managers.

        With `only_metadata` nothing else of it is sure to be returned.
        """
        params = _write_params(False, manager)
        if how == APPLY_PATCH:
            params["force"] = "true" if force else "false"
        accept = _METADATA if only_metadata else JSON
        return await self._write("PATCH", kind, body, "patch", namespace, name, subresource, params, how, accept)

    async def delete(
        self,
        kind: Kind[T],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        grace_s: int | None = None,
        propagation: str = "Background",
    ) -> None:
        """Delete an object; with `uid` only if it is that one, and not a later one of the same name."""
        options: dict[str, Any] = {"propagationPolicy": propagation}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        must = {"uid": uid, "resourceVersion": resource_version}
        if preconditions := {key: value for key, value in must.items() if value}:
            options["preconditions"] = preconditions
        doing = _doing("delete", kind, name, namespace)
        path, content = kind.path(namespace, name), msgspec.json.encode(options)
        # The answer is not read, and the whole object is its largest form.
        await self.connection.call("DELETE", path, doing=doing, body=content, accept=METADATA)

    async def bind(self, name: str, namespace: str, node: str, *, uid: str = "") -> None:
        """Bind a pod to a node, as a scheduler does."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, **({"uid": uid} if uid else {})},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = PODS.path(namespace, name, "binding")
        await self.connection.call("POST", path, doing=f"bind pods/{name} to node {node}", body=encoded(binding))

    async def logs(
        self,
        name: str,
        namespace: str,
        *,
        container: str = "",
        follow: bool = False,
        since: datetime | None = None,
        tail: int | None = None,
        timestamps: bool = False,
        previous: bool = False,
        limit_bytes: int | None = None,
        quiet_s: float | None = None,
    ) -> AsyncGenerator[bytes]:
        """Yield a container's log in pieces as they come; `since` is a time with a resolution of a second.

        With `limit_bytes`, what is there now comes in one piece.
        """
        given = {
            "container": container,
            "follow": "true" if follow else "",
            "sinceTime": since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if since else "",
            "tailLines": "" if tail is None else str(tail),
            "timestamps": "true" if timestamps else "",
            "previous": "true" if previous else "",
            "limitBytes": str(limit_bytes) if limit_bytes else "",
        }
        params = {key: value for key, value in given.items() if value}
        doing = f"read the log of pods/{name} in {namespace}"
        path = PODS.path(namespace, name, "log")
        if limit_bytes and not follow:
            # A connection that is kept for requests costs less than a stream.
            yield await self.connection.read(path, doing=doing, params=params)
            return
        async with aclosing(self.connection.chunks(path, doing=doing, params=params, quiet_s=quiet_s)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def exec(
        self,
        name: str,
        namespace: str,
        command: Sequence[str],
        *,
        container: str = "",
        stdin: bool = False,
        tty: bool = False,
    ) -> ExecSession:
        """Start a command in a container; the session is to be closed, as by `async with`."""
        return await open_exec(self.connection, name, namespace, command, container=container, stdin=stdin, tty=tty)

    async def attach(self, name: str, namespace: str, *, container: str = "", stdin: bool = False) -> ExecSession:
        """Attach to the command that a container runs; the session is to be closed, as by `async with`."""
        return await open_attach(self.connection, name, namespace, container=container, stdin=stdin)

    async def raw(self, method: str, path: str, body: Body | None = None, **params: str) -> bytes:
        """Return the answer to any request, such as GET /version."""
        content = None if body is None else encoded(body)
        return await self.connection.call(method, path, doing=f"{method} {path}", params=params or None, body=content)

    async def _write(
        self,
        method: str,
        kind: Kind[T],
        body: Body,
        verb: str,
        namespace: str,
        name: str,
        subresource: str,
        params: Mapping[str, str],
        content_type: str = JSON,
        accept: str = JSON,
    ) -> T:
        what = f"{name}/{subresource}" if subresource else name
        content = encoded(body)
        answer = await self.connection.call(
            method,
            kind.path(namespace, name, subresource),
            doing=_doing(verb, kind, what, namespace),
            params=params,
            body=content,
            content_type=PROTOBUF if content.startswith(PROTOBUF_MARK) else content_type,
            accept=accept,
        )
        return _decoded(kind, answer)


def read_page(kind: Kind[T], answer: bytes, page: Page[T]) -> str:
    """Add the objects of an answer to a page; return what continues the list, empty at its end."""
    try:
        try:
            found = kind.list_decoder.decode(answer)
        except msgspec.ValidationError:
            # One object that does not fit must not hide the others.
            meta = _read_singly(kind, answer, page)
        else:
            page.items += found.items or ()
            meta = found.metadata
    except msgspec.DecodeError as error:
        # Such as the page of a proxy on the way.
        raise error_of(f"list {kind.plural}", 502, f"the answer is no list: {error}".encode()) from error
    page.resource_version = meta.resource_version
    return meta.continue_


def _read_singly(kind: Kind[T], answer: bytes, page: Page[T]) -> ListMeta:
    raw = msgspec.json.decode(answer, type=ListOf[msgspec.Raw])
    for one in raw.items or ():
        try:
            page.items.append(kind.decoder.decode(one))
        except msgspec.ValidationError as error:
            part = salvage(kind.type, one)
            page.items.append(part)
            page.unreadable[part.namespace, part.name] = str(error)
    return raw.metadata


def encoded(body: Body) -> bytes:
    """Return a body as JSON."""
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


def selectors(labels: str = "", fields: str = "") -> dict[str, str]:
    """Return the parameters of a list or watch that select objects."""
    given = {"labelSelector": labels, "fieldSelector": fields}
    return {key: value for key, value in given.items() if value}


def _write_params(dry_run: bool, manager: str) -> dict[str, str]:
    return {"fieldManager": manager, **({"dryRun": "All"} if dry_run else {})}


def _doing(verb: str, kind: Kind[Any], name: str, namespace: str) -> str:
    what = f"{kind.plural}/{name}" if name else kind.plural
    return f"{verb} {what} in {namespace}" if namespace else f"{verb} {what}"


def _decoded(kind: Kind[T], answer: bytes) -> T:
    if answer.startswith(PROTOBUF_MARK):
        return kind.type(metadata=_binary_metadata(answer))
    try:
        return kind.decoder.decode(answer)
    except msgspec.DecodeError as error:
        raise Broken(f"cannot read a {kind.name}: {error}") from error


def _binary_metadata(answer: bytes) -> Meta:
    protobuf = _protobuf()
    try:
        found: Meta = protobuf.created_of(answer)
    except protobuf.UNREADABLE as error:
        raise Broken(f"cannot read the metadata of an object: {error}") from error
    return found


@cache
def _protobuf() -> Any:
    """Return what reads protobuf, which programs that ask for none need not load."""
    from openpai.kube.objects import protobuf

    return protobuf
