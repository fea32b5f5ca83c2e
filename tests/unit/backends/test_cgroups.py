"""Where cgroups are looked for, and how limits are written, over directories that look like the real thing."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from openpai.backends.process.attempts import blamed
from openpai.backends.process.cgroups import FIRST, SECOND, Generation, Home, find_home
from openpai.backends.process.memory import LEAST_MB, MemoryLimits, entry_of, has_run_out
from openpai.lifecycle.model import ExitReason, ExitReport

ROOT = "/data/tasks"
NAME = f"openpai-{hashlib.sha256(ROOT.encode()).hexdigest()[:16]}"


def a_second_generation(path: Path, *, controllers: str = "cpu memory", switches: str = "memory") -> None:
    """Make a directory that looks like a cgroup of the second generation and may limit memory."""
    path.mkdir(parents=True, exist_ok=True)
    files = {"cgroup.controllers": controllers, "cgroup.subtree_control": switches, "cgroup.procs": ""}
    for name, text in {**files, "memory.max": "max", "memory.current": "0", "memory.events": "oom_kill 0"}.items():
        (path / name).write_text(f"{text}\n")


def proc(tmp_path: Path, mounts: str, own: str) -> Path:
    where = tmp_path / "proc"
    where.mkdir()
    (where / "mountinfo").write_text(mounts)
    (where / "cgroup").write_text(own)
    return where


def mount_of(path: Path, kind: str, options: str = "rw", root: str = "/") -> str:
    return f"36 35 0:30 {root} {path} rw,nosuid shared:9 - {kind} cgroup {options}\n"


def test_the_own_cgroup_of_the_second_generation_comes_first(tmp_path: Path) -> None:
    top = tmp_path / "cgroup"
    for path in (top, top / "system.slice/openpai.service", top / NAME, top / "system.slice/openpai.service" / NAME):
        a_second_generation(path)
    where = proc(tmp_path, mount_of(top, "cgroup2"), "0::/system.slice/openpai.service\n")
    assert find_home(ROOT, where) == Home(f"{top}/system.slice/openpai.service/{NAME}", SECOND)


def test_without_memory_in_the_own_cgroup_the_top_is_tried(tmp_path: Path) -> None:
    top = tmp_path / "cgroup"
    a_second_generation(top)
    a_second_generation(top / NAME, switches="")
    a_second_generation(top / "own", controllers="cpu")
    where = proc(tmp_path, mount_of(top, "cgroup2"), "0::/own\n")
    assert find_home(ROOT, where) == Home(f"{top}/{NAME}", SECOND)
    assert (top / NAME / "cgroup.subtree_control").read_text().startswith("+memory")


def test_who_may_write_neither_its_own_nor_the_top_looks_between(tmp_path: Path) -> None:
    top = tmp_path / "cgroup"
    a_second_generation(top, controllers="")
    a_second_generation(top / "user/app", controllers="memory")
    a_second_generation(top / "user/app" / NAME)
    a_second_generation(top / "user/app/terminal", controllers="")
    where = proc(tmp_path, mount_of(top, "cgroup2"), "0::/user/app/terminal\n")
    assert find_home(ROOT, where) == Home(f"{top}/user/app/{NAME}", SECOND)


def test_a_bind_mounted_cgroup_is_found_below_its_own_root(tmp_path: Path) -> None:
    top = tmp_path / "cgroup"
    a_second_generation(top)
    a_second_generation(top / "app")
    a_second_generation(top / "app" / NAME)
    where = proc(tmp_path, mount_of(top, "cgroup2", root="/docker/abc"), "0::/docker/abc/app\n")
    assert find_home(ROOT, where) == Home(f"{top}/app/{NAME}", SECOND)


def test_the_first_generation_is_found_by_its_memory_controller(tmp_path: Path) -> None:
    cpu, memory = tmp_path / "cpu", tmp_path / "memory"
    for path in (cpu / "own" / NAME, memory / "own" / NAME):
        path.mkdir(parents=True)
        (path / "memory.limit_in_bytes").touch()
    mounts = mount_of(cpu, "cgroup", "rw,cpu,cpuacct") + mount_of(memory, "cgroup", "rw,memory")
    where = proc(tmp_path, mounts, "5:memory:/own\n4:cpu,cpuacct:/own\n0::/\n")
    assert find_home(ROOT, where) == Home(f"{memory}/own/{NAME}", FIRST)


@pytest.mark.parametrize("controllers", ["", "cpu io"])
def test_where_nothing_limits_memory_there_is_no_home(tmp_path: Path, controllers: str) -> None:
    top = tmp_path / "cgroup"
    a_second_generation(top, controllers=controllers)
    where = proc(tmp_path, mount_of(top, "cgroup2"), "0::/\n")
    assert find_home(ROOT, where) is None
    assert find_home(ROOT, tmp_path / "nowhere") is None
    assert not (top / NAME).exists()


def a_cgroup(home: Path, generation: Generation, name: str = "1") -> Path:
    """Make what a kernel makes when a cgroup's directory is made."""
    path = home / name
    path.mkdir(parents=True)
    for file in (generation.limit, generation.limit_with_swap, *(name for name, _ in generation.fixed)):
        if file:
            (path / file).write_text("")
    (path / generation.usage).write_text("0\n")
    (path / generation.events).write_text("low 0\noom_kill 0\n")
    (path / generation.entry).touch()
    (path / "cgroup.procs").touch()
    return path


@pytest.mark.parametrize("generation", [FIRST, SECOND], ids=["first", "second"])
def test_a_cgroup_that_was_lent_has_the_limit_and_may_be_entered(
    tmp_path: Path, generation: Generation, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    make = Path.mkdir

    def mkdir(path: Path) -> None:
        monkeypatch.setattr(Path, "mkdir", make)
        a_cgroup(path.parent, generation, path.name)

    limits = MemoryLimits(Home(str(home), generation))
    monkeypatch.setattr(Path, "mkdir", mkdir)
    cgroup = limits.lend(100)
    assert cgroup == str(home / "1")
    assert int((home / "1" / generation.limit).read_text()) == 100 << 20
    assert entry_of(cgroup) == f"{cgroup}/{generation.entry}"
    for name, value in generation.fixed:
        assert (home / "1" / name).read_text() == value
    (home / "1" / generation.limit).write_text("")
    limits.give_back(cgroup)
    assert limits.lend(1) == cgroup
    assert int((home / "1" / generation.limit).read_text()) == LEAST_MB << 20


def test_no_home_lends_nothing() -> None:
    limits = MemoryLimits(None)
    assert limits.lend(100) == ""
    assert entry_of("") == ""
    assert limits.vacate("")
    limits.give_back("")
    limits.close()


def test_one_killed_process_is_enough_to_have_run_out(tmp_path: Path) -> None:
    cgroup = a_cgroup(tmp_path, SECOND)
    assert not has_run_out(str(cgroup))
    (cgroup / SECOND.events).write_text("oom 3\noom_kill 1\noom_group_kill 1\n")
    assert has_run_out(str(cgroup))
    assert not has_run_out(str(tmp_path / "gone"))
    assert not has_run_out("")


def test_memory_is_blamed_for_failures_only() -> None:
    assert blamed(ExitReport(137), has_run_out=True).reason is ExitReason.OOM_KILLED
    assert blamed(ExitReport(137), has_run_out=False) == ExitReport(137)
    assert blamed(ExitReport(0), has_run_out=True) == ExitReport(0)


def test_this_machines_own_second_generation_limits_memory(tmp_path: Path) -> None:
    home = find_home(str(tmp_path))
    limits = MemoryLimits(home)
    try:
        if home is None or home.generation is not SECOND:
            pytest.skip("no cgroup of the second generation may limit memory here")
        cgroup = limits.lend(50)
        assert int(Path(cgroup, "memory.max").read_text()) == 50 << 20
        assert Path(cgroup, "memory.oom.group").read_text() == "1\n"
        assert os.access(entry_of(cgroup), os.W_OK)
        limits.give_back(cgroup)
    finally:
        limits.close()
    assert not Path(home.path).exists()
