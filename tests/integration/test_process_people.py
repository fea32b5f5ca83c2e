"""Jobs of different people on one machine: each attack is tried by a real process, as the user of another person."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from openpai.backends.process.backend import ProcessBackend
from openpai.backends.process.confining import find_namespaces
from openpai.backends.process.mounting import unshare_program
from openpai.lifecycle.model import AttemptKey, ExitReason
from openpai.ports.backend import Backend, ForgetTask, KillTask, LaunchTask, Mount
from tests.contracts.seen import Watch, a_launch
from tests.integration.test_process_user import UserHarness, why_not

# Processes of this test run are known by how long they sleep, in a fraction that no other has.
MINE = f"{os.getpid():08}"
LOOKS_FOR_MINE = f"{MINE[:-1]}[{MINE[-1]}]"
UIDS = "1900000000-1900000999"
SUBMITTED_MS = 1000


class PeopleHarness(UserHarness):
    """A process backend wired as `pai up --task-uids` does it; ann and bob have accounts."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, task_uids=UIDS)
        self.people.since_ms = {"ann": 100, "bob": 200}

    def launch(self, user: str, commands: str, index: int = 0, **rest: Any) -> LaunchTask:
        """Return the launch of a task of a person's one job."""
        fields: dict[str, Any] = {"submitted_at_ms": SUBMITTED_MS, "labels": {"user": user}, **rest}
        return a_launch(self, job_of(user, index), f"set +e\n{commands}", **fields)

    async def run(self, user: str, commands: str, index: int = 0, **rest: Any) -> str:
        """Return what a task of somebody says until it is over."""
        backend = self._backend or await self.start()
        await backend.apply([self.launch(user, commands, index, **rest)])
        (report,) = await Watch(backend).until_over(job_of(user, index))
        assert report.reason is ExitReason.EXITED, report
        return self.output(job_of(user, index))

    async def begin(self, user: str, commands: str, index: int = 0, **rest: Any) -> Backend:
        """Start a task of somebody that says `ready` and stays."""
        backend = self._backend or await self.start()
        await backend.apply([self.launch(user, f"{commands}\necho ready\nsleep 1000", index, **rest)])
        await self.until_printed(job_of(user, index), "ready")
        return backend

    def directory(self, user: str, index: int = 0) -> str:
        """Return the task directory of somebody's task."""
        return f"{self.root}/{job_of(user, index).path()}"


def job_of(user: str, index: int = 0) -> AttemptKey:
    return AttemptKey(user.encode().hex().ljust(32, "0"), 0, "main", index, 0)


@pytest_asyncio.fixture
async def world() -> AsyncIterator[PeopleHarness]:
    reason = why_not()
    if reason:
        pytest.skip(reason)
    if find_namespaces() is None:
        pytest.skip("the system lets nobody make namespaces here")
    directory = Path(tempfile.mkdtemp(dir="/var/lib", prefix="pai-people-"))
    async with PeopleHarness(directory) as made:
        yield made
    shutil.rmtree(directory)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A storage that everybody may write to, as /tmp."""
    place = Path(tempfile.mkdtemp(dir="/var/lib", prefix="pai-shared-"))
    place.chmod(0o1777)
    yield place
    shutil.rmtree(place)
    Path(f"/mnt/{place.name}").rmdir()


class TestWhoIsWho:
    async def test_each_person_is_a_user_and_stays_it(self, world: PeopleHarness) -> None:
        ann, bob = await world.run("ann", "id -u"), await world.run("bob", "id -u")
        assert ann != bob
        assert {1_900_000_000 <= int(uid) <= 1_900_000_999 for uid in (ann, bob)} == {True}
        await world.stop()
        await world.start()
        assert await world.run("ann", "id -u", 1) == ann

    async def test_a_new_user_inherits_nothing_from_a_removed_one_of_the_same_name(self, world: PeopleHarness) -> None:
        first = await world.run("ann", "id -u")
        del world.people.since_ms["ann"]
        orphan = await world.run("ann", "id -u", 1)
        world.people.since_ms["ann"] = SUBMITTED_MS + 1
        late = await world.run("ann", "id -u", 2)
        second = await world.run("ann", "id -u", 3, submitted_at_ms=SUBMITTED_MS + 2)
        assert len({first, orphan, second}) == 3
        assert late == orphan, "a job that is older than the account is not the account's, and stays its own"

    async def test_a_task_has_no_rights_and_gets_none(self, world: PeopleHarness) -> None:
        output = await world.run("ann", "grep -E 'Cap(Eff|Prm|Inh|Amb)|NoNewPrivs' /proc/self/status; id -G; umask")
        facts = dict(line.split(":\t") for line in output.splitlines() if ":" in line)
        assert facts.pop("NoNewPrivs") == "1"
        assert {int(value, 16) for value in facts.values()} == {0}

    async def test_programs_can_ask_for_their_user(self, world: PeopleHarness) -> None:
        asks = (
            "import getpass, os, pwd; me = pwd.getpwuid(os.getuid()); print(getpass.getuser(), me.pw_name, me.pw_dir)"
        )
        output = await world.run("ann", f'/usr/bin/python3 -c "{asks}" || echo ann ann "$HOME"; echo "$HOME"; id -un')
        home = f"{world.directory('ann')}/home"
        assert output.splitlines() == [f"ann ann {home}", home, "ann"]


class TestAttacks:
    async def test_what_a_user_left_at_home_does_not_run_in_jobs_of_others(self, world: PeopleHarness) -> None:
        plant = """
for site in "$HOME/.local/lib/python3.11/site-packages"; do mkdir -p "$site"; done
echo 'print("caught", flush=True)' >"$site/usercustomize.py"
for file in .bashrc .profile .bash_profile .pythonrc; do echo 'echo caught' >"$HOME/$file"; done
/usr/bin/python3 -c pass; bash -l -c true"""
        steal = "/usr/bin/python3 -c pass; bash -l -c true; bash -i -c true 2>/dev/null; ls -A $HOME; touch $HOME/mine"
        assert "caught" in await world.run("ann", plant), "the trap works where it was laid"
        assert await world.run("bob", steal) == ""
        assert await world.run("ann", steal, 1) == "", "nor in another task of the same person"

    async def test_temporary_files_and_shared_memory_are_not_shared(self, world: PeopleHarness) -> None:
        places = ("/tmp", "/var/tmp", "/dev/shm")
        name = f"of-ann-{world.root.parent.parent.name}"
        make = "\n".join(f"echo secret >{place}/{name}; chmod 777 {place}/{name}" for place in places)
        await world.begin("ann", f"{make}\nipcmk -M 4096 -p 0666 >/dev/null; ipcmk -Q -p 0666 >/dev/null")
        look = "\n".join(f"cat {place}/{name} 2>/dev/null; ls -A {place}" for place in places)
        assert await world.run("bob", f"{look}\nipcs -m -q | grep -c 666") == "0\n"
        assert not [place for place in places if os.path.exists(f"{place}/{name}")]  # noqa: ASYNC240, PTH110

    async def test_processes_of_others_are_not_there(self, world: PeopleHarness) -> None:
        sleeps = f"SECRET=of-ann; export SECRET; sleep 999.{MINE} &"
        await world.begin("ann", f"{sleeps}\nps -e -o args | grep -c 999.{LOOKS_FOR_MINE}")
        assert world.output(job_of("ann")).splitlines()[0] == "1"
        (sleeper,) = [int(pid) for pid in _pids(f"sleep\x00999.{MINE}")]
        output = await world.run(
            "bob",
            f"""
grep -la 999.{MINE} /proc/[0-9]*/cmdline 2>/dev/null
grep -la of-ann /proc/[0-9]*/environ 2>/dev/null
ls /proc | grep -c '^[0-9]' | {{ read n; [ "$n" -lt 12 ] || echo "sees $n processes"; }}
kill -9 {sleeper} 2>/dev/null && echo killed
for pid in $(seq 1 40); do [ "$pid" = $$ ] || kill -9 "$pid" 2>/dev/null; done; kill -9 -1 2>/dev/null
for pid in 1 {sleeper}; do
    cat /proc/$pid/environ /proc/$pid/mem 2>/dev/null && echo "read $pid"
    ls /proc/$pid/cwd/ /proc/$pid/root/ 2>/dev/null && echo "entered $pid"
    nsenter -t $pid -m -p true 2>/dev/null && echo "joined $pid"
done""",
        )
        assert output == ""
        assert _pids(f"sleep\x00999.{MINE}") == [str(sleeper)], "it lives"

    async def test_files_of_others_are_closed_whatever_their_owner_says(self, world: PeopleHarness) -> None:
        await world.begin(
            "ann", 'echo secret >file; chmod 777 . file "$HOME" /tmp; echo secret >/tmp/x; chmod 777 /tmp/x'
        )
        ann, logs = world.directory("ann"), world.logs / job_of("ann").path()
        files = [f"{ann}/{name}" for name in ("work/file", "user.sh", "tmp/x", "exit", "ticket", "passwd", "enter.sh")]
        files += [f"{logs}/stdout.log", f"{world.root}/../../secret.key", f"{world.root}/../../task-uids"]
        attempts = [f"cat {file}; echo x >>{file}; ln {file} linked && echo linked" for file in files]
        attempts += [f"ls {ann} {logs}; touch {ann}/x; ln -sf /etc/passwd {logs}/stdout.log && echo replaced"]
        attempts += [f"mkfifo {logs}/stderr.log {ann}/exit && echo piped", f"mv {ann} {ann}x && echo moved"]
        output = await world.run("bob", "exec 2>/dev/null\n" + "\n".join(attempts))
        assert output == ""

    async def test_no_hard_link_brings_a_file_of_the_machine_to_where_the_server_reads(
        self, world: PeopleHarness
    ) -> None:
        data = world.root.parent.parent
        outside = (data / "secret.key", world.root / ".grants", Path(world.directory("bob"), "exit"), data / "lock")
        await world.begin("bob", "")
        output = await world.run("ann", "\n".join(f"ln {file} x 2>&1" for file in outside))
        # Checked before whose the file is, so it holds also where the system lets everybody link everything.
        assert output.count("cross-device link") == 3, output
        assert "bob" not in output or "Permission denied" in output
        assert len(output.splitlines()) == 4

    async def test_a_task_cannot_change_what_the_server_believes_of_it(self, world: PeopleHarness) -> None:
        logs = world.logs / job_of("ann").path()
        output = await world.run(
            "ann",
            f"""exec 2>/dev/null
rm -f {logs}/stdout.log && echo removed a log
ln -sf /etc/shadow {logs}/stdout.log && echo replaced a log
for name in exit ticket task.json grace user.sh enter.sh; do
    rm -f ../$name; (printf 'code 0\\nend\\n' >../$name) && echo wrote $name; mkfifo ../$name && echo piped $name
done
mv ../work ../elsewhere && echo moved work
mount -t tmpfs none /tmp && echo mounted; umount /proc && echo unmounted; unshare -m true && echo unshared
kill -9 1; kill -9 $PPID; kill -9 -- -1
echo still here""",
        )
        assert output in ("still here\n", "")

    async def test_a_setuid_program_left_behind_gives_no_other_user_its_owners_rights(
        self, world: PeopleHarness, shared: Path
    ) -> None:
        if not unshare_program():
            pytest.skip("without rights to mount, storages are links")
        place = f"/mnt/{shared.name}"
        mounts = (Mount("shared", str(shared), place),)
        await world.run("ann", f"cp /usr/bin/id {place}/id; chmod 6755 {place}/id", mounts=mounts)
        bob = await world.run("bob", "id -u", 1)
        assert await world.run("bob", f"{place}/id -u; id -u", mounts=mounts) == bob * 2
        # The same without the mount, as root would find it: no new privileges.
        assert await world.run("bob", f"{shared}/id -u", 2) == bob

    async def test_a_personal_folder_is_closed_to_others_also_by_its_place_on_the_machine(
        self, world: PeopleHarness, shared: Path
    ) -> None:
        if not unshare_program():
            pytest.skip("without rights to mount, storages are links")
        os.chmod(shared, 0o755)  # noqa: PTH101
        for user in ("ann", "bob"):
            mounts = (Mount("home", str(shared), f"/mnt/{shared.name}", folder=user),)
            await world.run(user, f"umask 0; echo {user} >/mnt/{shared.name}/file", mounts=mounts)
        output = await world.run(
            "bob",
            f"""exec 2>/dev/null
cat {shared}/ann/file; ls {shared}/ann; touch {shared}/ann/x && echo wrote; chmod 777 {shared}/ann && echo opened
mv {shared}/ann {shared}/was-ann && echo moved; ln -s / {shared}/eve && echo linked
cat {shared}/bob/file""",
            1,
        )
        assert output == "bob\n"

    async def test_what_left_the_session_is_gone_with_the_task(self, world: PeopleHarness) -> None:
        hides = f"exec env -i setsid sh -c 'trap \"\" TERM HUP; sleep 998.{MINE}'"
        await world.run(
            "ann", f"({hides} >/dev/null 2>&1 </dev/null &)\nuntil pgrep -f 998.{LOOKS_FOR_MINE}; do sleep 0.02; done"
        )
        assert _pids(f"sleep\x00998.{MINE}") == []

    async def test_cleaning_follows_no_link_out_of_the_task(self, world: PeopleHarness, tmp_path: Path) -> None:
        victim = Path(tempfile.mkdtemp(dir="/var/lib", prefix="pai-victim-"))
        try:
            (victim / "kept").write_text("kept")
            traps = f"""
ln -s {victim} link; ln -s {victim}/kept file; mkdir -p deep/er && ln -s {victim} deep/er/link
ln -s {victim} "$HOME/link"; ln -s {victim} /tmp/link; mkfifo pipe /tmp/pipe "$HOME/pipe"
mkdir closed && touch closed/x && chmod 0 closed; touch -- '-rf' '*'
ln -s .. up; rmdir nothing; ln -s / "$HOME/.cache" """
            backend = world._backend or await world.start()
            await world.run("ann", traps)
            await backend.apply([ForgetTask(job_of("ann"))])
            await world.until(lambda: not os.listdir(f"{world.root}/.trash"))  # noqa: PTH208
            assert (victim / "kept").read_text() == "kept"
            assert not os.path.exists(world.directory("ann"))  # noqa: ASYNC240, PTH110
        finally:
            shutil.rmtree(victim)


class TestTasksGoOn:
    @pytest.mark.parametrize(("ends", "code"), [("exit 0", 0), ("exit 37", 37), ("kill -9 $$", 137), ("false", 1)])
    async def test_exit_codes(self, ends: str, code: int, world: PeopleHarness) -> None:
        backend = await world.start()
        await backend.apply([world.launch("ann", ends)])
        (report,) = await Watch(backend).until_over(job_of("ann"))
        assert (report.code, report.reason) == (code, ExitReason.EXITED)

    async def test_a_program_without_a_handler_ends_on_sigterm(self, world: PeopleHarness) -> None:
        backend = await world.start()
        await backend.apply([world.launch("ann", "echo ready\nexec sleep 1000")])
        await world.until_printed(job_of("ann"), "ready")
        await backend.apply([KillTask(job_of("ann"), 300.0)])
        (report,) = await Watch(backend).until_over(job_of("ann"))
        assert report.code == 143

    async def test_a_task_that_saves_has_time_and_one_that_ignores_sigterm_is_killed(
        self, world: PeopleHarness
    ) -> None:
        saves = "trap 'echo saved; exit 5' TERM\necho ready\nwhile :; do sleep 0.05; done"
        backend = await world.start()
        await backend.apply([world.launch("ann", saves), world.launch("bob", saves.replace("echo saved; exit 5", ""))])
        for user in ("ann", "bob"):
            await world.until_printed(job_of(user), "ready")
        await backend.apply([KillTask(job_of("ann"), 300.0), KillTask(job_of("bob"), 0.1)])
        reports = await Watch(backend).until_over(job_of("ann"), job_of("bob"))
        assert [report.code for report in reports] == [5, 137]
        assert world.output(job_of("ann")) == "ready\nsaved\n"
        assert world.processes(job_of("bob")) == 0

    async def test_a_restarted_server_finds_tasks_and_their_ends(self, world: PeopleHarness) -> None:
        backend = await world.start()
        await backend.apply(
            [world.launch("ann", 'echo ready\nwhile [ ! -e "$PAI_WORK_DIR/../resume" ]; do sleep 0.02; done\nexit 9')]
        )
        # A task that had not begun when the server died is reported as lost, which is right too.
        await world.until_printed(job_of("ann"), "ready")
        await world.crash()
        backend = await world.start()
        watch = Watch(backend)
        await watch.until_running(job_of("ann"))
        await world.resume(job_of("ann"))
        (report,) = await watch.until_over(job_of("ann"))
        assert report.code == 9

    async def test_memory_is_limited_and_shared_memory_counts(self, world: PeopleHarness) -> None:
        backend = await world.start()
        if not isinstance(backend, ProcessBackend) or not backend._limits._home:
            pytest.skip("no cgroup can limit memory here")
        fills = "dd if=/dev/zero of=/dev/shm/x bs=1M count=200"
        await backend.apply([world.launch("ann", f"{fills} && echo filled", memory_mb=64, shm_mb=400)])
        await backend.apply([world.launch("bob", f"{fills} && echo filled", memory_mb=400, shm_mb=64)])
        reports = await Watch(backend).until_over(job_of("ann"), job_of("bob"))
        assert "filled" not in world.output(job_of("ann")) + world.output(job_of("bob"))
        assert reports[0].reason is ExitReason.OOM_KILLED

    async def test_what_cannot_be_mounted_is_reported(
        self, world: PeopleHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        backend = await world.start()
        assert isinstance(backend, ProcessBackend)
        namespaces = find_namespaces()
        assert namespaces is not None
        broken = type(namespaces)(namespaces.unshare, "/bin/false")
        monkeypatch.setattr(backend._launcher, "_namespaces", broken)
        await backend.apply([world.launch("ann", "echo ran")])
        (report,) = await Watch(backend).until_over(job_of("ann"))
        assert (report.reason, world.output(job_of("ann"))) == (ExitReason.LAUNCH_FAILED, "")

    async def test_a_data_directory_that_private_places_would_hide_is_still_there(self) -> None:
        if reason := why_not():
            pytest.skip(reason)
        directory = Path(tempfile.mkdtemp(dir="/tmp", prefix="pai-people-"))
        made = PeopleHarness(directory)
        try:
            os.chmod(directory, 0o755)  # noqa: PTH101
            output = await made.run("ann", 'cd /; echo hello >"$PAI_WORK_DIR/x" && cat "$PAI_WORK_DIR/x"; ls -A /tmp')
            assert output == f"hello\n{directory.name}\n"
        finally:
            await made.destroy()
            shutil.rmtree(directory)

    async def test_without_namespaces_people_are_still_apart_and_it_is_said(
        self, world: PeopleHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        message: list[str] = []
        monkeypatch.setattr("openpai.backends.process.backend.log.warning", lambda output, **_: message.append(output))
        world.find_namespaces = lambda: None
        backend = await world.begin("ann", "echo secret >file; chmod 777 .")
        assert [output for output in message if "share /tmp and /dev/shm" in output]
        ann = world.directory("ann")
        output = await world.run("bob", f"cd {ann}; cat work/file; cd /; grep -la {ann} /proc/[0-9]*/environ; cd; pwd")
        assert output == f"{world.directory('bob')}/home\n"
        await backend.apply([KillTask(job_of("ann"), 0.1)])
        (report,) = await Watch(backend).until_over(job_of("ann"))
        assert report.code in (137, 143)

    async def test_a_variable_that_could_command_the_wrapper_is_refused(self, world: PeopleHarness) -> None:
        backend = await world.start()
        await backend.apply([world.launch("ann", "echo ran", env={"LD_PRELOAD": "/tmp/evil.so"})])
        (report,) = await Watch(backend).until_over(job_of("ann"))
        assert report.reason is ExitReason.LAUNCH_REFUSED
        assert "LD_PRELOAD" in report.message


def _pids(cmdline: str) -> list[str]:
    """Return the processes of this machine that were started with this command line."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "cmdline").read_text()
        except OSError:
            continue
        if text.rstrip("\0") == cmdline:
            found.append(process.name)
    return found
