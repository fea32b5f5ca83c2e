"""Uploads and downloads of storages: interrupted ones continue, and leave no incomplete file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from openpai.client import Client
from openpai.protocol.errors import Refused, Unavailable

CONTENT = bytes(range(256)) * 4096


class Breaks(httpx.SyncByteStream):
    """A body of which only the beginning comes."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __iter__(self) -> Iterator[bytes]:
        yield self._content
        raise httpx.ReadError("the line is dead")


class Server(httpx.MockTransport):
    """Serves one file and breaks off after 300 KB, each time; `versions` are its ETags in turn."""

    def __init__(self, versions: tuple[str, ...] = ("a",)) -> None:
        super().__init__(self._answer)
        self.asked: list[str | None] = []
        self._versions = versions

    def _answer(self, request: httpx.Request) -> httpx.Response:
        asked = request.headers.get("range")
        version = self._versions[min(len(self.asked), len(self._versions) - 1)]
        self.asked.append(asked)
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        rest = CONTENT[start:]
        stream = Breaks(rest[:300_000]) if len(rest) > 300_000 else httpx.ByteStream(rest)
        return httpx.Response(206 if asked else 200, headers={"ETag": version}, stream=stream)


def client(server: httpx.BaseTransport) -> Client:
    return Client("http://pai", "token", transport=server, sleep=lambda _: None)


def test_a_download_goes_on_where_it_broke_off(tmp_path: Path) -> None:
    server = Server()
    message: list[int] = []
    with client(server) as pai:
        assert pai.files("data").download("x", tmp_path / "x", message.append) == len(CONTENT)
    assert (tmp_path / "x").read_bytes() == CONTENT
    assert server.asked == [None, "bytes=300000-", "bytes=600000-", "bytes=900000-"]
    assert sum(message) == len(CONTENT)


def test_two_versions_are_not_put_together(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("as it was")
    with client(Server(("a", "b"))) as pai, pytest.raises(Unavailable, match="changed"):
        pai.files("data").download("x", tmp_path / "x")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_text() == "as it was"


def test_a_refused_upload_says_why(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(CONTENT)

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["content-length"] == str(len(CONTENT))
        assert request.url.raw_path == b"/api/v2/storages/data/files/a%20b/%23x"
        return httpx.Response(403, json={"code": "ReadOnlyStorageError", "message": "the storage data is read-only"})

    with client(httpx.MockTransport(answer)) as pai, pytest.raises(Refused) as message:
        pai.files("data").upload(tmp_path / "x", "a b/#x")
    assert message.value.code == "ReadOnlyStorageError"


@pytest.mark.parametrize("path", ["..", "../..", "a/../../b", "", "/", ".", "a\\..\\b", "a\nb", "\udcff"])
def test_no_path_leads_to_another_route_of_the_api(path: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x")

    def answer(request: httpx.Request) -> httpx.Response:
        raise AssertionError(f"{request.method} {request.url} was asked")

    with client(httpx.MockTransport(answer)) as pai:
        for act in (
            lambda: pai.remove_file("data", path),
            lambda: pai.files("data").upload(tmp_path / "x", path),
            lambda: pai.files("data").read(path),
        ):
            with pytest.raises(Refused, match="not the path of a file"):
                act()


def test_an_interrupted_upload_starts_again(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(CONTENT)
    bodies: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(request.read())
        if len(bodies) < 3:
            raise httpx.WriteError("the line is dead")
        return httpx.Response(201, json={"size": len(bodies[-1])})

    message: list[int] = []
    with client(httpx.MockTransport(answer)) as pai:
        assert pai.files("data").upload(tmp_path / "x", "x", message.append) == len(CONTENT)
    assert bodies == [CONTENT] * 3
    assert sum(message) == len(CONTENT)


class Slow(httpx.BaseTransport):
    """Does something after the first piece of a body has come."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._meanwhile = meanwhile

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        assert isinstance(request.stream, httpx.SyncByteStream)
        stream = iter(request.stream)
        next(stream)
        self._meanwhile()
        sent = b"".join(stream)
        raise AssertionError(f"all of it was sent: {len(sent)}")


@pytest.mark.parametrize("change", ["grows", "shrinks", "rewritten"])
def test_a_file_that_changes_while_it_is_uploaded_is_not_sent_to_its_end(tmp_path: Path, change: str) -> None:
    source = tmp_path / "x"
    source.write_bytes(CONTENT * 4)

    def meanwhile() -> None:
        if change == "rewritten":
            source.write_bytes(bytes(len(CONTENT) * 4))
            os.utime(source, (1, 1))
        else:
            os.truncate(source, len(CONTENT) * (5 if change == "grows" else 2))

    with client(Slow(meanwhile)) as pai, pytest.raises(Unavailable, match="x changed while it was uploaded"):
        pai.files("data").upload(source, "x")
