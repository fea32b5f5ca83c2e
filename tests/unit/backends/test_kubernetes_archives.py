"""An archive that an enemy made: nothing of it leaves the directory, and nothing of it fills the server."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from openpai.backends.kubernetes import archives
from openpai.backends.kubernetes.archives import unpack

Add = Callable[..., None]


def packed(tmp_path: Path, *members: tuple[str, bytes | str, bytes]) -> Path:
    """Write an archive of files (name, b"0", content), links (name, type, target)."""
    path = tmp_path / "packed.tar"
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        for name, kind, content in members:
            member = tarfile.TarInfo(name)
            member.type = kind if isinstance(kind, bytes) else kind.encode()
            if member.type == tarfile.REGTYPE:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
            else:
                member.linkname = content.decode()
                archive.addfile(member)
    return path


def tree(top: Path) -> dict[str, bytes]:
    return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


FILE = tarfile.REGTYPE


def test_only_regular_files_below_the_directory_are_made(tmp_path: Path) -> None:
    path = packed(
        tmp_path,
        ("./good/file", FILE, b"good"),
        ("../up", FILE, b"bad"), ("/etc/absolute", FILE, b"bad"), ("a/../../b", FILE, b"bad"),
        ("link", tarfile.SYMTYPE, b"/etc"), ("link/passwd", FILE, b"below a link"),
        ("pipe", tarfile.FIFOTYPE, b""), ("device", tarfile.CHRTYPE, b""),
        ("good/file", FILE, b"again"), ("good/file/below", FILE, b"below a file"),
        ("same", tarfile.LNKTYPE, b"good/file"), ("stolen", tarfile.LNKTYPE, b"/etc/passwd"),
        ("n" * 300, FILE, b"long"), ("/".join("d" * 70), FILE, b"deep"),
    )  # fmt: skip
    found = unpack(path, tmp_path / "goal", 1000)
    assert tree(tmp_path / "goal") == {"good/file": b"good", "link/passwd": b"below a link", "same": b"good"}
    assert (found.files, found.bytes, found.has_more) == (3, 4 + 12 + 4, False)
    assert not (tmp_path / "up").exists()


def test_limits_hold_for_links_to_the_same_content_too(tmp_path: Path) -> None:
    links = [(f"l{number}", tarfile.LNKTYPE, b"a") for number in range(5)]
    found = unpack(packed(tmp_path, ("a", FILE, bytes(100)), *links), tmp_path / "goal", 300)
    assert (found.files, found.bytes, found.has_more) == (3, 300, True)


def test_files_beyond_the_number_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "FILES_MAX", 2)
    found = unpack(packed(tmp_path, *[(str(number), FILE, b"x") for number in range(4)]), tmp_path / "goal", 300)
    assert (found.files, found.has_more) == (2, True)


@pytest.mark.parametrize("cut", [100, 700, 1100, 1536])
def test_of_an_archive_that_is_cut_off_whole_files_are_kept_and_the_rest_is_known_to_lack(
    tmp_path: Path, cut: int
) -> None:
    path = packed(tmp_path, ("a", FILE, b"a" * 10), ("b", FILE, b"b" * 600))
    path.write_bytes(path.read_bytes()[:cut])
    found = unpack(path, tmp_path / "goal", 10_000)
    assert set(tree(tmp_path / "goal").values()) <= {b"a" * 10}
    assert found.files == len(tree(tmp_path / "goal"))


@pytest.mark.parametrize(
    "header",
    [
        {"type": tarfile.XHDTYPE, "size": 1 << 40},
        {"type": tarfile.GNUTYPE_LONGNAME, "size": 1 << 33},
        {"type": tarfile.REGTYPE, "size": -512},
    ],
)
def test_headers_that_would_fill_the_memory_or_never_end_are_refused(tmp_path: Path, header: dict[str, object]) -> None:
    member = tarfile.TarInfo("x")
    for name, value in header.items():
        setattr(member, name, value)
    path = tmp_path / "packed.tar"
    path.write_bytes(member.tobuf(tarfile.GNU_FORMAT) * 40)
    assert unpack(path, tmp_path / "goal", 1000).files == 0


def test_a_thousand_extended_headers_in_a_row_are_no_fault_of_ours(tmp_path: Path) -> None:
    member = tarfile.TarInfo("x")
    member.type, member.size = tarfile.XHDTYPE, 0
    path = tmp_path / "packed.tar"
    path.write_bytes(member.tobuf(tarfile.GNU_FORMAT) * 5000)
    assert unpack(path, tmp_path / "goal", 1000).files == 0
