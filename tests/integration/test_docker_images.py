"""The docker backend and images: pulled, missing, private, slow, strange, or with a user that is not root."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Iterator
from pathlib import Path

import pytest

from openpai.lifecycle.model import AttemptKey, ExitReason
from openpai.ports.backend import KillTask, RegistryAuth, TaskStep
from tests.contracts.seen import Watch, a_key, a_launch, observed, ran
from tests.integration.docker_engine import IMAGE, build, remove_image
from tests.integration.docker_registry import PASSWORD, USER, Registry, serving

pytest.importorskip("aiodocker", reason="the docker backend needs the package 'aiodocker', which is not installed")

from openpai.backends.docker import images
from tests.contracts.docker_harness import DockerHarness


@pytest.fixture
def registry(harness: DockerHarness) -> Iterator[Registry]:
    with serving() as registry:
        yield registry
        remove_image(harness.url, registry.image)


def runtime_log(harness: DockerHarness, key: AttemptKey) -> str:
    return (harness.logs / key.path() / "runtime.log").read_text()


async def test_an_image_is_pulled_and_its_progress_reported(harness: DockerHarness, registry: Registry) -> None:
    backend = await harness.start()
    keys = [a_key(index) for index in range(3)]
    await backend.apply([a_launch(harness, key, "exit 4", image=registry.image) for key in keys])
    reports = await Watch(backend).until_over(*keys)
    assert [report.code for report in reports] == [4, 4, 4]
    assert registry.blobs_sent == len(registry.blobs), "one pull serves all who wait"
    for key in keys:
        assert f"image {registry.image} pulled" in runtime_log(harness, key)


async def test_the_user_of_a_pulled_image_goes_on_with_its_log(harness: DockerHarness, registry: Registry) -> None:
    registry.set_user("1234:1234")
    report = await ran(harness, "id -u\nexit 6", image=registry.image)
    assert (report.code, harness.output(a_key())) == (6, "1234\n")
    assert "pulled" in runtime_log(harness, a_key())
    assert "ended with exit code 6" in runtime_log(harness, a_key())


async def test_an_image_that_does_not_exist(harness: DockerHarness, registry: Registry) -> None:
    report = await ran(harness, "exit 0", image=registry.missing_image)
    assert report.reason is ExitReason.IMAGE_MISSING
    assert registry.missing_image in report.message


async def test_credentials_open_a_private_registry(harness: DockerHarness, registry: Registry) -> None:
    registry.is_private = True
    backend = await harness.start()
    auths = (None, RegistryAuth(USER, "wrong"), RegistryAuth(USER, PASSWORD))
    seen = []
    for index, auth in enumerate(auths):
        await backend.apply([a_launch(harness, a_key(index), "exit 0", image=registry.image, auth=auth)])
        seen.extend(await Watch(backend).until_over(a_key(index)))
    assert [report.reason for report in seen] == [
        ExitReason.IMAGE_MISSING,
        ExitReason.IMAGE_MISSING,
        ExitReason.EXITED,
    ]
    assert not any("wrong" in report.message or PASSWORD in report.message for report in seen)


async def test_a_registry_in_trouble_is_worth_another_try(
    harness: DockerHarness, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "TRY_AGAIN_S", 0.01)
    registry.is_broken = True
    report = await ran(harness, "exit 0", image=registry.image)
    assert report.reason is ExitReason.LAUNCH_FAILED
    assert registry.image in report.message
    assert "is tried again" in runtime_log(harness, a_key())


async def test_a_pull_that_hangs_is_given_up(
    harness: DockerHarness, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "TRY_AGAIN_S", 0.01)
    monkeypatch.setattr(images, "SILENCE_S", 0.5)
    registry.may_answer.clear()
    report = await ran(harness, "exit 0", image=registry.image)
    assert report.reason is ExitReason.LAUNCH_FAILED
    assert "made no progress" in report.message


@pytest.mark.parametrize("image", ["../../version#", f"{IMAGE}?x=y", "x/../../version", "a b", "a%2fb", "ä:1", ""])
async def test_what_is_no_name_of_an_image_leads_nowhere(harness: DockerHarness, image: str) -> None:
    report = await ran(harness, "exit 0", image=image)
    assert report.reason is ExitReason.IMAGE_MISSING
    assert "cannot be the name of an image" in report.message


async def test_an_attempt_may_end_while_its_image_is_pulled(harness: DockerHarness, registry: Registry) -> None:
    registry.may_answer.clear()
    backend = await harness.start()
    await backend.apply([a_launch(harness, a_key(), "exit 0", image=registry.image)])
    assert await asyncio.to_thread(registry.was_asked.wait, 60.0)
    seen = await observed(backend, a_key())
    assert seen is not None
    assert (seen.started_at_ms, seen.exit) == (None, None)
    assert (seen.message, seen.step) == (f"pulling image {registry.image}", TaskStep.PULLING_IMAGE)
    assert [(one.step, one.message) for one in await backend.news()] == [(seen.step, seen.message)]
    await backend.apply([KillTask(a_key(), 300.0)])
    (report,) = await Watch(backend).until_over(a_key())
    assert (report.code, report.reason) == (143, ExitReason.EXITED)


async def test_an_image_without_a_shell_is_refused(harness: DockerHarness) -> None:
    build(harness.url, "openpai-test-empty:1", "FROM scratch", "LABEL empty=1")
    report = await ran(harness, "exit 0", image="openpai-test-empty:1")
    assert report.reason is ExitReason.LAUNCH_REFUSED
    assert "/bin/sh" in report.message


async def test_an_image_for_other_processors_is_refused(harness: DockerHarness, tmp_path: Path) -> None:
    # A program for AArch64 (183), or there for i386 (3).
    shell = tmp_path / "sh"
    machine = 3 if platform.machine() == "aarch64" else 183
    shell.write_bytes(b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + bytes((2, 0, machine, 0)) + bytes(4000))
    shell.chmod(0o755)
    build(harness.url, "openpai-test-other:1", "FROM scratch", "COPY root /", files=[("/bin/sh", str(shell))])
    report = await ran(harness, "exit 0", image="openpai-test-other:1")
    assert report.reason is ExitReason.LAUNCH_REFUSED
    assert "another kind of processor" in report.message


async def test_an_image_may_have_a_user_of_its_own(harness: DockerHarness) -> None:
    build(harness.url, "openpai-test-user:1", f"FROM {IMAGE}", "WORKDIR /tmp", "USER 1234:1234")
    report = await ran(harness, "id -u\nexit 6", image="openpai-test-user:1")
    assert (report.code, harness.output(a_key())) == (6, "1234\n")
