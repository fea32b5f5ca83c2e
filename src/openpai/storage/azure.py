"""adlfs's file system for Azure Blob Storage with what a server needs of it: our credentials only, and an end to waits.

Left to itself the library looks into the server's own environment for credentials that a storage was not given, and
tries again for minutes when nobody answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from adlfs import AzureBlobFileSystem  # type: ignore[import-untyped]
from azure.core.credentials import AzureSasCredential
from azure.storage.blob.aio import BlobServiceClient

RETRIES = 1


class _Own(AzureBlobFileSystem):  # type: ignore[misc]
    """Connects as it is told, and in no other way."""

    def __init__(self, url: str, login: Any, timeout_s: tuple[int, int], **more: Any) -> None:
        self._url = url
        self._login = login
        self._timeout_s = timeout_s
        super().__init__(anon=True, use_listings_cache=False, skip_instance_cache=True, **more)

    def do_connect(self) -> None:
        """Prepare to connect; nobody is spoken to yet."""
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
