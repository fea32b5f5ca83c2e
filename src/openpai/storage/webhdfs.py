"""fsspec's file system for WebHDFS with what a server needs of it: an end to every wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import requests
from fsspec.implementations.webhdfs import WebHDFS  # type: ignore[import-untyped]
from requests.adapters import HTTPAdapter

Timeout = tuple[float, float]


class _Impatient(HTTPAdapter):
    """Gives up on servers that do not answer: the library itself waits for ever."""

    def __init__(self, timeout: Timeout) -> None:
        self._timeout = timeout
        super().__init__()

    def send(self, request: requests.PreparedRequest, *given: Any, **more: Any) -> requests.Response:
        """Send a request; raise when there is no answer in time."""
        more["timeout"] = more.get("timeout") or self._timeout
        return super().send(request, *given, **more)


def open_webhdfs(data: Mapping[str, Any], secrets: Mapping[str, str], timeout: Timeout) -> Any:
    """Return the file system of a storage."""
    token = secrets.get("delegationToken")
    files = WebHDFS(
        data["server"],
        port=data["port"],
        token=token,
        user=None if token else data.get("user"),
        password=secrets.get("password"),
        use_https=data["useHttps"],
        skip_instance_cache=True,
        use_listings_cache=False,
    )
    for scheme in ("http://", "https://"):
        files.session.mount(scheme, _Impatient(timeout))
    # Otherwise a proxy for the outside world, or a .netrc, would have a say.
    files.session.trust_env = False
    return files
