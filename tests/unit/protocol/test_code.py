"""The list of a code's files: what a hostile client may not put into it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openpai.protocol.code import BYTES_MAX, CodeEntry, digest_of, read_list, write_list
from openpai.protocol.errors import InvalidParameters, Refused

HASH = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def a_list(*rows: Any) -> bytes:
    return json.dumps({"version": 1, "files": rows}).encode()


def test_a_list_survives_reading_and_does_not_depend_on_the_order() -> None:
    entries = (
        CodeEntry("a/run.sh", HASH, 3, True),
        CodeEntry("b", target="a/run.sh"),
        CodeEntry("ä/β.txt", HASH, 3),
        CodeEntry("c/up", target="../a/run.sh"),
    )
    content = write_list(entries)
    assert sorted(read_list(content), key=lambda each: each.name) == sorted(entries, key=lambda each: each.name)
    assert digest_of(content) == digest_of(write_list(reversed(entries)))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (["../evil", HASH, 1, False], "../evil has '..' in its path"),
        (["a/../../evil", HASH, 1, False], "has '..' in its path"),
        (["/etc/passwd", HASH, 1, False], "/etc/passwd is an absolute path"),
        (["a//b", HASH, 1, False], "is no path of a file"),
        (["./a", HASH, 1, False], "is no path of a file"),
        (["", HASH, 1, False], "is no path of a file"),
        (["a\nb", HASH, 1, False], "has a control character in its name"),
        (["a\udc80b", HASH, 1, False], "is not UTF-8"),
        (["a", "/etc/passwd"], "a is a link to the absolute path /etc/passwd"),
        (["a/b", "../../x"], "a/b is a link to ../../x, outside of the directory"),
        (["a", ".."], "a is a link to .., outside of the directory"),
        (["x" * 2000, HASH, 1, False], "is no path of a file"),
    ],
)
def test_a_name_that_leads_out_is_refused_with_the_name(row: list[Any], message: str) -> None:
    with pytest.raises(InvalidParameters, match="the code cannot be sent") as caught:
        read_list(a_list(row))
    assert message in caught.value.message


def test_a_link_cannot_lead_out_by_way_of_others() -> None:
    # `d` leads to the directory itself, so `d/..` is its parent.
    with pytest.raises(InvalidParameters, match="by way of another link"):
        read_list(a_list(["d", "."], ["e", "d/../etc"]))
    with pytest.raises(InvalidParameters, match="by way of another link"):
        read_list(a_list(["d", "s"], ["s/up", ".."], ["e", "d/up/../etc"]))
    with pytest.raises(InvalidParameters, match="lies below a file or a link"):
        read_list(a_list(["d", "a"], ["d/passwd", HASH, 1, False]))


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"null", b'{"files":3}', a_list(3), a_list([]), a_list(["a", HASH, "1", False]),
     a_list(["a", HASH, -1, False]), a_list(["a", "x", 1, False]), a_list(["a", HASH, 1, 1]), a_list(["a", ""]),
     a_list([3, HASH, 1, False]),
     a_list(["a", HASH, True, False]), b"[" * 100_000],
)  # fmt: skip
def test_what_is_no_list_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidParameters):
        read_list(content)


def test_a_file_named_twice_is_refused() -> None:
    with pytest.raises(InvalidParameters, match="twice"):
        read_list(a_list(["a", HASH, 1, False], ["a", HASH, 1, True]))


def test_too_much_is_refused_with_the_largest_files() -> None:
    with pytest.raises(Refused, match="256 MiB; the largest: data") as caught:
        read_list(a_list(["data.bin", HASH, BYTES_MAX, False], ["small", HASH, 1, False]))
    assert caught.value.status == 413
