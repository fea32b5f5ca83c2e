"""Adapts fsspec's file system for WebHDFS to a server: every wait is bounded, and no wrong byte is returned.

By default the library takes the error text of a data node for the content of a file, and continues with a new file when
an old one is replaced during a read.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any

import requests
from fsspec.implementations.webhdfs import WebHDFile, WebHDFS  # type: ignore[import-untyped]
from requests.adapters import HTTPAdapter

Timeout = tuple[float, float]


class _Impatient(HTTPAdapter):
    """Bounds the wait for servers that do not answer: the library itself waits for ever."""

    def __init__(self, timeout: Timeout) -> None:
        self._timeout = timeout
        super().__init__()

    def send(self, request: requests.PreparedRequest, *given: Any, **more: Any) -> requests.Response:
        """Send a request; raise if there is no answer in time."""
        more["timeout"] = more.get("timeout") or self._timeout
        return super().send(request, *given, **more)


class _Careful(WebHDFile):  # type: ignore[misc]
    """Reads one version of a file."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        start, end = max(start, 0), min(end, self.size)
        if start >= end:
            return b""
        query = {"path": self.path, "offset": start, "length": end - start}
        content = bytes(self.fs._call("OPEN", **query).content)  # noqa: SLF001  # it has no other door
        now = self.fs.info(self.path)
        if (now["modificationTime"], now["size"]) != (self.details["modificationTime"], self.size):
            raise OSError(errno.ESTALE, "the file was replaced meanwhile")
        if len(content) != end - start:
            raise OSError(errno.EIO, "a data node sent less than it was asked for, or more")
        return content


class _Files(WebHDFS):  # type: ignore[misc]
    """WebHDFS whose files are checked while they are read."""

    def _open(self, path: str, mode: str = "rb", **more: Any) -> Any:
        return _Careful(self, path, mode=mode, tempdir=self.tempdir, **more)


def open_webhdfs(data: Mapping[str, Any], secrets: Mapping[str, str], timeout: Timeout) -> Any:
    """Return the file system of a storage."""
    token = secrets.get("delegationToken")
    files = _Files(
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
    # Otherwise a proxy or a .netrc from the environment would be used.
    files.session.trust_env = False
    return files
