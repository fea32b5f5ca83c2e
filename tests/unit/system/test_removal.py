"""Trees of any depth and width are removed, with few open files, and nothing beside them."""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from openpai.system import removal
from openpai.system.removal import LEVELS_MAX, NotRemoved, TreeRemoval, remove_tree


def make_deep(top: Path, depth: int) -> None:
    """Make directories inside each other, each with a file."""
    top.mkdir()
    handle = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=handle)
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
        below = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    os.close(handle)


def names_in(path: Path) -> list[str]:
    return [found.name for found in path.iterdir()]


@contextmanager
def few_files(most: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(names_in(Path("/proc/self/fd"))) + most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """Give a directory in memory where there is such a thing: thousands of directories take a disk its time."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as place:
        yield Path(place)


@pytest.mark.parametrize("depth", [1, LEVELS_MAX, LEVELS_MAX + 1, 5_000])
def test_a_directory_of_any_depth_goes(quick_path: Path, depth: int) -> None:
    make_deep(quick_path / "top", depth)
    with few_files(LEVELS_MAX + 4):
        remove_tree(str(quick_path / "top"))
    assert names_in(quick_path) == []


def test_names_as_long_as_can_be_make_no_path_too_long(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    handle = os.open(top, os.O_RDONLY)
    for _ in range(100):
        os.mkdir("n" * 255, dir_fd=handle)
        below = os.open("n" * 255, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    os.close(handle)
    remove_tree(str(top))
    assert names_in(tmp_path) == []


def test_a_wide_directory_goes_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "BATCH", 10)
    top = tmp_path / "top"
    top.mkdir()
    for number in range(95):
        (top / str(number)).mkdir()
        (top / str(number) / "f").touch()
    going = TreeRemoval(str(top))
    slices = 1
    while not going.remove_some(20):
        slices += 1
    assert slices >= 10
    assert names_in(tmp_path) == []


def test_what_a_link_leads_to_stays(tmp_path: Path) -> None:
    treasure = tmp_path / "treasure"
    treasure.mkdir()
    (treasure / "gold").touch()
    top = tmp_path / "top"
    top.mkdir()
    (top / "link").symlink_to(treasure)
    (top / "below").mkdir()
    (top / "below" / "link").symlink_to(treasure, target_is_directory=True)
    remove_tree(str(top))
    (tmp_path / "top").symlink_to(treasure)
    remove_tree(str(top))
    assert names_in(tmp_path) == ["treasure"]
    assert names_in(treasure) == ["gold"]


def test_a_directory_swapped_for_a_link_meanwhile_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    treasure, top = tmp_path / "treasure", tmp_path / "top"
    (top / "below").mkdir(parents=True)
    (top / "below" / "f").touch()
    treasure.mkdir()
    (treasure / "gold").touch()
    real_rmdir = os.rmdir

    def swapping(name: str, *, dir_fd: int | None = None) -> None:
        try:
            real_rmdir(name, dir_fd=dir_fd)
        except OSError:
            # Between our finding that it is not empty and our opening it.
            if (top / "below").is_dir() and not (top / "below").is_symlink():
                (top / "below").rename(tmp_path / "elsewhere")
                (top / "below").symlink_to(treasure)
            raise

    monkeypatch.setattr(os, "rmdir", swapping)
    remove_tree(str(top))
    assert not top.exists()
    assert (tmp_path / "elsewhere").is_dir()
    assert names_in(treasure) == ["gold"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody without rights")
@pytest.mark.parametrize("opens_closed", [True, False])
def test_locked_directories_go_only_where_that_is_wanted(tmp_path: Path, opens_closed: bool) -> None:
    # The directories above are root's own.
    top = Path("/tmp") / f"openpai-test-{os.getpid()}-{opens_closed}"
    make_deep(top, LEVELS_MAX + 10)
    os.chown(top, 65534, 65534)
    handle = os.open(top, os.O_RDONLY)
    for _ in range(LEVELS_MAX + 10):
        below = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.fchown(below, 65534, 65534)
        os.fchmod(below, 0)
        os.close(handle)
        handle = below
    os.close(handle)
    child = os.fork()
    if child == 0:
        code = 2
        try:
            os.setgid(65534)
            os.setuid(65534)
            home = os.open("/tmp", os.O_RDONLY)
            top.chmod(0o700)
            inside = os.open(str(top), os.O_RDONLY)
            os.close(home)
            try:
                remove_tree("d", dir_fd=inside, opens_closed=opens_closed)
                code = 0
            except PermissionError:
                code = 1
            except NotRemoved:
                code = 1
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == (0 if opens_closed else 1)
    left = names_in(top)
    remove_tree(str(top))
    assert ("d" in left) is not opens_closed


def test_what_cannot_be_removed_is_named_and_the_rest_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = tmp_path / "top"
    (top / "below").mkdir(parents=True)
    for name in ("a", "stays", "z"):
        (top / "below" / name).touch()
    real_unlink = os.unlink

    def unlink(name: str, *, dir_fd: int | None = None) -> None:
        if name == "stays":
            raise PermissionError(1, "Operation not permitted", name)
        real_unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", unlink)
    with pytest.raises(NotRemoved, match="stays"):
        remove_tree(str(top))
    monkeypatch.undo()
    assert names_in(top / "below") == ["stays"]


def test_what_is_not_there_is_gone(tmp_path: Path) -> None:
    remove_tree(str(tmp_path / "nothing"))
