"""What containers may write: work directory, own layer and volumes, with a reason when they are ended."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from openpai.lifecycle.diagnosis import diagnose
from openpai.lifecycle.model import ExitReason
from openpai.ports.backend import Backend
from tests.contracts.seen import Watch, a_key, a_launch
from tests.integration.docker_engine import build, engine, root_files

pytest.importorskip("aiodocker", reason="the docker backend needs the package 'aiodocker', which is not installed")

from openpai.app.clock import SystemClock
from openpai.backends.docker.backend import DockerBackend
from openpai.backends.docker.writing import taken_by_container
from tests.contracts.docker_harness import DockerHarness

IMAGE = "openpai-disk:1"
MIB = 1 << 20
FILL = "head -c 12000000 /dev/zero > {} && sync; sleep 600"


class LimitedHarness(DockerHarness):
    """A docker backend whose tasks may write 4 MiB, and an image with a volume."""

    image = IMAGE

    def make(self) -> Backend:
        return DockerBackend(
            self.root,
            self.logs,
            SystemClock(),
            url=self.url,
            gpus_per_node=4,
            work_bytes_max=4 * MIB,
            measure_every_s=0.1,
            keeps_work=True,
        )


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[LimitedHarness]:
    url, why_not = engine()
    if why_not:
        pytest.skip(why_not)
    build(url, IMAGE, "FROM scratch", "COPY root /", "VOLUME /data", files=root_files("head", "sync"))
    async with LimitedHarness(tmp_path) as made:
        yield made


async def test_a_task_that_fills_the_disk_is_ended_with_a_reason(world: LimitedHarness) -> None:
    backend = await world.start()
    places = ("$PAI_WORK_DIR/big", "/big", "/data/big")
    hogs = [a_key(number) for number in range(len(places))]
    fine = a_key(9)
    await backend.apply(
        [
            *(a_launch(world, key, FILL.format(place)) for key, place in zip(hogs, places, strict=True)),
            a_launch(
                world,
                fine,
                "for place in / /data $PAI_WORK_DIR; do head -c 1000000 /dev/zero > $place/some; done"
                "\nsync\nsleep 1\nexit 3",
            ),
        ]
    )
    *ended, other = await Watch(backend).until_over(*hogs, fine)
    assert [(one.reason, one.code) for one in ended] == [(ExitReason.DISK_EXCEEDED, 137)] * 3
    assert all("more than 4 MiB into its working directory and its container" in one.message for one in ended)
    assert {diagnose(one).phrase for one in ended} == {"UserContainerDiskLimitExceeded"}
    assert other.code == 3


async def test_a_container_that_is_gone_takes_nothing(world: LimitedHarness) -> None:
    backend = await world.start()
    assert await taken_by_container(backend._engine, "pai.nobody", MIB) == 0  # type: ignore[attr-defined]
