"""What is in storages, over HTTP: uploads, downloads, and everything that must not be possible."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from openpai.access.accounts import Token

from .api_world import open_world
from .storage_place import Place, open_place


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with open_place(tmp_path) as opened:
        yield opened


async def test_files_go_in_and_come_out_as_they_were(place: Place) -> None:
    content = os.urandom(3 * 1024 * 1024 + 17)
    path = "/storages/data/files/a b/ü/big.bin"
    answer = await place.ask("PUT", path, content=content)
    assert (answer.status_code, answer.json()) == (
        201,
        {"storage": "data", "path": "a b/ü/big.bin", "size": len(content)},
    )
    got = await place.ask("GET", path)
    assert got.content == content
    assert got.headers["content-disposition"] == "attachment; filename*=UTF-8''big.bin"
    listed = (await place.ask("GET", "/storages/data/files", params={"path": "a b/ü"})).json()
    assert [(each["name"], each["type"], each["size"]) for each in listed["entries"]] == [
        ("big.bin", "file", len(content))
    ]
    assert await place.code("GET", "/storages/data/files/a b") == (400, "InvalidParametersError")
    assert await place.code("DELETE", "/storages/data/files/a b") == (400, "InvalidParametersError")
    assert (await place.ask("DELETE", "/storages/data/files/a b?recursive=true")).status_code == 200
    assert await place.code("GET", path) == (404, "NoFileError")


@pytest.mark.parametrize(
    ("asked", "status", "message", "content"),
    [
        ("bytes=2-4", 206, "bytes 2-4/10", b"234"),
        ("bytes=8-", 206, "bytes 8-9/10", b"89"),
        ("bytes=-3", 206, "bytes 7-9/10", b"789"),
        ("bytes=5-999", 206, "bytes 5-9/10", b"56789"),
        ("bytes=0-9", 200, None, b"0123456789"),
        ("bytes=10-", 416, "bytes */10", None),
        ("bytes=-0", 416, "bytes */10", None),
        ("bytes=4-2", 416, "bytes */10", None),
        ("bytes=-", 400, None, None),
        ("lines=1-2", 400, None, None),
    ],
)
async def test_parts_of_a_file(
    place: Place, asked: str, status: int, message: str | None, content: bytes | None
) -> None:
    (place.root / "digits").write_text("0123456789")
    got = await place.ask("GET", "/storages/data/files/digits", headers={"Range": asked})
    assert (got.status_code, got.headers.get("content-range")) == (status, message)
    if content is not None:
        assert got.content == content


async def test_parts_of_two_versions_are_never_put_together(place: Place) -> None:
    path = "/storages/data/files/digits"
    (place.root / "digits").write_text("0123456789")
    mark = (await place.ask("GET", path)).headers["etag"]
    for known, content in ((mark, b"89"), ('"of-another-version"', b"0123456789")):
        got = await place.ask("GET", path, headers={"Range": "bytes=8-", "If-Range": known})
        assert got.content == content
    assert (await place.ask("PUT", path, content=b"x", headers={"Content-Range": "bytes 3-3/10"})).status_code == 400
    assert (place.root / "digits").read_text() == "0123456789"


async def test_an_empty_file_can_be_stored_and_fetched(place: Place) -> None:
    assert (await place.ask("PUT", "/storages/data/files/empty", content=b"")).json()["size"] == 0
    got = await place.ask("GET", "/storages/data/files/empty")
    assert (got.status_code, got.content) == (200, b"")


@pytest.mark.parametrize(
    "path",
    ["../secret", "a/../../secret", "..%2fsecret", "%2e%2e/secret", "a%2f..%2f..%2fsecret", "..%5csecret", "x%00y",
     "x%0d%0aSet-Cookie:a", "a" * 300],
)  # fmt: skip
async def test_no_path_leads_out(place: Place, path: str) -> None:
    (place.root.parent / "secret").write_text("secret")
    for method in ("GET", "PUT", "DELETE"):
        # httpx itself would tidy up a path that was given as text.
        answer = await place.ask(method, f"/storages/data/files/{path}")
        assert answer.status_code in (400, 404, 405), (method, answer.text)
        assert answer.text != "secret"
    assert (place.root.parent / "secret").read_text() == "secret"
    assert list(place.root.iterdir()) == []


async def test_the_top_of_a_storage_is_no_file(place: Place) -> None:
    for method in ("PUT", "DELETE"):
        assert (await place.ask(method, "/storages/data/files/")).status_code in (400, 404, 405)
    assert (await place.ask("GET", "/storages/data")).status_code == 200


async def test_many_first_requests_at_once_are_all_served(place: Place) -> None:
    await place.world.login("ann")
    files = [f"file{number}" for number in range(12)]
    answers = await asyncio.gather(
        *(place.ask("PUT", f"/storages/data/files/{file}", content=file.encode()) for file in files)
    )
    assert [answer.status_code for answer in answers] == [201] * len(files)
    assert {path.name for path in place.root.iterdir()} == set(files)


@pytest.mark.parametrize("act", ["change", "remove"])
async def test_an_upload_outlives_a_change_of_its_storage(place: Place, act: str) -> None:
    async def content() -> AsyncIterator[bytes]:
        yield b"x" * 2_000_000
        if act == "change":
            body = {"type": "local", "data": {"path": str(place.root)}, "description": "changed"}
            assert (await place.ask("PUT", "/storages/data", "root", json=body)).status_code == 201
            assert (await place.ask("GET", "/storages/data/files")).json()["entries"] == []
        else:
            assert (await place.ask("DELETE", "/storages/data", "root")).status_code == 200
        yield b"y" * 2_000_000

    answer = await place.ask("PUT", "/storages/data/files/file", content=content())
    assert (answer.status_code, answer.json()["size"]) == (201, 4_000_000)
    assert [path.name for path in place.root.iterdir()] == ["file"]


@pytest.mark.parametrize("is_read_only", [False, True])
async def test_what_a_killed_server_left_is_not_kept_for_ever(place: Place, is_read_only: bool) -> None:
    await place.add("more", readOnly=is_read_only)
    now_s = place.world.clock.now_ms() / 1000
    for name, age_s in ((".pai-upload-old", 90_000), (".pai-upload-new", 60), ("file", 90_000)):
        (place.root / name).write_text("half")
        os.utime(place.root / name, (now_s - age_s, now_s - age_s))
    listed = (await place.ask("GET", "/storages/more/files", "root")).json()["entries"]
    assert [each["name"] for each in listed] == ["file"]
    left = {path.name for path in place.root.iterdir()}
    assert left == {"file", ".pai-upload-new"} | ({".pai-upload-old"} if is_read_only else set())


async def test_a_long_list_opens_no_file_twice(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(300):
        (place.root / f"{number:03}").touch()
    (place.root / "link").symlink_to("007")
    opened: list[Any] = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda *given, **more: opened.append(given) or real(*given, **more))
    listed = (await place.ask("GET", "/storages/data/files", params={"offset": 290})).json()
    assert (listed["totalCount"], [each["name"] for each in listed["entries"]][-2:]) == (301, ["299", "link"])
    assert len(opened) < 20


async def test_a_full_disk_is_reported_as_such(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    answer = await place.ask("PUT", "/storages/data/files/file", content=b"x")
    assert (answer.status_code, answer.json()["message"]) == (503, "the storage data is full")
    assert list(place.root.iterdir()) == []


async def test_links_lead_about_inside_and_never_out(place: Place) -> None:
    (place.root.parent / "secret").write_text("secret")
    (place.root / "dir").mkdir()
    (place.root / "dir" / "file").write_text("inside")
    (place.root / "in").symlink_to("dir")
    (place.root / "out").symlink_to("..")
    (place.root / "file-out").symlink_to("../secret")
    (place.root / "root").symlink_to("/")
    assert (await place.ask("GET", "/storages/data/files/in/file")).text == "inside"
    listed = (await place.ask("GET", "/storages/data/files")).json()["entries"]
    assert [(each["name"], each["type"]) for each in listed] == [("dir", "directory"), ("in", "directory")]
    forbidden = (403, "ForbiddenUserError")
    for path in ("out/secret", "file-out", "root/etc/passwd", "in/../out/secret"):
        expected = (400, "InvalidParametersError") if ".." in path else forbidden
        assert await place.code("GET", f"/storages/data/files/{path.replace('..', '%2e%2e')}") == expected
    for path in ("out/new", "file-out", "root/tmp/new"):
        assert await place.code("PUT", f"/storages/data/files/{path}", content=b"new") == forbidden
    assert await place.code("DELETE", "/storages/data/files/out/secret") == forbidden
    assert (await place.ask("DELETE", "/storages/data/files/file-out")).status_code == 200
    assert (await place.ask("DELETE", "/storages/data/files/root?recursive=true")).status_code == 200
    assert (place.root.parent / "secret").read_text() == "secret"
    assert not (place.root.parent / "new").exists()


async def test_what_cannot_be_asked_for_is_not_listed(place: Place) -> None:
    (place.root / os.fsdecode(b"\xff")).touch()
    os.mkfifo(place.root / "pipe")
    (place.root / "file").touch()
    listed = (await place.ask("GET", "/storages/data/files")).json()["entries"]
    assert [each["name"] for each in listed] == ["file"]


async def test_special_files_are_not_read(place: Place) -> None:
    os.mkfifo(place.root / "pipe")
    assert await place.code("GET", "/storages/data/files/pipe") == (403, "ForbiddenUserError")


async def test_a_read_only_storage_takes_nothing_from_any_user(place: Place) -> None:
    (place.root / "file").write_text("kept")
    await place.add("fixed", readOnly=True)
    await place.ask("PUT", "/storages/fixed/groups/vision", "root")
    for user in ("ann", "root"):
        assert (await place.ask("GET", "/storages/fixed/files/file", user)).text == "kept"
        assert await place.code("PUT", "/storages/fixed/files/file", user, content=b"x") == (
            403,
            "ReadOnlyStorageError",
        )
        assert await place.code("DELETE", "/storages/fixed/files/file", user) == (403, "ReadOnlyStorageError")
    assert [step["step"] for step in (await place.ask("POST", "/storages/fixed/test", "root")).json()["steps"]] == [
        "connect",
        "list",
        "write",
    ]
    assert (place.root / "file").read_text() == "kept"


async def test_users_see_only_their_own_folder(place: Place) -> None:
    await place.add("home", share=False)
    for group in ("vision", "default"):
        await place.ask("PUT", f"/storages/home/groups/{group}", "root")
    assert (await place.ask("GET", "/storages/home/files", "ann")).json()["entries"] == []
    for user in ("ann", "bob"):
        assert (await place.ask("PUT", "/storages/home/files/diary", user, content=user.encode())).status_code == 201
    for user in ("ann", "bob"):
        assert (await place.ask("GET", "/storages/home/files/diary", user)).text == user
        assert (place.root / user / "diary").read_text() == user
    (place.root / "bob" / "peek").symlink_to("../ann/diary")
    assert await place.code("GET", "/storages/home/files/peek", "bob") == (403, "ForbiddenUserError")
    assert await place.code("GET", "/storages/home/files/%2e%2e/ann/diary", "bob") == (400, "InvalidParametersError")


async def test_an_upload_that_breaks_off_changes_nothing(place: Place) -> None:
    (place.root / "file").write_text("as it was")

    headers = await place.world.login("ann")
    messages = iter(
        [{"type": "http.request", "body": b"x" * 2_000_000, "more_body": True}, {"type": "http.disconnect"}]
    )
    answers = []

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        answers.append(message)

    path = "/api/v2/storages/data/files/file"
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "PUT",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"authorization", headers["Authorization"].encode())],
        "server": ("pai", 80),
        "client": ("192.0.2.7", 4711),
    }
    await place.world.api(scope, receive, send)
    assert answers == []
    assert [path.name for path in place.root.iterdir()] == ["file"]
    assert (place.root / "file").read_text() == "as it was"


async def test_uploads_may_be_large_and_other_bodies_may_not(tmp_path: Path) -> None:
    async with open_world(tmp_path, body_max_bytes=1000, upload_max_bytes=5000) as world:
        place = Place(world, tmp_path / "shared")
        place.root.mkdir()
        await place.add("data")
        assert (await place.ask("PUT", "/storages/data/files/x", "root", content=b"x" * 4000)).status_code == 201
        too_large = (413, "RequestTooLargeError")
        assert await place.code("PUT", "/storages/data/files/x", "root", content=b"x" * 6000) == too_large
        assert await place.code("PUT", "/storages/data", "root", content=b"x" * 4000) == too_large
        assert (place.root / "x").stat().st_size == 4000


async def test_a_token_for_reading_reads_and_does_not_write(place: Place) -> None:
    await place.world.users.add_token(Token(sha256(b"reader").hexdigest(), "ann", True, 0, None, scope="read"))
    bearer = {"Authorization": "Bearer reader"}
    get = await place.world.http.get("/api/v2/storages/data/files", headers=bearer)
    put = await place.world.http.put("/api/v2/storages/data/files/x", headers=bearer, content=b"x")
    assert (get.status_code, put.status_code) == (200, 403)
