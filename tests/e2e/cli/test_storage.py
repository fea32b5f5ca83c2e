"""Storages from a terminal, on a real platform: described, granted, filled, used by a job, emptied."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.server import PASSWORD, Person, Server


@pytest.fixture(autouse=True)
def no_storages_left(server: Server) -> Iterator[None]:
    """Take away what a test described, so that the next may use the same names on the same platform."""
    yield
    with httpx.Client(base_url=f"{server.url}/api/v2", timeout=60) as http:
        login = http.post("/authn/basic/login", json={"username": "admin", "password": PASSWORD})
        http.headers["Authorization"] = f"Bearer {login.json()['token']}"
        for storage in http.get("/storages").raise_for_status().json()["storages"]:
            http.delete(f"/storages/{storage['name']}").raise_for_status()


@pytest.fixture
def root(pai: Person, tmp_path: Path) -> Path:
    made = tmp_path / "shared"
    made.mkdir()
    message = pai("storage", "add", "data", "local", f"path={made}", "--group", "default", "--description", "Ours")
    assert message.code == 0, message.err
    return made


def test_the_example_reads_and_writes_a_storage(pai: Person, root: Path, tmp_path: Path) -> None:
    (tmp_path / "input.txt").write_text("one\ntwo\nthree\n")
    assert pai("storage", "upload", "data", str(tmp_path / "input.txt")).code == 0
    message = pai("job", "submit", "examples/10-storage.yaml", "--watch")
    assert message.code == 0, message.out
    assert "input.txt has 3 lines" in message.out
    assert pai("storage", "download", "data", "lines.txt", "--to", str(tmp_path / "out")).code == 0
    assert (tmp_path / "out" / "lines.txt").read_text().strip() == "3"


def test_directories_go_up_and_come_down_as_they_were(pai: Person, root: Path, tmp_path: Path) -> None:
    source = tmp_path / "images"
    (source / "cats").mkdir(parents=True)
    (source / "cats" / "1 ü.jpg").write_bytes(os.urandom(2_500_000))
    (source / "list.txt").write_text("1\n")
    message = pai("storage", "upload", "data", str(source), "--to", "train", "--json")
    assert message.json() == {"storage": "data", "files": 2, "bytes": 2_500_002}
    listed = pai("storage", "ls", "data", "train/images", "--json").json()
    assert [(each["name"], each["type"]) for each in listed] == [("cats", "directory"), ("list.txt", "file")]
    assert pai("storage", "download", "data", "train", "--to", str(tmp_path / "out")).code == 0
    down = tmp_path / "out" / "train" / "images"
    assert (down / "cats" / "1 ü.jpg").read_bytes() == (source / "cats" / "1 ü.jpg").read_bytes()
    assert sorted(path.name for path in down.rglob("*")) == ["1 ü.jpg", "cats", "list.txt"]
    refused = pai("storage", "rm", "data", "train")
    assert (refused.code, "`recursive`" in refused.err) == (2, True)
    assert pai("storage", "rm", "data", "train", "-r", "--yes").code == 0
    assert list(root.iterdir()) == []


def test_a_storage_is_shown_tested_and_forgotten(pai: Person, root: Path) -> None:
    assert "Ours" in pai("storage", "list").out
    assert pai("storage", "list", "--default", "--json").json()[0]["name"] == "data"
    message = pai("storage", "test", "data")
    assert (message.code, message.out.count("works")) == (0, 5)
    root.rmdir()
    message = pai("storage", "test", "data", "--json")
    assert (message.code, message.json()["ok"]) == (6, False)
    assert pai("storage", "revoke", "data", "default").code == 0
    assert "default" not in pai("storage", "show", "data").out
    assert pai("storage", "remove", "data", "--yes").code == 0
    assert pai("storage", "show", "data").code == 3


def test_secrets_are_asked_for_and_never_shown(pai: Person) -> None:
    add = ("storage", "add", "bucket", "s3", "bucket=b", "endpoint=http://127.0.0.1:9", "accessKeyId=k")
    message = pai(*add, "--secret", "secretAccessKey", "--secret-stdin", stdin="hunter2\n")
    assert message.code == 0, message.err
    shown = pai("storage", "show", "bucket")
    assert "kept encrypted" in shown.out
    assert "hunter2" not in message.out + shown.out + pai("storage", "test", "bucket", "--json").out


def test_changing_where_a_storage_is_opens_it_to_no_user(pai: Person, root: Path) -> None:
    add, place = ("storage", "add", "own", "local"), f"path={root}"
    assert pai(*add, place, "--read-only", "--personal", "--description", "ours").code == 0
    message = pai(*add, place, "--replace", "--json").json()
    assert (message["readOnly"], message["share"], message["description"]) == (True, False, "ours")
    message = pai(*add, place, "--replace", "--read-write", "--shared", "--description", "", "--json").json()
    assert (message["readOnly"], message["share"], message["description"]) == (False, True, "")


def test_bad_descriptions_and_uses_are_reported(pai: Person, job_file) -> None:
    message = pai("storage", "add", "x", "nfs", "path=relative", "port=1")
    assert message.code == 2
    for part in ("data.server", "data.path", "data.port"):
        assert part in message.err
    assert pai("storage", "add", "x", "local", "path").code == 2
    assert pai("storage", "upload", "none", "/surely/not/there").code == 3
    assert pai("storage", "download", "none", "x").code == 3


def test_numbers_and_switches_are_reported_as_text(pai: Person) -> None:
    message = pai("storage", "add", "hdfs", "webhdfs", "server=127.0.0.1", "port=9", "useHttps=true", "--json")
    assert (message.code, message.json()["data"]["port"], message.json()["data"]["useHttps"]) == (0, 9, True)
    message = pai("storage", "add", "bucket", "s3", "bucket=2024", "--json")
    assert (message.code, message.json()["data"]["bucket"]) == (0, "2024")


def test_no_path_of_a_file_takes_the_storage_away(pai: Person, root: Path, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    for arguments in (("rm", "data", ".."), ("upload", "data", str(tmp_path / "x"), "--to", "../..")):
        message = pai("storage", *arguments)
        assert (message.code, "not the path of a file" in message.err) == (2, True)
    assert pai("storage", "show", "data").code == 0


def test_what_cannot_be_stored_is_refused_before_anything_is_sent(pai: Person, root: Path, tmp_path: Path) -> None:
    source = tmp_path / "odd"
    source.mkdir()
    (source / "a").write_text("a")
    (source / "dangling").symlink_to("nothing")
    (source / "new\nline").write_text("b")
    message = pai("storage", "upload", "data", str(source))
    assert (message.code, list(root.iterdir())) == (2, [])
    (source / "new\nline").unlink()
    message = pai("storage", "upload", "data", str(source), "--json")
    assert (message.code, message.json()["files"]) == (0, 1)
    assert "dangling is left out" in message.err


def test_what_this_machine_refuses_is_no_bug(pai: Person, root: Path, tmp_path: Path) -> None:
    (root / "x").write_text("x")
    (tmp_path / "file").write_text("in the way")
    message = pai("storage", "download", "data", "x", "--to", str(tmp_path / "file"))
    assert (message.code, "File exists" in message.err) == (2, True)


def test_odd_names_are_shown_without_effect_and_left_out_of_downloads(pai: Person, root: Path, tmp_path: Path) -> None:
    (root / "odd").mkdir()
    for name in ("\x1b[31mred", "new\nline", "fine"):
        (root / "odd" / name).write_text("x")
    listed = pai("storage", "ls", "data", "odd").out
    assert "\\x1b[31mred" in listed
    assert "new\\nline" in listed
    assert "\x1b" not in listed
    message = pai("storage", "download", "data", "odd", "--to", str(tmp_path))
    assert (message.code, message.err.count("left out")) == (0, 2)
    assert [path.name for path in (tmp_path / "odd").iterdir()] == ["fine"]
