"""Decides when a request is retried, after which pause, and to which family of errors a failure belongs.

Refusals are not retried. Failures that may pass (no connection, 429, 503) are retried a few times, after growing pauses
or the time that the server asks for. A request that may have taken effect is repeated only if it is idempotent. After a
timeout there is one more try: a server that was silent for a minute seldom answers later.
"""

from __future__ import annotations

import ipaddress
import math
import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx

from openpai.client.calls_core import Call
from openpai.protocol.errors import Broken, Fault, InvalidParameters, InvalidProtocol, PaiError, Refused, Unavailable

TRIES: Final = 5
TRIES_IN_SILENCE: Final = 2
PAUSE_FIRST_S: Final = 0.2
PAUSE_MAX_S: Final = 30.0
BUSY_MAX_S: Final = 10.0
"""The longest pause on request of the server; if it asks for more, as after wrong passwords, the error is raised."""
RETRIED_STATUS: Final = frozenset({429, 502, 503, 504})
# Answers of a proxy, which does not know whether the server carried out the request.
UNSURE_STATUS: Final = frozenset({502, 504})
# The server sends a keep-alive every 15 s; three missed ones mean that the connection is dead.
STREAM_TIMEOUT: Final = httpx.Timeout(10.0, read=50.0)
TIMEOUT_S: Final = 60.0
CONNECT_WITHIN_S: Final = 5.0
SLOW_S: Final = 8.0
"""A refusal that took this long is final: the server waited in vain for something, such as a storage."""
LOOK: Final = "it may have taken effect: check before you repeat it"


def options(url: str, token: str | None, timeout_s: float) -> dict[str, Any]:
    """Return the settings of the HTTP library for a server and a token; raise Refused if either is invalid."""
    if token and not (token.isascii() and token.isprintable()):
        message = "the token contains a line break or another invalid character"
        raise InvalidParameters(message, "copy it again, without the text around it")
    return {
        "base_url": url,
        "headers": {"Authorization": f"Bearer {token}"} if token else {},
        "timeout": httpx.Timeout(timeout_s, connect=min(CONNECT_WITHIN_S, timeout_s)),
        # A followed log occupies a connection; a hundred of them must not block other requests.
        "limits": httpx.Limits(max_connections=None, max_keepalive_connections=20),
        # Loading the system's certificates takes longer than a whole command; plain HTTP needs none.
        "verify": httpx.create_ssl_context() if url.startswith("https:") else False,
        # An Internet proxy cannot reach this machine's own servers.
        "trust_env": not is_loopback(url),
    }


def is_loopback(url: str) -> bool:
    """Return whether an address is on this machine."""
    try:
        host = httpx.URL(url).host
    except httpx.InvalidURL as error:
        message = f"{url!r} is not the address of a server: {error}"
        raise InvalidParameters(message, "write it like http://host:9186") from error
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Deadline:
    """The deadline of a call, with all tries and pauses."""

    def __init__(self, within_s: float | None, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ends = math.inf if within_s is None else clock() + within_s

    def left_s(self) -> float:
        """Return the remaining time."""
        return max(0.0, self._ends - self._clock())

    def timeout(self, usual: httpx.Timeout) -> httpx.Timeout:
        """Return how long the next try may take, at most the usual limit."""
        if self._ends == math.inf:
            return usual
        left_s = self.left_s()
        steps = {name: left_s if usual_s is None else min(usual_s, left_s) for name, usual_s in usual.as_dict().items()}
        return httpx.Timeout(**steps)


def pause_s(attempt: int, headers: Mapping[str, str] | None = None) -> float:
    """Return the pause before try number `attempt` + 1: as the server asks, else longer each time."""
    asked_s = None if headers is None else _retry_after_s(headers)
    if asked_s is not None:
        return min(asked_s, PAUSE_MAX_S)
    # Add jitter, so that a thousand clients of a restarted server do not return in the same instant.
    return float(min(PAUSE_FIRST_S * 2**attempt, PAUSE_MAX_S) * random.uniform(0.5, 1.0))  # noqa: S311


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of `Retry-After`; a date is compared with the server's own clock."""
    message = headers.get("Retry-After", "")
    if message.isascii() and message.isdigit():
        return float(message)
    until, now = _date(message), _date(headers.get("Date", ""))
    # Ignore dates in the past, which cached answers of proxies have.
    return None if until is None or now is None or until <= now else (until - now).total_seconds()


def _date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def after_failure(
    url: str, call: Call[Any], attempt: int, error: httpx.TransportError, *, left_s: float = math.inf
) -> float:
    """Return the pause before the next try if no answer came; raise Unavailable after the last try."""
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        raise Refused(
            "UntrustedServerError",
            f"the certificate of {url} is not to be trusted: {error}",
            "if your organisation has its own CA, name its certificate with SSL_CERT_FILE=/path/to/ca.pem",
        ) from error
    was_sent = not isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout))
    if was_sent and not call.is_harmless_twice:
        raise Unavailable(
            f"the connection to {url} broke before the answer came ({type(error).__name__})", LOOK
        ) from error
    is_silent = was_sent and isinstance(error, httpx.TimeoutException)
    if attempt >= (TRIES_IN_SILENCE if is_silent else TRIES) - 1:
        raise unreachable(url, error) from error
    pause = pause_s(attempt)
    if pause >= left_s:
        raise unreachable(url, error) from error
    return pause


def after_refusal(call: Call[Any], attempt: int, response: httpx.Response, *, left_s: float = math.inf) -> float:
    """Return the pause before the next try after an error response; raise the error if it is final."""
    if response.status_code not in RETRIED_STATUS or attempt == TRIES - 1 or _took_s(response) >= SLOW_S:
        raise error_of(response)
    if response.status_code == 429 and (_retry_after_s(response.headers) or 0) > BUSY_MAX_S:
        # The user should see at once that it takes a minute; the error says so.
        raise error_of(response)
    if response.status_code in UNSURE_STATUS and not call.is_harmless_twice:
        unsure = error_of(response)
        unsure.advice = LOOK
        raise unsure
    pause = pause_s(attempt, response.headers)
    if pause >= left_s:
        raise error_of(response)
    return pause


def _took_s(response: httpx.Response) -> float:
    """Return how long an answer took; 0 if it was not measured."""
    try:
        return response.elapsed.total_seconds()
    except RuntimeError:
        return 0.0


def unsendable(call: Call[Any], error: Exception) -> Refused:
    """Return the error for a request that cannot be sent, such as one with a line break in a header."""
    why = f"{error.object[:80]!r} is no text that fits there" if isinstance(error, UnicodeEncodeError) else error
    return InvalidParameters(f"{call.method} {call.url} cannot be sent: {why}", "correct the values of the request")


def unreachable(url: str, error: httpx.HTTPError) -> Unavailable:
    """Return the error for a server that does not answer."""
    advice = "is the platform up? start one with `pai up`, or name another with --url or PAI_URL"
    if "WRONG_VERSION_NUMBER" in str(error):
        advice = f"it speaks no TLS there: is it {url.replace('https:', 'http:', 1)}?"
    return Unavailable(f"cannot reach {url}: {str(error) or type(error).__name__}", advice)


def _faults(body: Mapping[str, Any]) -> tuple[Fault, ...]:
    return tuple(
        Fault(
            fault.get("path") or "",
            fault.get("message") or "",
            fault.get("line"),
            fault.get("allowed") or "",
            fault.get("suggestion") or "",
        )
        for fault in body.get("faults") or ()
    )


def _of_a_stranger(response: httpx.Response, message: str) -> PaiError:
    """Return the error for an answer without a code, which no OpenPAI server sends."""
    advice = f"is {response.request.url.copy_with(path='/', query=None)} an OpenPAI server?"
    if response.status_code in (*range(500), 501):
        return InvalidParameters(message, advice)
    broken = Broken(message)
    broken.advice = advice
    return broken


def error_of(response: httpx.Response) -> PaiError:
    """Return the error that a response describes, in its family."""
    try:
        body = response.json()
    except ValueError:
        body = {}
    if not isinstance(body, dict):
        body = {}
    status = response.status_code
    message = body.get("message") or f"the server answered {status} {response.reason_phrase}"
    if response.has_redirect_location and not body:
        # Do not follow it: the token is for the named server only.
        message += f", which leads to {response.headers['Location']}"
    advice = body.get("advice") or ""
    code = body.get("code")
    if status in RETRIED_STATUS:
        pause = _retry_after_s(response.headers)
        busy = Unavailable(message, advice or (f"try again in {pause:.0f} s" if pause else "try again in a moment"))
        busy.code = code or busy.code
        return busy
    faults = _faults(body)
    if faults and code == "InvalidProtocolError":
        return InvalidProtocol(faults)
    if status == 413 and code is None:
        # An OpenPAI server would have sent its own error.
        message = "a proxy before the server refuses so large a request"
        return Refused(
            "RequestTooLargeError", message, "its administrator can allow it, in nginx with client_max_body_size 0"
        )
    if (status >= 500 and code != "NotImplementedError") or code is None:
        return Broken(message) if code else _of_a_stranger(response, message)
    if status == 401:
        advice = advice or "log in with `pai login`"
    refused = Refused(code, message, advice)
    refused.faults = faults
    return refused
