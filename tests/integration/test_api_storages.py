"""Storages over HTTP: describing, granting, testing, browsing, and everything that must not be possible."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from openpai.ports.accounts import Group

from .api_world import World, open_world

SECRET = "hunter2-and-a-half"


@dataclass
class Place:
    """A platform, and a directory that is its storage `data`, granted to ann through the group `vision`."""

    world: World
    root: Path

    async def ask(self, method: str, path: str, user: str = "ann", **more: Any) -> Any:
        return await self.world.ask(method, path, user, **more)

    async def code(self, method: str, path: str, user: str = "ann", **more: Any) -> tuple[int, str]:
        answer = await self.ask(method, path, user, **more)
        return answer.status_code, answer.json().get("code", "")

    async def add(self, name: str, kind: str = "local", **more: Any) -> Any:
        data = more.pop("data", {"path": str(self.root)})
        return await self.ask("POST", "/storages", "root", json={"name": name, "type": kind, "data": data, **more})


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with open_world(tmp_path) as world:
        await world.users.add_group(Group("vision"))
        await world.users.change_user("ann", lambda ann: replace(ann, groups=(*ann.groups, Group("vision"))))
        root = tmp_path / "shared"
        root.mkdir()
        place = Place(world, root)
        assert (await place.add("data")).status_code == 201
        assert (await place.ask("PUT", "/storages/data/groups/vision", "root")).status_code == 201
        yield place


async def test_a_storage_is_shown_as_openpai_does_to_those_who_are_granted_it(place: Place) -> None:
    listed = (await place.ask("GET", "/storages")).json()
    assert listed == {
        "storages": [
            {
                "name": "data",
                "share": True,
                "volumeName": "data",
                "default": True,
                "type": "local",
                "readOnly": False,
                "description": "",
            }
        ]
    }
    shown = (await place.ask("GET", "/storages/data")).json()
    assert shown["data"] == {"path": str(place.root)}
    assert "groups" not in shown
    assert (await place.ask("GET", "/storages/data", "root")).json()["groups"] == ["vision"]
    assert (await place.ask("GET", "/storages", "bob")).json() == {"storages": []}
    assert await place.code("GET", "/storages/data", "bob") == (403, "ForbiddenUserError")
    assert await place.code("GET", "/storages/other", "bob") == (404, "NoStorageError")


async def test_the_first_storage_of_a_group_is_its_default(place: Place) -> None:
    await place.add("more")
    await place.ask("PUT", "/storages/more/groups/vision", "root")

    async def defaults() -> list[str]:
        answer = await place.ask("GET", "/storages", params={"default": "true"})
        return [each["name"] for each in answer.json()["storages"]]

    assert await defaults() == ["data"]
    await place.ask("PUT", "/storages/more/groups/vision?default=true", "root")
    assert await defaults() == ["more"]


async def test_the_old_shapes_are_there_without_credentials(place: Place) -> None:
    await place.add("share", "smb", data={"address": "//nas/team/x", "username": "svc", "password": SECRET})
    await place.ask("PUT", "/storages/share/groups/vision", "root")
    assert (await place.ask("GET", "/storage/config/share")).json() == {
        "name": "share",
        "default": False,
        "servers": ["share"],
        "mountInfos": [{"mountPoint": "/mnt/share", "path": "", "server": "share", "permission": "rw"}],
    }
    [server] = (await place.ask("GET", "/storage/server", params={"names": ["share"]})).json()
    assert (server["spn"], server["type"]) == ("share", "samba")
    assert server["data"]["address"] == "//nas/team/x"
    assert "password" not in server["data"]
    assert [each["name"] for each in (await place.ask("GET", "/storage/config")).json()] == ["data", "share"]
    assert await place.code("GET", "/storage/server?names=nothing") == (404, "NoStorageError")
    assert await place.code("GET", "/storage/server?names=share", "bob") == (403, "ForbiddenUserError")


async def test_a_bad_description_is_told_every_fault_and_no_secret(place: Place) -> None:
    data = {"bucket": "a b", "endpoint": "ftp://x", "secretAccessKey": {"is": SECRET}, "colour": SECRET}
    answer = await place.add("bad name", "s3", data=data)
    assert answer.status_code == 400
    told = answer.json()["message"]
    for part in ("name: ", "data.bucket: ", "data.endpoint: ", "data.secretAccessKey: ", "data.colour: "):
        assert part in told
    assert SECRET not in answer.text


@pytest.mark.parametrize(
    ("kind", "data", "told"),
    [
        ("local", {"path": "relative"}, "absolute"),
        ("local", {"path": "/data/../etc"}, "'..'"),
        ("nfs", {"server": "a b", "path": "/x"}, "data.server"),
        ("nfs", {"server": "nas", "path": "/x", "mountOptions": "a b;c"}, "data.mountOptions"),
        ("smb", {"address": "nas/team"}, "//server/share"),
        ("smb", {"server": "n", "share": "s", "username": "a,uid=0"}, "data.username"),
        ("s3", {"bucket": "b", "endpoint": "https://me:pw@x"}, "credentials"),
        (
            "azureBlob",
            {"containerName": "c", "accountName": "a", "accountKey": "k", "accountSASToken": "t"},
            "not both",
        ),
        ("webhdfs", {"server": "n", "user": "u", "delegationToken": "t"}, "delegationToken"),
        ("webhdfs", {"server": "n", "port": 0}, "data.port"),
        ("floppy", {}, "type"),
    ],
)
async def test_each_type_knows_what_it_may_be_told(place: Place, kind: str, data: Any, told: str) -> None:
    answer = await place.add("x", kind, data=data)
    assert answer.status_code == 400
    assert told in answer.json()["message"]


async def test_the_platforms_own_data_can_be_no_storage(place: Place) -> None:
    for path in (place.world.logs_root, place.world.logs_root / "x", Path("/")):
        answer = await place.add("own", data={"path": str(path)})
        assert "the platform's own data" in answer.json()["message"]


async def test_credentials_are_nowhere_to_be_seen(place: Place) -> None:
    data = {"bucket": "b", "endpoint": "http://127.0.0.1:9", "accessKeyId": "key", "secretAccessKey": SECRET}
    told = [await place.add("s3", "s3", data=data)]
    paths = ("/storages", "/storages/s3", "/storage/server/s3", "/storages/s3/files", "/storages/s3/files/x")
    told += [await place.ask("GET", path, "root") for path in paths]
    told.append(await place.ask("POST", "/storages/s3/test", "root"))
    assert told[-1].json()["ok"] is False
    assert told[1].status_code == 200
    assert not [answer.text for answer in told if SECRET in answer.text]
    kept = b"".join(path.read_bytes() for path in Path(place.world.database.url.database).parent.glob("pai.db*"))
    assert b"127.0.0.1:9" in kept
    assert SECRET.encode() not in kept


async def test_credentials_stay_when_the_place_stays_and_never_move_along(place: Place) -> None:
    data = {"bucket": "b", "endpoint": "http://one:9", "accessKeyId": "key"}
    await place.add("s3", "s3", data={**data, "secretAccessKey": SECRET})
    same = {"type": "s3", "data": data, "description": "ours"}
    answer = await place.ask("PUT", "/storages/s3", "root", json=same)
    assert (answer.status_code, answer.json()["hasCredentials"], answer.json()["description"]) == (201, True, "ours")
    moved = {"type": "s3", "data": {**data, "endpoint": "http://two:9"}}
    answer = await place.ask("PUT", "/storages/s3", "root", json=moved)
    assert answer.status_code == 400
    assert "belong to the old place" in answer.json()["message"]
    moved["data"]["secretAccessKey"] = "another"
    assert (await place.ask("PUT", "/storages/s3", "root", json=moved)).status_code == 201


async def test_only_administrators_change_storages(place: Place) -> None:
    body = {"name": "mine", "type": "local", "data": {"path": "/tmp"}}
    forbidden = (403, "ForbiddenUserError")
    assert await place.code("POST", "/storages", json=body) == forbidden
    assert await place.code("PUT", "/storages/data", json=body) == forbidden
    assert await place.code("DELETE", "/storages/data") == forbidden
    assert await place.code("POST", "/storages/data/test") == forbidden
    assert await place.code("PUT", "/storages/data/groups/default") == forbidden
    assert await place.code("DELETE", "/storages/data/groups/vision") == forbidden


async def test_a_grant_counts_at_once_and_so_does_taking_it_back(place: Place) -> None:
    assert (await place.ask("GET", "/storages/data/files", "bob")).status_code == 403
    await place.ask("PUT", "/storages/data/groups/default", "root")
    assert (await place.ask("GET", "/storages/data/files", "bob")).status_code == 200
    await place.ask("DELETE", "/storages/data/groups/default", "root")
    assert (await place.ask("GET", "/storages/data/files", "bob")).status_code == 403
    assert await place.code("PUT", "/storages/data/groups/nobody", "root") == (404, "NoGroupError")
    assert await place.code("PUT", "/storages/nothing/groups/vision", "root") == (404, "NoStorageError")


async def test_removing_a_storage_takes_its_grants_and_leaves_its_data(place: Place) -> None:
    (place.root / "kept").write_text("kept")
    assert (await place.ask("DELETE", "/storages/data", "root")).status_code == 200
    assert (place.root / "kept").read_text() == "kept"
    assert (await place.world.users.group("vision")).storages == ()
    assert await place.code("DELETE", "/storages/data", "root") == (404, "NoStorageError")
    assert (await place.add("data")).status_code == 201
    assert (await place.add("data")).json()["code"] == "ConflictStorageError"


async def test_testing_says_how_far_it_came(place: Place) -> None:
    good = (await place.ask("POST", "/storages/data/test", "root")).json()
    assert good["ok"] is True
    assert [step["step"] for step in good["steps"]] == ["connect", "list", "write", "read", "remove"]
    assert list(place.root.iterdir()) == []
    place.root.rmdir()
    bad = (await place.ask("POST", "/storages/data/test", "root")).json()
    assert bad["ok"] is False
    assert bad["steps"] == [
        {"step": "connect", "ok": False, "message": f"there is no directory {place.root} on this server"}
    ]


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
    ("asked", "status", "told", "content"),
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
async def test_parts_of_a_file(place: Place, asked: str, status: int, told: str | None, content: bytes | None) -> None:
    (place.root / "digits").write_text("0123456789")
    got = await place.ask("GET", "/storages/data/files/digits", headers={"Range": asked})
    assert (got.status_code, got.headers.get("content-range")) == (status, told)
    if content is not None:
        assert got.content == content


async def test_an_empty_file_can_be_stored_and_fetched(place: Place) -> None:
    assert (await place.ask("PUT", "/storages/data/files/empty", content=b"")).json()["size"] == 0
    got = await place.ask("GET", "/storages/data/files/empty")
    assert (got.status_code, got.content) == (200, b"")


@pytest.mark.parametrize(
    "path",
    ["../secret", "a/../../secret", "..%2fsecret", "%2e%2e/secret", "a%2f..%2f..%2fsecret", "..%5csecret", "x%00y",
     "x%0d%0aSet-Cookie:a", "a" * 300, ""],
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


async def test_special_files_are_not_read(place: Place) -> None:
    os.mkfifo(place.root / "pipe")
    assert await place.code("GET", "/storages/data/files/pipe") == (403, "ForbiddenUserError")


async def test_a_read_only_storage_takes_nothing_from_anybody(place: Place) -> None:
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


async def test_everybody_sees_their_own_folder_only(place: Place) -> None:
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
    from hashlib import sha256

    from openpai.ports.accounts import Token

    await place.world.users.add_token(Token(sha256(b"reader").hexdigest(), "ann", True, 0, None, scope="read"))
    bearer = {"Authorization": "Bearer reader"}
    get = await place.world.http.get("/api/v2/storages/data/files", headers=bearer)
    put = await place.world.http.put("/api/v2/storages/data/files/x", headers=bearer, content=b"x")
    assert (get.status_code, put.status_code) == (200, 403)
