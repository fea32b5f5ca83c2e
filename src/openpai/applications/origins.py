"""Where the applications are: below a wildcard domain, or at ports of their own on one machine.

Also whether a request comes from a page of its own application.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.types import Scope

from openpai.applications.cookies import Cookies
from openpai.applications.labels import named, short
from openpai.ports.clock import Clock
from openpai.protocol.errors import BadConfiguration, Unavailable

_SAFE: Final = ("GET", "HEAD")
_OWN: Final = (b"same-origin", b"none")

_URL: Final = re.compile(r"(https?)://\*\.([a-z0-9]([a-z0-9.-]{0,180}[a-z0-9])?)(:[0-9]{1,5})?/?")
_STAYS_MS: Final = 10 * 60_000
"""For how long a port stays an application's after its address was given out, also if its job is over."""
_STAYS_OWN_MS: Final = 10_000
"""The same where another application of the same user needs it."""
_FORGOTTEN_MS: Final = 7 * 86_400_000
_SHARE: Final = 4
_LEAST: Final = 8
"""One user may have one in so many ports, and these at least."""
_USUAL: Final = {"http": ":80", "https": ":443"}
_LOOPBACK: Final = ("127.0.0.1", "[::1]", "localhost")


class DomainOrigins:
    """Each application has a subdomain, which a proxy with a wildcard certificate passes on."""

    is_shared_host = False

    def __init__(self, url: str) -> None:
        """`url` is such as `https://*.apps.example.org`; raise BadConfiguration for another form."""
        found = _URL.fullmatch(url.lower())
        if found is None:
            message = f"{url} is not the address of all applications"
            raise BadConfiguration(message, "write it like https://*.apps.example.org")
        self.scheme, self._domain = found[1], found[2]
        self._port = "" if found[4] == _USUAL[self.scheme] else found[4] or ""

    def of(self, label: str, host: str, owner: str = "") -> str:
        return f"{self.scheme}://{label}.{self._domain}{self._port}"

    def label(self, scope: Scope) -> str:
        host = _host(scope).partition(":")[0]
        label = host.removesuffix(f".{self._domain}")
        return label if label != host else ""

    def own(self, scope: Scope) -> str:
        return self.of(self.label(scope), "")

    def cookies(self, label: str) -> Cookies:
        is_secure = self.scheme == "https"
        return Cookies("__Host-pai-app" if is_secure else "pai-app", is_secure=is_secure)


@dataclass(slots=True)
class _Taken:
    label: str
    at_ms: int
    owner: str = ""


class PortOrigins:
    """Each application has a port of this machine, for as long as its job runs; a file keeps them over restarts."""

    is_shared_host = True
    scheme = "http"

    def __init__(
        self, ports: range, file: Path, clock: Clock, *, listen: Callable[[int], None], is_on_ipv6: bool = False
    ) -> None:
        """`listen` answers requests at a port; it raises OSError if it cannot, and may be repeated."""
        self._ports, self._file, self._clock = ports, file, clock
        self._listen, self._is_on_ipv6 = listen, is_on_ipv6
        self._taken: dict[int, _Taken] = {}
        self.is_active: Callable[[str], bool] = lambda label: False
        """Returns whether the job of an application runs."""

    def open(self) -> None:
        """Listen again at the ports that applications had before the server was started."""
        for port, taken in self._remembered().items():
            if port in self._ports and self._clock.now_ms() - taken.at_ms < _FORGOTTEN_MS and self._can_listen(port):
                self._taken[port] = taken

    def of(self, label: str, host: str, owner: str = "") -> str:
        port = next((port for port, taken in self._taken.items() if taken.label == label), None) or self._take(owner)
        self._taken[port] = _Taken(label, self._clock.now_ms(), owner)
        self._remember()
        return f"http://{self._other_name(host)}:{port}"

    def label(self, scope: Scope) -> str:
        server = scope.get("server")
        taken = self._taken.get(server[1]) if server else None
        return taken.label if taken else ""

    def own(self, scope: Scope) -> str:
        return f"http://{_host(scope)}"

    def cookies(self, label: str) -> Cookies:
        name = short(label)
        return Cookies(f"pai-app-{name}", f"pa-{name}-")

    def _take(self, owner: str) -> int:
        own = sum(taken.owner == owner and self._is_held(taken, owner) for taken in self._taken.values())
        most = max(_LEAST, len(self._ports) // _SHARE)
        if owner and own >= most:
            message = f"jobs of {owner} use {own} of {len(self._ports)} ports for applications; one user may use {most}"
            raise Unavailable(message, "stop a job with an application, or ask an administrator for more --app-ports")
        for port in self._ports:
            if port not in self._taken and self._can_listen(port):
                return port
        free = [port for port, taken in self._taken.items() if not self._is_held(taken, owner)]
        if not free:
            message = f"all {len(self._ports)} ports for applications are in use"
            raise Unavailable(message, "stop a job with an application, or ask an administrator for more --app-ports")
        # The one that was given out longest ago.
        return min(free, key=lambda port: self._taken[port].at_ms)

    def _is_held(self, taken: _Taken, by: str) -> bool:
        stays_ms = _STAYS_OWN_MS if by and taken.owner == by else _STAYS_MS
        return self.is_active(taken.label) or 0 <= self._clock.now_ms() - taken.at_ms < stays_ms

    def _can_listen(self, port: int) -> bool:
        try:
            self._listen(port)
        except OSError:
            return False
        return True

    def _other_name(self, host: str) -> str:
        """Return a name of this machine that shares no cookies with the platform, where there is one."""
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() and not host.endswith("]") else host
        if name.lower() not in _LOOPBACK:
            return name
        if name.lower() != "localhost":
            return "localhost"
        return "[::1]" if self._is_on_ipv6 else "127.0.0.1"

    def _remembered(self) -> Mapping[int, _Taken]:
        try:
            found: Any = json.loads(self._file.read_text())
            taken = {
                int(port): _Taken(str(one["label"]), int(one["at_ms"]), str(one["owner"]))
                for port, one in found.items()
            }
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return {}
        return {port: one for port, one in taken.items() if named(one.label) is not None}

    def _remember(self) -> None:
        unfinished = self._file.with_suffix(".part")
        try:
            unfinished.touch(mode=0o600)
            unfinished.write_text(json.dumps({port: asdict(taken) for port, taken in self._taken.items()}))
            unfinished.replace(self._file)
        except OSError:
            # On a full disk: after a restart the user opens the application again.
            return


def _host(scope: Scope) -> str:
    found = next((value for name, value in scope["headers"] if name == b"host"), b"")
    return str(found.decode("latin-1").lower())


def comes_from_elsewhere(method: str, headers: Mapping[bytes, bytes], origin: str) -> bool:
    """Return whether another page than one of `origin` sends a request, other than by a link to it.

    A cookie says which browser sends a request, never which page. On one host all applications and the platform are
    one site, so SameSite does not keep them apart either. Browsers say where a request comes from: in Sec-Fetch-Site
    where the address is trustworthy (https, or this machine), elsewhere in Origin and Referer.
    """
    sent = headers.get(b"origin")
    if sent is not None and sent.decode("latin-1").lower() != origin:
        return True
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        is_link = headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest") == b"document"
        return site not in _OWN and not (is_link and method in _SAFE)
    if sent is not None or _origin_of(headers.get(b"referer", b"")) == origin:
        return False
    # Without both headers, a page that was typed or linked is harmless; a script or an image is not.
    return method not in _SAFE or b"text/html" not in headers.get(b"accept", b"")


def _origin_of(referer: bytes) -> str:
    try:
        parts = urlsplit(referer.decode("latin-1"))
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc}".lower()
