"""Connects to storages: the library for each kind, and the threads in which its blocking calls run.

Each storage has its own few threads, so one that hangs delays only those who use it. A storage that is changed or
removed is not closed while a request still uses it: the last reference closes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from openpai.ports.storages import Storage
from openpai.protocol.errors import BadConfiguration
from openpai.storage.driver import Connection
from openpai.storage.errors import ErrorTranslator
from openpai.storage.local import LocalConnection
from openpai.storage.remote import RemoteConnection
from openpai.storage.smb import SmbConnection

CONNECT_S: Final = 10
READ_S: Final = 50
THREADS: Final = 4
CALL_TIMEOUT_S: Final = 60.0
ASK_TIMEOUT_S: Final = 20.0
"""For what moves no data, so that a storage that hangs has a clear error soon."""
_GUEST: Final = "guest"

Values = Mapping[str, Any]
T = TypeVar("T")


class Workers:
    """Runs blocking calls to one storage."""

    def __init__(self, name: str, timeout_s: float = CALL_TIMEOUT_S) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix=f"storage-{name}")
        self._timeout_s = timeout_s

    async def run(self, work: Callable[..., T], *given: Any) -> T:
        """Return what `work` returns; raise TimeoutError when it takes too long."""
        running = asyncio.get_running_loop().run_in_executor(self._threads, work, *given)
        async with asyncio.timeout(self._timeout_s):
            return await running

    async def ask(self, work: Callable[..., T], *given: Any) -> T:
        """Return what `work`, which moves no data, returns; raise TimeoutError when it takes too long for that."""
        async with asyncio.timeout(min(ASK_TIMEOUT_S, self._timeout_s)):
            return await self.run(work, *given)

    def close(self, last: Callable[[], object] | None = None) -> None:
        """Accept no calls after `last`, which may block; do not wait for it."""
        with contextlib.suppress(RuntimeError):
            if last is not None:
                self._threads.submit(last)
        self._threads.shutdown(wait=False)


class Opened:
    """A connected storage with its definition at that time. Without a connection it can only be mounted by jobs."""

    def __init__(
        self, storage: Storage, workers: Workers, errors: ErrorTranslator, connection: Connection | None
    ) -> None:
        self.storage = storage
        self.workers = workers
        self.errors = errors
        self.connection = connection
        self._last = connection.close if connection else None
        self._end = weakref.finalize(self, _close_soon, asyncio.get_running_loop(), workers, self._last)
        self._end.atexit = False

    def close(self) -> None:
        """Close the connection now, even while requests use it."""
        if self._end.detach():
            self.workers.close(self._last)


def _close_soon(loop: asyncio.AbstractEventLoop, workers: Workers, last: Callable[[], object] | None) -> None:
    """Have the loop close a connection whose last reference is gone.

    That is noticed at any moment, also in the middle of a call of a pool of threads, whose lock is held then: closing
    at once would wait for that lock for ever.
    """
    # Without its loop, the server has ended.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(workers.close, last)


def connect(storage: Storage, secrets: Mapping[str, str]) -> Connection:
    """Return a connection; most kinds send nothing before it is used. Raises BadConfigurationError, OSError."""
    if storage.data.get("mountedAt"):
        return LocalConnection(storage.data["mountedAt"])
    return _MAKERS[storage.kind](storage.name, storage.data, secrets)


def _only_mounted(name: str, _data: Values, _secrets: Values) -> Connection:
    raise BadConfiguration(
        f"the storage {name} can be mounted by jobs but not browsed: it is not mounted on this server",
        "mount it on this machine and set data.mountedAt to that directory",
    )


def _smb(name: str, data: Values, secrets: Values) -> Connection:
    require("smbclient", "smb", name)
    user = data.get("username", "")
    # Always with a name and a password: without them the library would look for the server's own.
    login: dict[str, Any] = {"port": data["port"], "connection_timeout": CONNECT_S}
    login["username"] = f"{data['domain']}\\{user}" if data.get("domain") and user else user or _GUEST
    login["password"] = secrets.get("password") or _GUEST
    if not user:
        # Messages of a guest cannot be signed.
        login |= {"auth_protocol": "ntlm", "require_signing": False}
    return SmbConnection(f"\\\\{data['server']}\\{data['share']}", data.get("path", ""), **login)


def _s3(name: str, data: Values, secrets: Values) -> Connection:
    s3fs = require("s3fs", "s3", name)
    key = data.get("accessKeyId")
    files = s3fs.S3FileSystem(
        # Without credentials the library would look for the server's own.
        anon=not key,
        key=key,
        secret=secrets.get("secretAccessKey"),
        token=secrets.get("sessionToken"),
        endpoint_url=data.get("endpoint"),
        client_kwargs={"region_name": data.get("region") or "us-east-1"},
        config_kwargs={"connect_timeout": CONNECT_S, "read_timeout": READ_S, "retries": {"max_attempts": 2}},
        **_FRESH,
    )

    def remove(paths: Sequence[str]) -> None:
        keys = [{"Key": path.removeprefix(f"{data['bucket']}/")} for path in paths]
        answer = files.call_s3("delete_objects", Bucket=data["bucket"], Delete={"Objects": keys, "Quiet": True})
        for error in answer.get("Errors", ()):
            raise PermissionError(f"{error.get('Key')}: {error.get('Message') or error.get('Code')}")

    return RemoteConnection(files, f"{data['bucket']}/{data.get('prefix', '').strip('/')}", remove)


def _azure_blob(name: str, data: Values, secrets: Values) -> Connection:
    require("adlfs", "azure", name)
    from openpai.storage.azure import open_azure

    files = open_azure(data, secrets, (CONNECT_S, READ_S))

    def remove(paths: Sequence[str]) -> None:
        files.rm(list(paths), expand_path=False)

    return RemoteConnection(files, f"{data['containerName']}/{data.get('prefix', '').strip('/')}", remove)


def _webhdfs(name: str, data: Values, secrets: Values) -> Connection:
    require("requests", "webhdfs", name)
    from openpai.storage.webhdfs import open_webhdfs

    files = open_webhdfs(data, secrets, (CONNECT_S, READ_S))
    return RemoteConnection(files, data["path"])


_FRESH: Final = {"skip_instance_cache": True, "use_listings_cache": False}
_MAKERS: Final[Mapping[str, Callable[[str, Values, Values], Connection]]] = {
    "local": lambda _name, data, _secrets: LocalConnection(data["path"]),
    "nfs": _only_mounted,
    "claim": _only_mounted,
    "smb": _smb,
    "s3": _s3,
    "azureBlob": _azure_blob,
    "webhdfs": _webhdfs,
}


def require(module: str, extra: str, storage: str) -> Any:
    """Return a library; if it is missing, raise BadConfigurationError with what to install."""
    try:
        return importlib.import_module(module)
    except ImportError:
        message = f"the storage {storage} needs the Python package {module!r}, which this server does not have"
        raise BadConfiguration(message, f"pip install 'openpai[{extra}]'") from None
