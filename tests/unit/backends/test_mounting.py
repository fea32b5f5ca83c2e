"""Storages of tasks: links where the server may not mount, mounts of the Engine, and refusals of network storages."""

from __future__ import annotations

from pathlib import Path

import pytest

from openpai.backends.docker.containers import Limits, Places, config_of
from openpai.backends.host.mounts import local_source, variable
from openpai.backends.process import mounting
from openpai.lifecycle.model import AttemptKey, TaskId
from openpai.ports.backend import LaunchTask, Mount

NFS = Mount("nas", ":/export", "/mnt/nas", filesystem="nfs", options="addr=nas.example,ro", is_read_only=True)


def test_without_rights_a_task_gets_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounting, "unshare_program", lambda: "")
    source, work = tmp_path / "data", tmp_path / "work"
    source.mkdir()
    work.mkdir()
    mounted = mounting.mount_all([Mount("a.b", str(source), "/mnt/a.b", folder="ann")], str(tmp_path), str(work), "sh")
    assert mounted.prefix == ()
    assert mounted.environment == {"PAI_STORAGE_A_B": f"{work}/mnt/a.b"}
    assert (work / "mnt" / "a.b").resolve() == source / "ann"


def test_the_process_backend_says_which_backend_mounts_from_afar(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="docker backend"):
        mounting.mount_all([NFS], str(tmp_path), str(tmp_path), "sh")


def test_a_folder_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "ann").symlink_to("/etc")
    with pytest.raises(NotADirectoryError):
        local_source(Mount("home", str(tmp_path), "/mnt/home", folder="ann"))


def test_the_engine_mounts_from_afar_in_a_volume_that_goes_with_the_container() -> None:
    key = AttemptKey("0" * 32, 0, TaskId("main", 0), 0, 0)
    launch = LaunchTask(key, 1, "n", (), 1, 64, "image", "true", mounts=(NFS,))
    config = config_of(launch, Places("/tasks/x", "/logs/x", "/checkpoints/x"), Limits(4, False, "scope"), "pai.net")
    assert config["HostConfig"]["Mounts"][3:] == [
        {
            "Type": "volume",
            "Target": "/mnt/nas",
            "ReadOnly": True,
            "VolumeOptions": {
                "NoCopy": True,
                "DriverConfig": {
                    "Name": "local",
                    "Options": {"type": "nfs", "o": "addr=nas.example,ro", "device": ":/export"},
                },
            },
        }
    ]
    assert "PAI_STORAGE_NAS=/mnt/nas" in config["Env"]


def test_variables_are_names_a_shell_takes() -> None:
    assert variable(Mount("team-data.v2", "/x", "/y")) == "PAI_STORAGE_TEAM_DATA_V2"
