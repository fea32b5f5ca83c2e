"""Fetching writes nothing but new files below one directory."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from openpai.client.client import Client
from openpai.client.kept_work import fetch_archive, fetch_work
from openpai.client.model import WorkKept
from openpai.protocol.errors import Refused, Unavailable

KEPT = WorkKept(role="worker", index=0, job_attempt=0, attempt=1, files=1, bytes=1, is_counted=True, kept_until_ms=1)


def packed(*names: str, links: tuple[str, ...] = ()) -> bytes:
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = len(name.encode())
            archive.addfile(member, io.BytesIO(name.encode()))
        for name in links:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, "/etc"
            archive.addfile(member)
    return into.getvalue()


def client(content: bytes, asked: list[httpx.Request] | None = None) -> Client:
    def answer(request: httpx.Request) -> httpx.Response:
        if asked is not None:
            asked.append(request)
        return httpx.Response(200, content=content)

    return Client("http://pai", "token", user="ann", transport=httpx.MockTransport(answer))


def test_files_are_written_and_names_that_lead_out_are_not(tmp_path: Path) -> None:
    goal = tmp_path / "goal"
    asked: list[httpx.Request] = []
    names = ("a", "sub/b", "../out", "/abs", "sub/../../out", "c\x1b[2J", "x//y")
    written = fetch_work(client(packed(*names, links=("link",)), asked), "train", KEPT, goal, ["a", "sub"])
    assert written == [goal / "a", goal / "sub" / "b"]
    assert (goal / "sub" / "b").read_text() == "sub/b"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "goal", "sub"]
    assert asked[0].url.path.endswith("/jobs/ann~train/attempts/0/taskRoles/worker/taskIndex/0/attempts/1/work")
    assert asked[0].url.params.get_list("path") == ["a", "sub"]


def test_nothing_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("mine")
    with pytest.raises(Refused, match="already"):
        fetch_work(client(packed("a")), "train", KEPT, tmp_path)
    assert (tmp_path / "a").read_text() == "mine"


def test_an_archive_that_breaks_off_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="did not arrive whole"):
        fetch_work(client(packed("a" * 90)[:530]), "train", KEPT, tmp_path)


def test_an_archive_is_written_to_a_new_file_and_what_breaks_off_leaves_none(tmp_path: Path) -> None:
    asked: list[httpx.Request] = []
    goal = tmp_path / "all.tar.gz"
    size = fetch_archive(client(b"packed", asked), "train", goal, ["a", "b"], everything=True, role="ps", index=None)
    assert (size, goal.read_bytes()) == (6, b"packed")
    assert asked[0].url.path.endswith("/jobs/ann~train/work/archive")
    assert sorted(asked[0].url.params.multi_items()) == [("all", "true"), ("path", "a"), ("path", "b"), ("role", "ps")]
    with pytest.raises(Refused, match="already"):
        fetch_archive(client(b"other"), "train", goal)
    assert goal.read_bytes() == b"packed"

    class Broken(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield b"part"
            raise httpx.ReadError("cut off")

    broken = httpx.MockTransport(lambda _: httpx.Response(200, stream=Broken()))
    with pytest.raises(Unavailable):
        fetch_archive(Client("http://pai", "token", user="ann", transport=broken), "train", tmp_path / "half")
    assert not (tmp_path / "half").exists()
