"""User numbers: a permanent one for each user, which no other user has."""

from __future__ import annotations

import errno
import os
import pwd
from pathlib import Path

import pytest

from openpai.backends.process.uids import UidRange, UidTable
from openpai.protocol.errors import Refused

RANGE = UidRange(200_000, 200_009)


def test_every_user_gets_their_own_uid_and_keeps_it(tmp_path: Path) -> None:
    table = UidTable(tmp_path / "uids", RANGE)
    given = {name: table.uid_of(name) for name in "abcdefghij"}
    assert sorted(given.values()) == list(range(200_000, 200_010))
    again = UidTable(tmp_path / "uids", UidRange(300_000, 300_009))
    assert {name: again.uid_of(name) for name in "jihgfedcba"} == given, "another range moves nobody"
    assert again.uid_of("k") in range(300_000, 300_010)
    assert (tmp_path / "uids").stat().st_mode & 0o777 == 0o600


def test_a_full_range_is_refused_and_no_number_is_given_twice(tmp_path: Path) -> None:
    table = UidTable(tmp_path / "uids", RANGE)
    for name in "abcdefghij":
        table.uid_of(name)
    with pytest.raises(ValueError, match="--task-uids"):
        table.uid_of("k")
    assert table.uid_of("a") in range(200_000, 200_010)


def test_a_lost_table_gives_most_people_the_number_they_had(tmp_path: Path) -> None:
    wide = UidRange(200_000, 265_535)
    first, second = UidTable(tmp_path / "one", wide), UidTable(tmp_path / "two", wide)
    people = [f"person {number}" for number in range(200)]
    before = {person: first.uid_of(person) for person in people}
    after = {person: second.uid_of(person) for person in reversed(people)}
    assert sum(before[person] == after[person] for person in people) >= 195


def test_half_an_entry_is_ignored_and_spoils_no_later_one(tmp_path: Path) -> None:
    path = tmp_path / "uids"
    uid = UidTable(path, RANGE).uid_of("ann")
    with path.open("a") as file:
        file.write('{"uid": 2000')
    table = UidTable(path, RANGE)
    bob = table.uid_of("bob")
    assert UidTable(path, RANGE).uid_of("ann") == table.uid_of("ann") == uid
    assert UidTable(path, RANGE).uid_of("bob") == bob != uid


def test_a_number_that_cannot_be_written_down_is_not_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "uids"
    table = UidTable(path, RANGE)
    write = os.write

    def half(file: int, data: bytes) -> int:
        return write(file, data[:5])

    monkeypatch.setattr("openpai.backends.process.uids.os.write", half)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        table.uid_of("ann")
    monkeypatch.undo()
    assert table.uid_of("bob") in range(200_000, 200_010)
    assert len(path.read_text().splitlines()) == 1


def test_a_link_in_the_tables_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "uids").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        UidTable(tmp_path / "uids", RANGE).uid_of("ann")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    "text",
    ["", "5", "200000", "200000-", "-200000", "0-10", "65535-70000", "3-2", "200001-200000", "a-b", "1-9999999999"],
)
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="is no range of user numbers"):
        UidRange.parse(text)


def test_a_range_that_others_have_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subordinate = tmp_path / "subuid"
    subordinate.write_text("ann:100000:65536\nbob:165536:65536\nnonsense\n:::\n")
    UidRange(231_072, 240_000).require_unused(subordinate)
    with pytest.raises(Refused, match=r"bob's containers \(165536-231071\)"):
        UidRange(231_071, 240_000).require_unused(subordinate)
    me = pwd.getpwuid(0)
    somebody = pwd.struct_passwd(("eve", "x", 235_000, *me[3:]))
    monkeypatch.setattr("openpai.backends.process.uids.pwd.getpwall", lambda: [me, somebody])
    with pytest.raises(Refused, match=r"user eve \(235000\)"):
        UidRange(231_072, 240_000).require_unused(subordinate)
