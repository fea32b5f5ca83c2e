"""fsspec's file system for WebHDFS with what a server needs of it: an end to every wait, and no wrong byte.

Left to itself the library takes a data node's complaint for the content of a file, and goes on with a new file where
it began an old one.
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
    """Gives up on servers that do not answer: the library itself waits for ever."""

    def __init__(self, timeout: Timeout) -> None:
        self._timeout = timeout
        super().__init__()

    def send(self, request: requests.PreparedRequest, *given: Any, **more: Any) -> requests.Response:
        """Send a request; raise when there is no answer in time."""
        more["timeout"] = more.get("timeout") or self._timeout
        return super().send(request, *given, **more)


class _Careful(WebHDFile):  # type: ignore[misc]
    """Reads one version of a file."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        start, end = max(start, 0), min(end, self.size)
        if start >= end:
            return b""
        asked = {"path": self.path, "offset": start, "length": end - start}
        content = bytes(self.fs._call("OPEN", **asked).content)  # noqa: SLF001  # it has no other door
        now = self.fs.info(self.path)
        if (now["modificationTime"], now["size"]) != (self.details["modificationTime"], self.size):
            raise OSError(errno.ESTALE, "the file was replaced meanwhile")
        if len(content) != end - start:
            raise OSError(errno.EIO, "a data node sent less than it was asked for, or more")
        return content


class _Files(WebHDFS):  # type: ignore[misc]
    """WebHDFS with careful files."""

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
    # Otherwise a proxy for the outside world, or a .netrc, would have a say.
    files.session.trust_env = False
    return files
