"""What containers leave in `PAI_WORK_DIR`: said, kept when they are forgotten, given out, and removed."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from openpai.cli.run_code import _unpacked
from openpai.logs.kept_work import KeptDirectories
from openpai.ports.backend import Backend
from tests.contracts.seen import Watch, a_key, a_launch, forget
from tests.integration.docker_engine import build, engine, root_files

pytest.importorskip("aiodocker", reason="the docker backend needs the package 'aiodocker', which is not installed")

from openpai.app.clock import SystemClock
from openpai.backends.docker.backend import DockerBackend
from openpai.backends.docker.containers import WORK
from openpai.backends.host.directory import KEPT
from tests.contracts.docker_harness import DockerHarness

IMAGE = "openpai-work:1"
PROGRAMS = ("tar", "gzip", "base64", "chmod", "ln", "mv")
NOTE = "pai job fetch"


class KeepingHarness(DockerHarness):
    """A docker backend that keeps what tasks leave, and an image with a WORKDIR of a user who is not root."""

    image = IMAGE
    keeps_work = True

    def make(self) -> Backend:
        return DockerBackend(
            self.root, self.logs, SystemClock(), url=self.url, gpus_per_node=4, keeps_work=self.keeps_work
        )

    async def run(self, commands: str, number: int = 0) -> str:
        """Run a task to its end, have it forgotten and removed, and return the end of its `runtime` log."""
        key = a_key(number)
        backend = self._backend or await self.start()
        await backend.apply([a_launch(self, key, commands)])
        (report,) = await Watch(backend).until_over(key)
        assert report.code == 0, (report, (self.logs / key.path() / "stderr.log").read_text())
        message = (self.logs / key.path() / "runtime.log").read_text()
        await forget(backend, key)
        # Closing waits for what is being forgotten.
        await self.stop()
        return message


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[KeepingHarness]:
    url, why_not = engine()
    if why_not or os.geteuid() != 0:
        pytest.skip(why_not or "only a server that is root keeps what containers leave")
    steps = ("FROM scratch", "COPY root /", "RUN chmod 1777 /tmp", "USER 1234:1234", "WORKDIR /tmp")
    build(url, IMAGE, *steps, files=root_files(*PROGRAMS))
    async with KeepingHarness(tmp_path) as made:
        yield made


def kept(world: KeepingHarness) -> KeptDirectories:
    return KeptDirectories(world.root / KEPT, SystemClock(), 3_600_000)


async def files_of(world: KeepingHarness, number: int = 0) -> dict[str, bytes]:
    """Return what is given out of a task."""
    archive = io.BytesIO(b"".join(await kept(world).archive(a_key(number), ())))
    with tarfile.open(fileobj=archive) as members:
        return {one.name: members.extractfile(one).read() for one in members}  # type: ignore[union-attr]


async def test_what_any_user_left_is_said_given_out_and_removed(world: KeepingHarness) -> None:
    message = await world.run(
        f'[ "$PAI_WORK_DIR" = {WORK} ]\n[ "$PWD" = /tmp ]\necho gone >here\n'
        'mkdir "$PAI_WORK_DIR/out"\necho weights >"$PAI_WORK_DIR/out/model"\nchmod 0 "$PAI_WORK_DIR/out"'
    )
    assert NOTE in message.splitlines()[-1]
    assert await files_of(world) == {"out/model": b"weights\n"}
    (left,) = await kept(world).of_job(a_key().job)
    assert (left.key, left.files, left.bytes) == (a_key(), 1, 8)
    kept(world).remove([a_key()])
    assert list((world.root / KEPT).iterdir()) == []


async def test_the_code_of_pai_run_and_its_results_are_given_out(world: KeepingHarness) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("train.sh")
        member.size = 8
        archive.addfile(member, io.BytesIO(b"echo 42\n"))
    await world.run(f"{_unpacked(packed.getvalue())}\nsh train.sh >result")
    assert await files_of(world) == {"code/train.sh": b"echo 42\n", "code/result": b"42\n"}


async def test_a_task_that_leaves_nothing_there_or_a_link_has_nothing_kept(
    world: KeepingHarness, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir(mode=0o755)
    (secret / "key").write_text("secret")
    assert NOTE not in await world.run("true")
    assert NOTE not in await world.run(f"cd /\nmv {WORK} {WORK}.old\nln -s {secret} {WORK}", 1)
    assert [path for path in (world.root / KEPT).glob("*") if path] == []
    assert (secret / "key").read_text() == "secret"


async def test_links_among_what_was_left_lead_nowhere(world: KeepingHarness, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret")
    await world.run(f'cd "$PAI_WORK_DIR"\nln -s {tmp_path} out\nln -s {tmp_path}/key key\necho mine >mine')
    assert await files_of(world) == {"mine": b"mine\n"}
    kept(world).remove([a_key()])
    assert (tmp_path / "key").read_text() == "secret"


async def test_a_backend_that_keeps_nothing_leaves_containers_as_they_are(world: KeepingHarness) -> None:
    world.keeps_work = False
    assert NOTE not in await world.run('[ "$PAI_WORK_DIR" = /tmp ]\necho gone >"$PAI_WORK_DIR/here"')
    assert not (world.root / KEPT).exists()
