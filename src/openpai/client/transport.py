"""One request to the platform, tried again while that may help, and every failure told in its family.

A refusal is passed on as it came. What may work later (no connection, 429, 503) is tried a few more times with
growing pauses, or after as long as the server asks for. A request that may have taken effect is never repeated
unless repeating it is harmless.
"""

from __future__ import annotations

import ipaddress
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import httpx

from openpai.protocol.errors import Broken, Fault, InvalidProtocol, PaiError, Refused, Unavailable

TRIES: Final = 5
PAUSE_FIRST_S: Final = 0.2
PAUSE_MAX_S: Final = 30.0
RETRIED_STATUS: Final = frozenset({429, 502, 503, 504})
HARMLESS_TWICE: Final = frozenset({"GET", "PUT", "DELETE"})
# The server sends a keep-alive every 15 s; three missed ones mean that nobody is there.
STREAM_TIMEOUT: Final = httpx.Timeout(10.0, read=50.0)
TIMEOUT: Final = httpx.Timeout(60.0, connect=5.0)


def is_loopback(url: str) -> bool:
    """Return whether an address is this machine's own."""
    host = httpx.URL(url).host
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def pause_s(attempt: int, retry_after: str | None = None) -> float:
    """Return how long to wait before try number `attempt` + 1: as told by the server, else longer each time."""
    if retry_after and retry_after.isdigit():
        return min(float(retry_after), PAUSE_MAX_S)
    # Spread out, so that a thousand clients of a restarted server do not come back in the same instant.
    return float(min(PAUSE_FIRST_S * 2**attempt, PAUSE_MAX_S) * random.uniform(0.5, 1.0))  # noqa: S311


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


def error_of(response: httpx.Response) -> PaiError:
    """Return the error a response tells of, in its family."""
    try:
        body = response.json()
    except ValueError:
        body = {}
    if not isinstance(body, dict):
        body = {}
    status = response.status_code
    told = body.get("message") or f"the server answered {status} {response.reason_phrase}"
    advice = body.get("advice") or ""
    code = body.get("code")
    if status in RETRIED_STATUS:
        busy = Unavailable(told, advice or "try again in a moment")
        busy.code = code or busy.code
        return busy
    if faults := _faults(body):
        return InvalidProtocol(faults)
    if status >= 500 or code is None:
        broken = Broken(told)
        if status < 500:
            broken.advice = f"is {response.request.url.copy_with(path='/', query=None)} an OpenPAI server?"
        return broken
    if status == 401:
        advice = advice or "log in with `pai login`"
    return Refused(code, told, advice)


class Transport:
    """Sends requests to one server with one token. Not for use by several threads at once."""

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = url
        self._sleep = sleep
        secure = url.startswith("https:")
        self._http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=TIMEOUT,
            transport=transport,
            # Loading the certificates of the world takes longer than a whole command; plain HTTP needs none.
            verify=secure,
            # A proxy for the outside world knows nothing of this machine's own servers.
            trust_env=not is_loopback(url),
        )

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def _unreachable(self, error: httpx.HTTPError) -> Unavailable:
        why = str(error) or type(error).__name__
        return Unavailable(
            f"cannot reach {self.url}: {why}",
            "is the platform up? start one with `pai up`, or name another with --url or PAI_URL",
        )

    def _broken_off(self, method: str, error: httpx.HTTPError) -> Unavailable:
        if method in HARMLESS_TWICE:
            return self._unreachable(error)
        return Unavailable(
            f"the connection to {self.url} broke before the answer came ({type(error).__name__})",
            "it may have been done nevertheless: look before you repeat it",
        )

    def send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        json: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Return the response to a request that was granted; raise Refused, Unavailable or Broken otherwise."""
        for attempt in range(TRIES):
            is_last = attempt == TRIES - 1
            try:
                response = self._http.request(method, path, params=params, json=json, content=content, headers=headers)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                if is_last:
                    raise self._unreachable(error) from error
                self._sleep(pause_s(attempt))
                continue
            except httpx.TransportError as error:
                if is_last or method not in HARMLESS_TWICE:
                    raise self._broken_off(method, error) from error
                self._sleep(pause_s(attempt))
                continue
            if response.is_success:
                return response
            if response.status_code not in RETRIED_STATUS or is_last:
                raise error_of(response)
            self._sleep(pause_s(attempt, response.headers.get("Retry-After")))
        raise AssertionError("the last try returns or raises")

    @contextmanager
    def stream(
        self, path: str, *, params: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> Iterator[httpx.Response]:
        """Open a response that is read as it comes, once; raise like `send`, and httpx's errors while it is read."""
        with self._http.stream("GET", path, params=params, headers=headers, timeout=STREAM_TIMEOUT) as response:
            if not response.is_success:
                response.read()
                raise error_of(response)
            yield response

    def pause(self, attempt: int) -> None:
        """Wait before trying a stream again."""
        self._sleep(pause_s(attempt))

    def gave_up(self, error: httpx.HTTPError) -> Unavailable:
        """Return the error for a stream that could not be taken up again."""
        return self._unreachable(error)
