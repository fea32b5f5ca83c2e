"""What every backend that runs programs promises about storages."""

from __future__ import annotations

from pathlib import Path

import pytest

from openpai.backends.process.mounting import unshare_program
from openpai.lifecycle.model import ExitReason
from openpai.ports.backend import Mount
from tests.contracts.harness import Harness, needs_shell
from tests.contracts.process_harness import ProcessHarness
from tests.contracts.seen import Watch, a_key, a_launch, ran


async def test_storages_are_there_and_read_only_ones_stay_as_they_are(harness: Harness, tmp_path: Path) -> None:
    needs_shell(harness)
    if isinstance(harness, ProcessHarness) and not unshare_program():
        pytest.skip("without rights to mount, the process backend links storages and cannot keep them from writing")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "hello").write_text("hello")
    source, seen = str(tmp_path / "shared"), str(tmp_path / "seen")
    mounts = (
        Mount("team-data", source, f"{seen}/data"),
        Mount("home", source, f"{seen}/home", folder="ann"),
    )
    commands = f"""
[ "$PAI_STORAGE_TEAM_DATA $PAI_STORAGE_HOME" = "{seen}/data {seen}/home" ]
read -r word <{seen}/data/hello || true
echo "$word"
echo made >{seen}/data/made
echo mine >$PAI_STORAGE_HOME/mine
"""
    backend = await harness.start()
    await backend.apply([a_launch(harness, a_key(1), commands, mounts=mounts)])
    (report,) = await Watch(backend).until_over(a_key(1))
    assert (report.code, harness.output(a_key(1))) == (0, "hello\n")
    assert (tmp_path / "shared" / "made").read_text() == "made\n"
    assert (tmp_path / "shared" / "ann" / "mine").read_text() == "mine\n"
    # Whichever is named first: what is read-only under one name may be written to under another.
    fixed = (Mount("fixed", source, f"{seen}/fixed", is_read_only=True), Mount("free", source, f"{seen}/free"))
    commands = f"""
cat {seen}/fixed/made
if (echo x >{seen}/fixed/made) 2>/dev/null; then exit 9; fi
echo x >{seen}/free/more
"""
    await backend.apply([a_launch(harness, a_key(2), commands, mounts=fixed)])
    (report,) = await Watch(backend).until_over(a_key(2))
    assert (report.code, harness.output(a_key(2))) == (0, "made\n")
    assert (tmp_path / "shared" / "made").read_text() == "made\n"


async def test_a_storage_that_is_not_there_is_reported(harness: Harness, tmp_path: Path) -> None:
    needs_shell(harness)
    missing = (Mount("data", str(tmp_path / "missing"), "/mnt/data"),)
    report = await ran(harness, "echo never", mounts=missing)
    assert report.reason is ExitReason.LAUNCH_FAILED
    assert f"there is no directory {tmp_path / 'missing'} on this machine" in report.message
    assert harness.output(a_key()) == ""
    assert not (tmp_path / "missing").exists()


async def test_what_only_pods_mount_is_refused_elsewhere(harness: Harness) -> None:
    needs_shell(harness)
    if "Kube" in type(harness).__name__:
        pytest.skip("pods mount volume claims")
    report = await ran(harness, "echo never", mounts=(Mount("team", "", "/mnt/team", claim="team-data"),))
    assert report.reason is ExitReason.LAUNCH_REFUSED
    assert "storage team is the volume claim team-data, which only pods of Kubernetes mount" in report.message
    assert harness.output(a_key()) == ""
