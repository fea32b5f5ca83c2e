"""Storages over HTTP: describing, granting and testing them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from .storage_place import Place, open_place

SECRET = "hunter2-and-a-half"


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with open_place(tmp_path) as opened:
        yield opened


async def test_a_granted_storage_is_shown_to_its_users_as_openpai_does(place: Place) -> None:
    listed = (await place.ask("GET", "/storages")).json()
    assert listed == {
        "storages": [
            {
                "name": "data",
                "share": True,
                "volumeName": "data",
                "default": True,
                # The old portal knows no directories, and its page is blank with a type that it does not know.
                "type": "unknown",
                "kind": "local",
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
    assert server["data"] == {
        "address": "nas", "rootPath": "team/x", "userName": "svc", "password": "", "domain": "",
    }  # fmt: skip
    here = (await place.ask("GET", "/storage/server/data")).json()
    assert here == {"spn": "data", "type": "unknown", "data": {"path": str(place.root)}, "extension": {}}
    assert [each["name"] for each in (await place.ask("GET", "/storage/config")).json()] == ["data", "share"]
    assert await place.code("GET", "/storage/server?names=nothing") == (404, "NoStorageError")
    assert await place.code("GET", "/storage/server?names=share", "bob") == (403, "ForbiddenUserError")


@pytest.mark.parametrize(
    ("kind", "data", "shown", "old"),
    [
        ("nfs", {"server": "nas", "path": "/x"}, "nfs", {"address": "nas", "rootPath": "/x"}),
        ("s3", {"bucket": "b", "prefix": "p/q"}, "unknown", {"path": "p/q"}),
        ("webhdfs", {"server": "n", "path": "/d"}, "unknown", {"path": "/d"}),
        (
            "azureBlob",
            {"containerName": "c", "accountName": "abc"},
            "azureBlob",
            {"dataStore": "", "containerName": "c", "accountName": "abc", "key": ""},
        ),
    ],
)
async def test_every_kind_is_one_that_the_old_portal_shows(place: Place, kind, data, shown, old) -> None:
    assert (await place.add("other", kind, data=data)).status_code in (200, 201)
    found = (await place.ask("GET", "/storages/other", "root")).json()
    assert (found["type"], found["kind"]) == (shown, kind)
    assert isinstance(found["data"]["path"], str)
    server = (await place.ask("GET", "/storage/server/other", "root")).json()
    assert server["type"] == shown.lower()
    assert old.items() <= server["data"].items()


async def test_every_fault_of_a_bad_description_is_reported_and_no_secret(place: Place) -> None:
    data = {"bucket": "a b", "endpoint": "ftp://x", "secretAccessKey": {"is": SECRET}, "colour": SECRET}
    answer = await place.add("bad name", "s3", data=data)
    assert answer.status_code == 400
    message = answer.json()["message"]
    for part in ("name: ", "data.bucket: ", "data.endpoint: ", "data.secretAccessKey: ", "data.colour: "):
        assert part in message
    assert SECRET not in answer.text


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        ("local", {"path": "relative"}, "absolute"),
        ("local", {"path": "/data/../etc"}, "'..'"),
        ("nfs", {"server": "a b", "path": "/x"}, "data.server"),
        ("nfs", {"server": "nas", "path": "/x", "mountOptions": "a b;c"}, "data.mountOptions"),
        ("smb", {"address": "nas/team"}, "//server/share"),
        ("smb", {"server": "n", "share": "s", "username": "a,uid=0"}, "data.username"),
        ("s3", {"bucket": "b", "endpoint": "https://me:pw@x"}, "credentials"),
        ("azureBlob", {"containerName": "c", "accountName": "a", "endpoint": "https://a.x/?sig=t"}, "credentials"),
        ("s3", {"bucket": "b", "accessKeyId": "k", "sessionToken": "t"}, "needs its secretAccessKey"),
        (
            "azureBlob",
            {"containerName": "c", "accountName": "a", "accountKey": "k", "accountSASToken": "t"},
            "not both",
        ),
        ("webhdfs", {"server": "n", "user": "u", "delegationToken": "t"}, "delegationToken"),
        ("webhdfs", {"server": "n", "port": 0}, "data.port"),
        ("s3", {"bucket": "b", "secretAccessKey": "x"}, "need an accessKeyId"),
        ("smb", {"address": "//n/s", "password": "x"}, "a password needs a username"),
        ("local", {"path": "/srv", "paht": "/"}, "data.paht: is not known here; known are path"),
        ("floppy", {}, "type"),
    ],
)
async def test_each_type_knows_the_keys_it_takes(place: Place, kind: str, data: Any, message: str) -> None:
    answer = await place.add("x", kind, data=data)
    assert answer.status_code == 400
    assert message in answer.json()["message"]


async def test_the_platforms_own_data_can_be_no_storage(place: Place) -> None:
    for path in (place.world.logs_root, place.world.logs_root / "x", Path("/")):
        answer = await place.add("own", data={"path": str(path)})
        assert "the platform's own data" in answer.json()["message"]


async def test_a_link_in_the_place_of_a_storage_shows_nothing_of_the_platform(place: Place) -> None:
    assert await place.code("GET", "/storages/data/files") == (200, "")
    place.root.rename(place.root.with_name("moved"))
    place.root.symlink_to(place.world.logs_root, target_is_directory=True)
    assert await place.code("GET", "/storages/data/files") == (403, "ForbiddenUserError")
    steps = (await place.ask("POST", "/storages/data/test", "root")).json()["steps"]
    assert [(step["step"], step["ok"]) for step in steps] == [("connect", False)]
    place.root.unlink()
    place.root.symlink_to(place.root.with_name("moved"), target_is_directory=True)
    assert await place.code("GET", "/storages/data/files") == (200, "")


async def test_credentials_are_nowhere_to_be_seen(place: Place) -> None:
    data = {"bucket": "b", "endpoint": "http://127.0.0.1:9", "accessKeyId": "key", "secretAccessKey": SECRET}
    message = [await place.add("s3", "s3", data=data)]
    paths = ("/storages", "/storages/s3", "/storage/server/s3", "/storages/s3/files", "/storages/s3/files/x")
    message += [await place.ask("GET", path, "root") for path in paths]
    message.append(await place.ask("POST", "/storages/s3/test", "root"))
    assert message[-1].json()["ok"] is False
    assert message[1].status_code == 200
    assert not [answer.text for answer in message if SECRET in answer.text]
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
    assert "belong to the old one" in answer.json()["message"]
    moved["data"]["secretAccessKey"] = "another"
    assert (await place.ask("PUT", "/storages/s3", "root", json=moved)).status_code == 201
    for kind, without in (("s3", {"bucket": "b"}), ("local", {"path": str(place.root)})):
        await place.ask("PUT", "/storages/s3", "root", json=moved)
        answer = await place.ask("PUT", "/storages/s3", "root", json={"type": kind, "data": without})
        assert (answer.status_code, answer.json()["hasCredentials"]) == (201, False)


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
