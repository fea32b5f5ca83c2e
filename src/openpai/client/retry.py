"""When a request is tried again, how long after, and in which family of errors a failure is.

A refusal is passed on as it came. What may work later (no connection, 429, 503) is tried a few more times with
growing pauses, or after as long as the server asks for. A request that may have taken effect is never repeated
unless repeating it is harmless. Silence is waited out no more than twice: who said nothing for a minute seldom
speaks in the fifth.
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
from openpai.protocol.errors import Broken, Fault, InvalidProtocol, PaiError, Refused, Unavailable

TRIES: Final = 5
TRIES_IN_SILENCE: Final = 2
PAUSE_FIRST_S: Final = 0.2
PAUSE_MAX_S: Final = 30.0
BUSY_MAX_S: Final = 10.0
"""A server that asks for a longer pause because of too many requests, or wrong passwords, is not waited for."""
RETRIED_STATUS: Final = frozenset({429, 502, 503, 504})
# A proxy between us and the server answers so, and does not know whether the server did what it was asked.
UNSURE_STATUS: Final = frozenset({502, 504})
# The server sends a keep-alive every 15 s; three missed ones mean that the connection is dead.
STREAM_TIMEOUT: Final = httpx.Timeout(10.0, read=50.0)
TIMEOUT_S: Final = 60.0
CONNECT_WITHIN_S: Final = 5.0
LOOK: Final = "it may have been done nevertheless: look before you repeat it"


def options(url: str, token: str | None, timeout_s: float) -> dict[str, Any]:
    """Return how to set up the HTTP library for one server and one token; raise Refused for what can be neither."""
    if token and not (token.isascii() and token.isprintable()):
        message = "the token holds a line break or another character that no token has"
        raise Refused("InvalidParametersError", message, "copy it again, without what stands around it")
    return {
        "base_url": url,
        "headers": {"Authorization": f"Bearer {token}"} if token else {},
        "timeout": httpx.Timeout(timeout_s, connect=min(CONNECT_WITHIN_S, timeout_s)),
        # A log that is followed holds its connection; a hundred of them must not keep every other request waiting.
        "limits": httpx.Limits(max_connections=None, max_keepalive_connections=20),
        # Loading the certificates of the world takes longer than a whole command; plain HTTP needs none.
        "verify": httpx.create_ssl_context() if url.startswith("https:") else False,
        # A proxy for the outside world knows nothing of this machine's own servers.
        "trust_env": not is_loopback(url),
    }


def is_loopback(url: str) -> bool:
    """Return whether an address is this machine's own."""
    try:
        host = httpx.URL(url).host
    except httpx.InvalidURL as error:
        message = f"{url!r} is not the address of a server: {error}"
        raise Refused("InvalidParametersError", message, "write it like http://host:9186") from error
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Deadline:
    """Until when a call may take, its tries and the pauses between them together."""

    def __init__(self, within_s: float | None, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ends = math.inf if within_s is None else clock() + within_s

    def left_s(self) -> float:
        """Return how much time is left."""
        return max(0.0, self._ends - self._clock())

    def timeout(self, usual: httpx.Timeout) -> httpx.Timeout:
        """Return how long the next try may take, at most as long as usual."""
        if self._ends == math.inf:
            return usual
        left_s = self.left_s()
        steps = {name: left_s if usual_s is None else min(usual_s, left_s) for name, usual_s in usual.as_dict().items()}
        return httpx.Timeout(**steps)


def pause_s(attempt: int, headers: Mapping[str, str] | None = None) -> float:
    """Return how long to wait before try number `attempt` + 1: as the server asks, else longer each time."""
    asked_s = None if headers is None else _retry_after_s(headers)
    if asked_s is not None:
        return min(asked_s, PAUSE_MAX_S)
    # Spread out, so that a thousand clients of a restarted server do not come back in the same instant.
    return float(min(PAUSE_FIRST_S * 2**attempt, PAUSE_MAX_S) * random.uniform(0.5, 1.0))  # noqa: S311


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that `Retry-After` asks for; a date counts from the server's own clock."""
    message = headers.get("Retry-After", "")
    if message.isascii() and message.isdigit():
        return float(message)
    until, now = _date(message), _date(headers.get("Date", ""))
    # A date that is over asks for nothing, and proxies put such ones into answers that they kept.
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
    """Return how long to wait before the next try after no answer came; raise Unavailable when there is none."""
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        raise Refused(
            "UntrustedServerError",
            f"the certificate of {url} is not to be trusted: {error}",
            "if your organisation signs its own, name its certificate with SSL_CERT_FILE=/path/to/ca.pem",
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
    """Return how long to wait before the next try after a request was not granted; raise its error."""
    if response.status_code not in RETRIED_STATUS or attempt == TRIES - 1:
        raise error_of(response)
    if response.status_code == 429 and (_retry_after_s(response.headers) or 0) > BUSY_MAX_S:
        # People at a prompt want to hear at once that it takes a minute; the error says so.
        raise error_of(response)
    if response.status_code in UNSURE_STATUS and not call.is_harmless_twice:
        unsure = error_of(response)
        unsure.advice = LOOK
        raise unsure
    pause = pause_s(attempt, response.headers)
    if pause >= left_s:
        raise error_of(response)
    return pause


def unsendable(call: Call[Any], error: Exception) -> Refused:
    """Return the error for a request that no server could be sent, such as one with a line break in a header."""
    why = f"{error.object[:80]!r} is no text that fits there" if isinstance(error, UnicodeEncodeError) else error
    return Refused(
        "InvalidParametersError", f"{call.method} {call.url} cannot be sent: {why}", "change what it is given"
    )


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
    """Return the error for an answer without a code, which no server of ours gives."""
    advice = f"is {response.request.url.copy_with(path='/', query=None)} an OpenPAI server?"
    if response.status_code in (*range(500), 501):
        return Refused("InvalidParametersError", message, advice)
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
        # Not followed: our token is for the server that was named.
        message += f", which leads to {response.headers['Location']}"
    advice = body.get("advice") or ""
    code = body.get("code")
    if status in RETRIED_STATUS:
        pause = _retry_after_s(response.headers)
        busy = Unavailable(message, advice or (f"try again in {pause:.0f} s" if pause else "try again in a moment"))
        busy.code = code or busy.code
        return busy
    if faults := _faults(body):
        return InvalidProtocol(faults)
    if status == 413 and code is None:
        # The server would have said who it is.
        message = "a proxy before the server takes nothing as large"
        return Refused(
            "RequestTooLargeError", message, "its administrator can let it: nginx with client_max_body_size 0"
        )
    if (status >= 500 and code != "NotImplementedError") or code is None:
        return Broken(message) if code else _of_a_stranger(response, message)
    if status == 401:
        advice = advice or "log in with `pai login`"
    return Refused(code, message, advice)
