"""What tasks may do that a server of root's runs as another user, and what that user may not."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest
import pytest_asyncio

from openpai.access.accounts import User
from openpai.app.backend import make_backend
from openpai.app.clock import SystemClock
from openpai.app.datadir import DataDir, open_data_dir
from openpai.app.settings import Settings
from openpai.backends.process.backend import ProcessBackend
from openpai.backends.process.confining import find_namespaces
from openpai.backends.process.dropping import find_user, group_of
from openpai.backends.process.mounting import unshare_program
from openpai.lifecycle.model import AttemptKey, ExitReason
from openpai.ports.backend import Backend, KillTask, Mount
from openpai.ports.cluster_settings import SettingsStore
from openpai.protocol.errors import Refused
from tests.contracts.process_harness import ProcessHarness
from tests.contracts.seen import Watch, a_key, a_launch, ran

USER = "nobody"


def why_not() -> str | None:
    if os.geteuid() != 0:
        return "only root can run tasks as another user"
    try:
        find_user(USER).require_way_to("/", "--task-user")
    except Refused as refused:
        return refused.message
    return ProcessHarness.why_not()


class People:
    """The accounts there are, by name, each with the time it was made."""

    def __init__(self) -> None:
        self.since_ms: dict[str, int] = {}

    async def user(self, name: str) -> User | None:
        """Return one user, or None when there is none of that name."""
        since_ms = self.since_ms.get(name)
        return None if since_ms is None else User(name, "", since_ms)


class UserHarness(ProcessHarness):
    """A process backend wired as `pai up --task-user` does it, over a data directory that holds secrets."""

    def __init__(self, directory: Path, **whose: str) -> None:
        super().__init__(directory)
        self.root, self.logs = directory / "tasks" / "process", directory / "logs"
        self._whose = whose or {"task_user": USER}
        self._place = directory
        self.find_namespaces = find_namespaces
        self.people = People()
        self._data: DataDir | None = None

    async def start(self) -> Backend:
        self._data = open_data_dir(self._place, may_pass=True)
        for name in ("secret.key", "openpai.db", "database"):
            (self._place / name).write_text("a secret")
        # A server does not start with a key that others may read.
        (self._place / "secret.key").chmod(0o600)
        settings = Settings(self._place, gpus_per_node=4, **self._whose)
        kept = cast("SettingsStore", None)  # only the kubernetes backend reads settings
        backend = await make_backend(settings, self._data, SystemClock(), self.people, kept)
        assert isinstance(backend, ProcessBackend)
        backend._find_namespaces = self.find_namespaces
        await backend.open()
        self._backend = backend
        self.node = (await backend.nodes())[0].name
        return backend

    async def stop(self) -> None:
        await super().stop()
        if self._data is not None:
            self._data.close()


@pytest_asyncio.fixture
async def world() -> AsyncIterator[UserHarness]:
    """Yield a world below a directory that all users may enter, unlike pytest's own, and that tasks see."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    directory = Path(tempfile.mkdtemp(dir="/var/lib", prefix="pai-user-"))
    async with UserHarness(directory) as made:
        yield made
    shutil.rmtree(directory)


def other_job(index: int = 0) -> AttemptKey:
    return AttemptKey("f" * 32, 0, "Worker_A", index, 0)


async def test_a_task_is_that_user_and_at_home_in_its_own_directory(world: UserHarness) -> None:
    commands = """
echo "$(id -u) $(id -g) $USER $(grep -c 'CapEff:.0*$' /proc/self/status)"
echo made >"$PAI_WORK_DIR/made"; chmod 755 .; touch .; mkdir -p "$HOME/below"
[ -r ../user.sh ]
echo said >>/dev/stdout
echo cried >>/dev/stderr
exit 4"""
    report = await ran(world, commands)
    found = find_user(USER)
    message = f"{found.uid} {group_of(a_key().job)} {USER} 1\nsaid\n"
    assert (report.code, world.output(a_key())) == (4, message)
    assert (world.logs / a_key().path() / "stderr.log").read_text() == "cried\n"


async def test_what_the_server_keeps_is_closed_to_tasks(world: UserHarness) -> None:
    root = world.root.parent.parent
    commands = f"""set +e
for file in {root}/* {root}/secret.key {root}/openpai.db {root}/database {root}/lock {root}/visitors \
    {world.root}/.grants {world.root}/.lock ../task.json; do
    cat "$file" && echo "read $file"
    (echo x >>"$file") && echo "wrote $file"
done
for file in ../ticket ../exit ../user.sh; do (echo x >>"$file") && echo "wrote $file"; done
for place in {root} {root}/logs {root}/tasks {world.root} {world.root}/.trash {world.root}/.spare ..; do
    ls "$place" && echo "listed $place"
    touch "$place/mine" && echo "made something in $place"
done
kill -0 "$PPID" && echo "may kill the wrapper"
cat "/proc/$PPID/environ" && echo "read the wrapper"
rm -rf "$PWD/.."
exit 4"""
    report = await ran(world, commands)
    assert (report.code, world.output(a_key())) == (4, "")


async def test_jobs_do_not_look_into_each_other(world: UserHarness) -> None:
    backend = await world.start()
    mine = f"{world.root}/{a_key().path()}"
    kept = f"{mine}/work"
    await backend.apply([a_launch(world, a_key(), "echo mine >file\necho ready\nsleep 1000")])
    await world.until_printed(a_key(), "ready")
    commands = f"""set +e
cat {kept}/file {mine}/user.sh
cd {kept} && echo entered
for process in /proc/[0-9]*; do
    [ "$(readlink $process/cwd)" = {kept} ] && echo "saw $process"
    tr '\\0' '\\n' <$process/environ | grep -F {mine}
done
exit 4"""
    await backend.apply([a_launch(world, other_job(), commands)])
    (report,) = await Watch(backend).until_over(other_job())
    assert (report.code, world.output(other_job())) == (4, "")
    friend = f'cat {kept}/file; [ "$(cat {kept}/file)" = mine ]'
    await backend.apply([a_launch(world, a_key(1), friend), KillTask(other_job(), 0)])
    (report,) = await Watch(backend).until_over(a_key(1))
    assert (report.code, world.output(a_key(1))) == (0, "mine\n")


async def test_a_restart_leaves_tasks_their_place_and_their_end(world: UserHarness) -> None:
    backend = await world.start()
    ends = 'while [ ! -e "$PAI_WORK_DIR/../resume" ]; do sleep 0.02; done\nexit 9'
    stubborn = "trap '' TERM\necho ready\nwhile :; do sleep 0.05; done"
    await backend.apply([a_launch(world, a_key(0), ends), a_launch(world, a_key(1), stubborn)])
    await world.until_printed(a_key(1), "ready")
    await world.crash()
    backend = await world.start()
    watch = Watch(backend)
    await watch.until_running(a_key(0), a_key(1))
    await world.resume(a_key(0))
    await backend.apply([KillTask(a_key(1), 0.1)])
    reports = await watch.until_over(a_key(0), a_key(1))
    assert [report.code for report in reports] == [9, 137]
    assert world.processes(a_key(1)) == 0


async def test_storages_are_that_users_and_hide_nothing_that_root_needs(world: UserHarness, tmp_path: Path) -> None:
    if not unshare_program():
        pytest.skip("without rights to mount, storages are links")
    source = Path(tempfile.mkdtemp(dir="/tmp", prefix="pai-storage-"))
    place = Path(f"/mnt/{source.name}")
    os.chmod(source, 0o755)  # noqa: PTH101
    try:
        backend = await world.start()
        watch = Watch(backend)
        # An upload makes it before any task needs it.
        os.mkdir(source / "ann")  # noqa: PTH102
        mounts = (Mount("home", str(source), str(place), folder="ann"),)
        await backend.apply([a_launch(world, a_key(), f"echo 1 >{place}/a; echo 2 >mnt/home/b", mounts=mounts)])
        (report,) = await watch.until_over(a_key())
        assert report.code == 0
        assert sorted(file.name for file in (source / "ann").iterdir()) == ["a", "b"]
        for index, bad in enumerate(("/usr/local/sbin", "/etc", f"{place}/below", "/mnt/..", str(tmp_path / "x")), 1):
            mounts = (Mount("home", str(source), bad),)
            await backend.apply([a_launch(world, a_key(index), "echo ran", mounts=mounts)])
            (report,) = await watch.until_over(a_key(index))
            assert report.reason is ExitReason.LAUNCH_REFUSED, bad
            assert bad in report.message
    finally:
        shutil.rmtree(source)
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(place)  # noqa: PTH106


async def test_a_directory_the_user_cannot_reach_is_reported_at_the_start(world: UserHarness) -> None:
    closed = world.root.parent.parent / "closed"
    closed.mkdir(0o700)
    there = UserHarness(closed / "data")
    with pytest.raises(Refused, match="cannot get to"):
        await there.start()
    await there.stop()


@pytest.mark.parametrize("name", ["root", "no-such-user"])
def test_a_user_that_cannot_run_tasks_is_reported(name: str) -> None:
    with pytest.raises(Refused, match=name):
        find_user(name)


def test_without_the_program_that_changes_users_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openpai.backends.process.dropping.shutil.which", lambda _: None)
    with pytest.raises(Refused, match="setpriv"):
        find_user(USER)


def test_each_job_has_a_group_of_its_own() -> None:
    groups = {group_of(f"job{number}") for number in range(1000)}
    assert len(groups) == 1000
    assert all(0x7000_0000 <= group < 0x8000_0000 for group in groups)
