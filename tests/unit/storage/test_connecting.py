"""Messages when a storage cannot be opened, which never contain secrets."""

from __future__ import annotations

import asyncio
import importlib
import threading
from concurrent.futures import thread as pools
from typing import Any

import pytest

from openpai.ports.storages import Storage
from openpai.protocol.errors import Refused
from openpai.storage import connections
from openpai.storage.area import file_parts, folder_of, parts
from openpai.storage.connections import Opened, Workers, connect
from openpai.storage.errors import ErrorTranslator
from openpai.storage.kinds import read

PLACES = {
    "s3": ({"bucket": "b"}, "openpai[s3]"),
    "azureBlob": ({"containerName": "c", "accountName": "a"}, "openpai[azure]"),
    "webhdfs": ({"server": "n"}, "openpai[webhdfs]"),
    "smb": ({"server": "n", "share": "s"}, "openpai[smb]"),
}


@pytest.mark.parametrize("kind", sorted(PLACES))
def test_a_missing_library_is_named_with_what_installs_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, extra = PLACES[kind]
    draft = read({"name": "it", "type": kind, "data": data})

    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(Refused) as message:
        connect(Storage("it", kind, draft.data), {})
    assert message.value.code == "BadConfigurationError"
    assert extra in message.value.advice


def test_what_libraries_say_loses_every_secret_however_it_is_written() -> None:
    translator = ErrorTranslator("it", ("a/b+c=", "tok en"))
    output = "GET https://x/y?delegation=a%2Fb%2Bc%3D&z=tok+en tok%20en a/b+c= failed\nfor ever"
    message = translator.clean(output)
    assert message == "GET https://x/y?delegation=******&z=****** ****** ****** failed for ever"
    assert "a/b" not in str(translator.error(OSError(5, output)))
    assert "a/b" not in repr(translator)


def test_credentials_are_apart_from_what_is_shown() -> None:
    draft = read({"name": "it", "type": "samba", "data": {"address": "//n/s/p", "username": "u", "password": "pw"}})
    assert draft.kind == "smb"
    assert dict(draft.data) == {"server": "n", "share": "s", "path": "p", "username": "u", "port": 445}
    assert dict(draft.secrets) == {"password": "pw"}
    assert "pw" not in repr(draft)


@pytest.mark.parametrize("path", ["..", "a/../b", "a\\b", "a\0", "a\nb", "\ud800", "x" * 256, "a/" * 2000 + "b",
                                  ".pai-upload-mine", "a/.pai-upload-1/b"])  # fmt: skip
def test_paths_that_lead_out_or_mean_something_else_are_refused(path: str) -> None:
    with pytest.raises(Refused):
        parts(path)


def test_paths_are_taken_apart() -> None:
    assert parts("/a//b/./c/") == ("a", "b", "c")
    assert parts("") == ()
    with pytest.raises(Refused):
        file_parts("/")
    for user in ("..", ".", "a/b", ""):
        with pytest.raises(Refused):
            folder_of(user)


async def test_a_storage_that_hangs_is_given_up_sooner_when_no_data_is_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "ASK_TIMEOUT_S", 0.01)
    workers, answered = Workers("it"), threading.Event()
    try:
        with pytest.raises(TimeoutError):
            await workers.ask(answered.wait)
    finally:
        answered.set()
        workers.close()


class _Closing:
    """A connection that says when it is closed."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def close(self) -> None:
        self.closed.set()


async def test_a_connection_that_is_forgotten_while_a_pool_is_locked_is_closed_afterwards() -> None:
    connection: Any = _Closing()
    held = [Opened(Storage("it", "s3", {}), Workers("it"), ErrorTranslator("it", ()), connection)]
    forgets = threading.Thread(target=held.clear, daemon=True)
    with pools._global_shutdown_lock:
        forgets.start()
        forgets.join(5)
        assert not forgets.is_alive()
    assert not connection.closed.is_set()
    await asyncio.sleep(0)
    assert await asyncio.to_thread(connection.closed.wait, 5)


def test_what_hangs_is_given_up_within_half_a_minute() -> None:
    assert connections.ASK_TIMEOUT_S < 30
