"""Every kind of storage sits one exam, against a real server where there is one."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet

from openpai.ports.storages import Area
from openpai.protocol.errors import PaiError, Refused
from openpai.storage.service import StorageService
from openpai.store.database import Database
from openpai.store.storages import SqlStorageStore
from openpai.store.vault import Vault
from tests.newest import fill

from .api_world import HandClock
from .storage_servers import KINDS, SECRET

BIG = os.urandom(11 * 1024 * 1024 + 5)


class Served:
    """A storage service with one storage, `it`."""

    def __init__(self, service: StorageService, definition: dict[str, Any], secret: str) -> None:
        self.service = service
        self.definition = definition
        self.secret = secret

    async def area(self, user: str = "ann") -> Area:
        return await self.service.area("it", user)


@pytest.fixture(scope="module", params=sorted(KINDS))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with KINDS[request.param](tmp_path_factory.mktemp(request.param)) as definition:
        yield definition


@pytest.fixture
async def it(server: Any) -> AsyncIterator[Served]:
    database = Database("sqlite://", inline=True)
    fill(database)
    service = StorageService(SqlStorageStore(database), Vault(Fernet.generate_key().decode()), HandClock())
    definition, secret = server
    await service.add({"name": "it", **definition})
    area = await service.area("it", "ann")
    for entry in await area.list(""):
        await area.remove(entry.name, recursive=True)
    yield Served(service, definition, secret)
    service.close()
    database.close()


async def pieces(*content: bytes) -> AsyncIterator[bytes]:
    for piece in content:
        yield piece


async def all_of(area: Area, path: str, start: int = 0, end: int = 1 << 40) -> bytes:
    return b"".join([piece async for piece in area.read(path, start, end)])


async def test_a_test_tries_everything_and_leaves_nothing(it: Served) -> None:
    steps = await it.service.check("it")
    assert [(step.what, step.is_ok) for step in steps] == [
        (what, True) for what in ("connect", "list", "write", "read", "remove")
    ]
    assert await (await it.area()).list("") == ()


async def test_a_large_file_comes_out_as_it_went_in(it: Served) -> None:
    area = await it.area()
    assert await area.write("a/b c/ü#%+.bin", pieces(*(BIG[at : at + 700_001] for at in range(0, len(BIG), 700_001)))) \
        == len(BIG)  # fmt: skip
    assert await all_of(area, "a/b c/ü#%+.bin") == BIG
    assert await all_of(area, "a/b c/ü#%+.bin", 5_000_000, 9_000_001) == BIG[5_000_000:9_000_001]
    assert [(each.name, each.is_directory) for each in await area.list("a")] == [("b c", True)]
    (entry,) = await area.list("a/b c")
    assert (entry.name, entry.is_directory, entry.size) == ("ü#%+.bin", False, len(BIG))
    assert (await area.entry("a/b c/ü#%+.bin")).size == len(BIG)
    assert (await area.entry("a")).is_directory


async def test_small_and_empty_files_replace_what_was_there(it: Served) -> None:
    area = await it.area()
    for content in (b"first", b"", b"third"):
        assert await area.write("file", pieces(content)) == len(content)
        assert await all_of(area, "file") == content
    assert [entry.name for entry in await area.list("")] == ["file"]


async def test_what_breaks_off_changes_nothing(it: Served) -> None:
    area = await it.area()
    await area.write("file", pieces(b"as it was"))

    async def breaks() -> AsyncIterator[bytes]:
        yield BIG
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await area.write("file", breaks())
    assert await all_of(area, "file") == b"as it was"
    assert [entry.name for entry in await area.list("")] == ["file"]


@pytest.mark.parametrize("act", ["list", "entry", "read", "remove"])
async def test_what_is_not_there_is_reported(it: Served, act: str) -> None:
    area = await it.area()
    await area.write("other", pieces(b"x"))
    with pytest.raises(Refused) as message:
        await (all_of(area, "missing") if act == "read" else getattr(area, act)("missing"))
    assert message.value.code == "NoFileError"


async def test_directories_are_not_files_and_files_not_directories(it: Served) -> None:
    area = await it.area()
    await area.write("dir/file", pieces(b"x"))
    for work in (
        lambda: area.write("dir", pieces(b"x")),
        lambda: all_of(area, "dir"),
        lambda: area.list("dir/file"),
        lambda: area.remove("dir"),
    ):
        with pytest.raises(Refused) as message:
            await work()
        assert message.value.code == "InvalidParametersError"
    with pytest.raises(Refused):
        await area.write("dir/file/below", pieces(b"x"))
    await area.remove("dir", recursive=True)
    assert await area.list("") == ()


async def test_removing_a_directory_removes_no_other(it: Served) -> None:
    area = await it.area()
    # Patterns to fsspec, names to everybody else.
    names = ["ab", "b", "[ab]"] + (["a*", "a?b"] if "password" not in it.definition["data"] else [])
    for name in names:
        await area.write(f"{name}/file", pieces(b"x"))
    for gone in sorted(names):
        await area.remove(gone, recursive=True)
        names.remove(gone)
        assert [entry.name for entry in await area.list("")] == sorted(names)


async def test_no_name_means_another_file(it: Served) -> None:
    area = await it.area()
    await area.write("file", pieces(b"as it was"))
    for other in ("file?versionId=1", "file?", "file#", "file;1", "file%20"):
        with contextlib.suppress(Refused):
            await area.write(other, pieces(b"other"))
    assert await all_of(area, "file") == b"as it was"


async def test_of_several_uploads_at_once_one_stays_and_nothing_else(it: Served) -> None:
    area = await it.area()
    written = [bytes([letter]) * 300_000 for letter in b"abcdef"]
    done = await asyncio.gather(
        *(area.write("same", pieces(*([each] * 5))) for each in written), return_exceptions=True
    )
    acknowledged = [each * 5 for each, size in zip(written, done, strict=True) if size == 1_500_000]
    # Azure lets nobody finish whose blocks somebody else's end took away.
    assert len(acknowledged) == len(written) or "accountKey" in it.definition["data"]
    assert await all_of(area, "same") in acknowledged
    opened = await it.service._open(await it.service.get("it"))
    assert opened.connection
    assert [entry.name for entry in opened.connection.driver("").list(())] == ["same"]


async def test_no_reader_gets_parts_of_two_files(it: Served) -> None:
    area = await it.area()
    old, new = b"o" * len(BIG) * 2, b"n" * len(BIG) * 2
    await area.write("file", pieces(old))
    reading = area.read("file", 0, len(old))
    read = [await anext(reading)]
    with contextlib.suppress(PaiError):
        await area.write("file", pieces(new))
    with contextlib.suppress(PaiError):
        read += [piece async for piece in reading]
    await reading.aclose()
    assert set(b"".join(read)) == {ord("o")}


async def test_every_user_has_their_own_folder(it: Served) -> None:
    await it.service.change("it", {**it.definition, "share": False})
    ann, bob = await it.area("ann"), await it.area("bob")
    assert await ann.list("") == ()
    await ann.write("diary", pieces(b"ann"))
    await bob.write("diary", pieces(b"bob"))
    assert (await all_of(ann, "diary"), await all_of(bob, "diary")) == (b"ann", b"bob")
    with pytest.raises(Refused, match="'\\.\\.'"):
        await all_of(bob, "../ann/diary")
    with pytest.raises(Refused):
        await it.area("..")


async def test_a_wrong_secret_is_reported_and_not_shown(it: Served) -> None:
    if it.secret in ("", "secretAccessKey"):
        pytest.skip("nobody asks for a secret here" if not it.secret else "moto lets everybody in")
    wrong = "dGhpcyBpcyB3cm9uZw=="
    await it.service.change("it", {**it.definition, "data": {**it.definition["data"], it.secret: wrong}})
    steps = await it.service.check("it")
    assert steps[-1].is_ok is False
    with pytest.raises(PaiError) as message:
        await (await it.area()).list("")
    for text in (steps[-1].message, str(message.value)):
        assert text
        assert wrong not in text
        assert wrong.replace("=", "%3D") not in text


async def test_a_server_that_is_gone_is_unavailable(it: Served) -> None:
    data = dict(it.definition["data"])
    for key, value in (("endpoint", "http://127.0.0.1:9"), ("port", 9), ("path", "/surely/not/there")):
        if key in data and not (key == "path" and "port" in data):
            data[key] = value
            break
    await it.service.change("it", {**it.definition, "data": data})
    steps = await it.service.check("it")
    assert [(step.what, step.is_ok) for step in steps] == [("connect", False)]
    assert SECRET not in steps[0].message


@pytest.mark.parametrize("key", ["bucket", "containerName", "share", "password"])
async def test_what_is_wrong_is_named(it: Served, key: str) -> None:
    data = dict(it.definition["data"])
    if "address" in data:
        data |= {"server": "127.0.0.1", "share": "data", "path": "below"}
        del data["address"]
    if key not in data:
        pytest.skip("this kind has none")
    await it.service.change(
        "it", {**it.definition, "data": {**data, it.secret: it.definition["data"][it.secret], key: "other"}}
    )
    (step,) = await it.service.check("it")
    assert not step.is_ok
    assert ("password" if key == "password" else "other") in step.message


async def test_who_has_no_name_is_a_guest(it: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if it.definition["type"] != "smb":
        pytest.skip("only SMB has guests")
    # Credentials of the server's own, which no storage may use.
    (tmp_path / "own").write_text(f":root:{SECRET}\n")
    monkeypatch.setenv("NTLM_USER_FILE", str(tmp_path / "own"))
    place = {"server": "127.0.0.1", "port": it.definition["data"]["port"]}
    await it.service.add({"name": "guests", "type": "smb", "data": {**place, "share": "open"}})
    assert all(step.is_ok for step in await it.service.check("guests"))
    await it.service.add({"name": "closed", "type": "smb", "data": {**place, "share": "data"}})
    assert [(step.what, step.is_ok) for step in await it.service.check("closed")] == [("connect", False)]
