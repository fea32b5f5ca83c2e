"""Adapts adlfs, the file system for Azure Blob Storage, to a server: only given credentials, and bounded waits.

By default the library looks for missing credentials in the server's own environment, tries again for minutes when
nothing answers, and continues with a new file when an old one is replaced during a read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from adlfs import AzureBlobFile, AzureBlobFileSystem  # type: ignore[import-untyped]
from azure.core import MatchConditions
from azure.core.credentials import AzureSasCredential
from azure.storage.blob.aio import BlobServiceClient
from fsspec.asyn import sync  # type: ignore[import-untyped]

RETRIES = 1


class _Careful(AzureBlobFile):  # type: ignore[misc]
    """Reads one version of a file."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        return bytes(sync(self.loop, self._fetched, start, min(end, self.size)))

    async def _fetched(self, start: int, end: int) -> bytes:
        one = {"etag": self.details["etag"], "match_condition": MatchConditions.IfNotModified}
        async with self.container_client as client:
            stream = await client.download_blob(self.blob, offset=start, length=end - start, max_concurrency=1, **one)
            return bytes(await stream.readall())


class _Own(AzureBlobFileSystem):  # type: ignore[misc]
    """Connects with the given credentials only."""

    def __init__(self, url: str, login: Any, timeout_s: tuple[int, int], **more: Any) -> None:
        self._url = url
        self._login = login
        self._timeout_s = timeout_s
        super().__init__(anon=True, use_listings_cache=False, skip_instance_cache=True, **more)

    def _open(self, path: str, mode: str = "rb", **more: Any) -> Any:
        return (_Careful if mode == "rb" else AzureBlobFile)(self, path, mode=mode, **more)

    def do_connect(self) -> None:
        """Prepare the connection; nothing is sent yet."""
        self.account_key = self.sas_token = self.connection_string = self.credential = None
        connect_s, read_s = self._timeout_s
        self.service_client = BlobServiceClient(
            self._url,
            credential=self._login,
            retry_total=RETRIES,
            connection_timeout=connect_s,
            read_timeout=read_s,
        )


def open_azure(data: Mapping[str, Any], secrets: Mapping[str, str], timeout_s: tuple[int, int]) -> Any:
    """Return the file system of a storage."""
    account = data["accountName"]
    key = secrets.get("accountKey")
    token = secrets.get("accountSASToken", "").lstrip("?")
    login: Any = AzureSasCredential(token) if token else None
    if key:
        login = {"account_name": account, "account_key": key}
    return _Own(_url(account, data.get("endpoint", "")), login, timeout_s, account_name=account)


def _url(account: str, endpoint: str) -> str:
    if not endpoint:
        return f"https://{account}.blob.core.windows.net"
    # An emulator has one address for all accounts, and the account in the path.
    is_own = (urlsplit(endpoint).hostname or "").startswith(f"{account}.") or urlsplit(endpoint).path.strip("/")
    return endpoint if is_own else f"{endpoint.rstrip('/')}/{account}"
