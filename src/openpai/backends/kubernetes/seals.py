"""The identity of a pod, sealed with the platform's key.

Every user who may write pods may write any label and annotation. So a pod counts as the pod of an attempt only with a
seal over everything that the platform believes of it: its namespace and name, the attempt, the grant, the node and the
devices. A seal that was copied to another pod does not fit, because the name differs.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from sys import intern
from typing import Any, Final

import msgspec

from openpai.backends.kubernetes.names import PREFIX, pod_name
from openpai.kube.objects.pods import Pod
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport

IDENTITY: Final = f"{PREFIX}identity"
SEAL: Final = f"{PREFIX}seal"
CUT_OFF: Final = f"{PREFIX}cut-off"
"""Why the platform deletes a pod that never ran, sealed for this very pod."""
_REASONS: Final = frozenset(ExitReason)


@dataclass(frozen=True, slots=True)
class Identity:
    """What a pod is. A fence, which never runs, has the report of the attempt that it keeps from beginning."""

    key: AttemptKey
    grant: int
    node: str
    devices: tuple[int, ...] = ()
    fence: ExitReport | None = None
    is_unique: bool = False
    """Whether silence of its node never ends it."""


class Seals:
    """Seals identities and opens them. `scope` distinguishes the platforms that use a cluster."""

    def __init__(self, secret: bytes, namespace: str) -> None:
        self._key = hmac.digest(secret, b"openpai pods of kubernetes", hashlib.sha256)
        self._namespace = namespace
        # Thousands of seals have the same key, which is hashed once; `hmac.digest` also gives way to other threads.
        self._keyed = hmac.new(self._key, digestmod=hashlib.sha256)
        self.scope: Final = hmac.new(self._key, b"scope", hashlib.sha256).hexdigest()[:16]

    def annotations(self, identity: Identity) -> dict[str, str]:
        """Return the annotations of a pod."""
        text = _text(identity)
        return {IDENTITY: text, SEAL: self._seal(pod_name(self.scope, identity.key), text)}

    def identity(self, pod: Pod) -> Identity | None:
        """Return what a pod is; None if this platform did not make it as it is."""
        text, seal = pod.metadata.annotation(IDENTITY), pod.metadata.annotation(SEAL)
        if not text or not hmac.compare_digest(seal.encode(), self._seal(pod.name, text).encode()):
            return None
        found = _identity(text)
        is_elsewhere = pod.spec.node_name not in ("", found.node) if found.fence is None else bool(pod.spec.node_name)
        # Its name is the attempt's: the seal is over both, and made for no other name.
        return None if pod.namespace != self._namespace or is_elsewhere else found

    def cut_off(self, uid: str, report: ExitReport) -> dict[str, str]:
        """Return the annotation that says why a pod is deleted before its task ran."""
        return {CUT_OFF: self.close(f"cut off {uid}", json.dumps(_report_fields(report)))}

    def cut_off_of(self, pod: Pod) -> ExitReport | None:
        """Return why a server of this platform deletes a pod; None if none wrote that about this very pod."""
        sealed = pod.metadata.annotation(CUT_OFF)
        text = self.open(f"cut off {pod.uid}", sealed) if sealed else None
        return None if text is None else _report(json.loads(text))

    def fingerprint(self, content: bytes) -> str:
        """Return a name for content: the same for the same content, and of no use to guess it."""
        return hmac.new(self._key, content, hashlib.sha256).hexdigest()[:20]

    def close(self, name: str, text: str) -> str:
        """Return text sealed under a name, for `open`."""
        return f"{self._seal(name, text)} {text}"

    def open(self, name: str, sealed: str) -> str | None:
        """Return the text that was sealed under this name; None if it was not, or was changed."""
        seal, _, text = sealed.partition(" ")
        return text if hmac.compare_digest(seal.encode(), self._seal(name, text).encode()) else None

    def _seal(self, name: str, text: str) -> str:
        sealed = self._keyed.copy()
        sealed.update("\0".join((self._namespace, name, text)).encode())
        return sealed.hexdigest()


def _text(identity: Identity) -> str:
    fields: dict[str, object] = {
        "attempt": identity.key.path(),
        "grant": identity.grant,
        "node": identity.node,
        "devices": identity.devices,
    }
    if identity.is_unique:
        fields["unique"] = True
    if identity.fence is not None:
        fields["fence"] = _report_fields(identity.fence)
    # Each pod has one, and this is six times as quick as `json`.
    return msgspec.json.encode(fields).decode()


def _identity(text: str) -> Identity:
    # It is sealed, so a version of this program wrote it.
    fields = msgspec.json.decode(text)
    fence = _report(fields["fence"]) if "fence" in fields else None
    key = AttemptKey.parse(fields["attempt"])
    is_unique = fields.get("unique") is True
    return Identity(key, fields["grant"], intern(fields["node"]), tuple(fields["devices"]), fence, is_unique)


def _report_fields(report: ExitReport) -> list[object]:
    return [report.code, report.reason.value, report.message, report.ended_at_ms]


def _report(fields: Sequence[Any]) -> ExitReport:
    code, reason, message, ended_at_ms = fields
    known = ExitReason(reason) if reason in _REASONS else ExitReason.ABSENT
    return ExitReport(code, known, message, ended_at_ms=ended_at_ms)
