"""The one type of error that the client raises, in the three families, with what the API server answered.

Catch `KubeError` and look at `http` and `reason`, or catch a family: `Refused` will be refused again as it is,
`Unavailable` may work later, `Broken` is a bug.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from openpai.kube.objects.meta import PROTOBUF_MARK
from openpai.protocol.errors import Broken, PaiError, Refused, Unavailable
from openpai.protocol.wording import harmless_line

MESSAGE_MAX: Final = 2_000
_LATER: Final = frozenset({408, 429, 500, 502, 503, 504})
_TOO_LARGE: Final = ("message larger than max", "request is too large")
"""What etcd says of an object that it will never take, which the API server calls an internal error."""
_OUR_BUG: Final = frozenset({405, 406, 415})


class Status(msgspec.Struct, rename="camel"):
    """The answer of the API server to a request that it did not carry out."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: dict[str, Any] | None = None


class KubeError(PaiError):
    """A request to Kubernetes that was not carried out, or whose outcome is unknown."""

    http: int = 0
    """The HTTP status; 0 when there was no answer."""
    reason: str = ""
    """Kubernetes' own word, such as `NotFound`, `AlreadyExists`, `Conflict`, `Forbidden`, `Invalid` or `Expired`."""
    details: Mapping[str, Any]
    retry_after_s: float | None = None
    may_have_happened: bool = False
    """Whether the request may have been carried out: it was sent, and no answer came."""

    @property
    def is_missing(self) -> bool:
        """Return whether the object does not exist."""
        return self.http == 404

    @property
    def is_there_already(self) -> bool:
        """Return whether an object of that name exists."""
        return self.reason == "AlreadyExists"

    @property
    def is_conflict(self) -> bool:
        """Return whether the object changed meanwhile, or is not the one that a precondition names."""
        return self.http == 409 and self.reason != "AlreadyExists"

    @property
    def is_expired(self) -> bool:
        """Return whether a list or watch must start from the beginning."""
        return self.http == 410 or self.reason in ("Expired", "Gone")

    @property
    def causes(self) -> list[dict[str, Any]]:
        """Return the single faults of a refused object: `field`, `reason`, `message`."""
        found = self.details.get("causes")
        return [cause for cause in found if isinstance(cause, dict)] if isinstance(found, list) else []


class KubeRefused(KubeError, Refused):
    """Kubernetes refuses the request, and will refuse it again as it is."""


class KubeUnavailable(KubeError, Unavailable):
    """Kubernetes does not answer, or not now."""

    def __init__(self, message: str, advice: str = "try again in a moment") -> None:
        Unavailable.__init__(self, message, advice)
        self.details = {}


class KubeBroken(KubeError, Broken):
    """Kubernetes does not understand the request: a bug of the platform."""

    def __init__(self, message: str) -> None:
        Broken.__init__(self, message)
        self.details = {}


def error_of(doing: str, http: int, body: bytes, retry_after: str | None = None) -> KubeError:
    """Return the error for an answer; `doing` says what was asked, as in `create pods/a in default`."""
    status = _status(body)
    reason = harmless_line(status.message or body[:MESSAGE_MAX].decode("utf-8", "replace"))[:MESSAGE_MAX]
    if http == 500 and any(words in reason for words in _TOO_LARGE):
        http = 413
    message = f"cannot {doing}: {reason or 'no reason given'} (HTTP {http})"
    error = _in_family(http, message)
    error.http = http
    error.reason = status.reason
    error.details = status.details or {}
    error.retry_after_s = _seconds(retry_after, error.details)
    return error


def silent(doing: str, why: BaseException | str, *, was_sent: bool) -> KubeUnavailable:
    """Return the error for a request that got no answer."""
    reason = why if isinstance(why, str) else harmless_line(str(why)) or type(why).__name__
    error = KubeUnavailable(
        f"cannot {doing}: the Kubernetes API server does not answer: {reason}",
        "check that the API server runs and can be reached",
    )
    error.may_have_happened = was_sent
    return error


def _in_family(http: int, message: str) -> KubeError:
    if http in _LATER:
        return KubeUnavailable(message)
    if http in _OUR_BUG:
        return KubeBroken(message)
    error = KubeRefused(_CODE.get(http, "BadConfigurationError"), message, _ADVICE.get(http, ""))
    error.details = {}
    return error


_CODE: Final = {401: "ForbiddenUserError", 403: "ForbiddenUserError", 413: "RequestTooLargeError"}
_ADVICE: Final = {
    401: "check the credentials in the kubeconfig, or the pod's service account",
    403: "grant the account of the platform this right, or look at the quota of the namespace",
    410: "list the objects from the beginning",
}


def _status(body: bytes) -> Status:
    try:
        return msgspec.json.decode(body, type=Status)
    except msgspec.DecodeError:
        return _binary_status(body) if body.startswith(PROTOBUF_MARK) else Status()


def _binary_status(body: bytes) -> Status:
    # Only a request that asks for protobuf gets such an answer: other programs need not load what reads it.
    from openpai.kube.objects import protobuf

    try:
        return msgspec.convert(protobuf.status_of(body), Status)
    except protobuf.UNREADABLE:
        return Status()


def _seconds(header: str | None, details: Mapping[str, Any]) -> float | None:
    for value in (header, details.get("retryAfterSeconds")):
        try:
            return max(0.0, float(value))  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue
    return None
