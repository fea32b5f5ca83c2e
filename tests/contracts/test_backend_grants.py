"""Grants of devices: a device obeys the newest grant number it has heard, in every backend."""

from __future__ import annotations

from openpai.lifecycle.model import ExitReason
from tests.contracts.harness import Harness
from tests.contracts.seen import Watch, a_key, a_launch, forget, observed


async def test_an_old_grant_never_displaces_a_newer_one(harness: Harness) -> None:
    backend = await harness.start()
    newer, older, equal = a_key(1), a_key(2), a_key(3)
    await backend.apply(
        [
            a_launch(harness, newer, harness.programs.waits(), devices=(0,), grant=8),
            a_launch(harness, older, harness.programs.waits(), devices=(0, 1), grant=7),
        ]
    )
    watch = Watch(backend)
    (report,) = await watch.until_over(older)
    assert report.reason is ExitReason.STALE_GRANT
    await watch.until_running(newer)
    seen = await observed(backend, newer)
    assert seen is not None
    assert seen.exit is None
    await backend.apply([a_launch(harness, equal, harness.programs.exits(0), devices=(1,), grant=7)])
    (report,) = await watch.until_over(equal)
    assert report.reason is ExitReason.EXITED


async def test_a_stale_launch_leaves_its_grant_with_the_devices_that_it_may_have(harness: Harness) -> None:
    backend = await harness.start()
    newer, stale, older = a_key(1), a_key(2), a_key(3)
    await backend.apply(
        [
            a_launch(harness, newer, harness.programs.exits(0), devices=(0,), grant=8),
            a_launch(harness, stale, harness.programs.exits(0), devices=(0, 1), grant=7),
            a_launch(harness, older, harness.programs.exits(0), devices=(1,), grant=6),
        ]
    )
    reports = await Watch(backend).until_over(newer, stale, older)
    assert [report.reason for report in reports] == [ExitReason.EXITED, *[ExitReason.STALE_GRANT] * 2]


async def test_a_grant_is_remembered_when_its_attempt_is_forgotten_and_the_server_restarted(harness: Harness) -> None:
    backend = await harness.start()
    await backend.apply([a_launch(harness, a_key(1), harness.programs.exits(0), devices=(1,), grant=8)])
    await Watch(backend).until_over(a_key(1))
    await forget(backend, a_key(1))
    late = a_launch(harness, a_key(2), harness.programs.exits(0), devices=(1,), grant=7)
    await backend.apply([late])
    (report,) = await Watch(backend).until_over(a_key(2))
    assert report.reason is ExitReason.STALE_GRANT
    await forget(backend, a_key(2))
    await harness.crash()
    backend = await harness.start()
    await backend.apply([late])
    (report,) = await Watch(backend).until_over(a_key(2))
    assert report.reason is ExitReason.STALE_GRANT


async def test_attempts_without_devices_need_no_newer_grant(harness: Harness) -> None:
    backend = await harness.start()
    await backend.apply(
        [
            a_launch(harness, a_key(1), harness.programs.exits(0), grant=8),
            a_launch(harness, a_key(2), harness.programs.exits(0), grant=7),
        ]
    )
    reports = await Watch(backend).until_over(a_key(1), a_key(2))
    assert [report.reason for report in reports] == [ExitReason.EXITED, ExitReason.EXITED]
