"""What a task attempt looks like as a container, and what a container's end says about it."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("aiodocker", reason="the docker backend needs the package 'aiodocker', which is not installed")

from aiodocker.exceptions import DockerError

from openpai.backends.docker import containers, engine, machine
from openpai.backends.docker.containers import Limits, Places, attempt_of, config_of, name_of, verdict
from openpai.backends.docker.engine import ContainerState
from openpai.backends.docker.images import full_name, tagged
from openpai.backends.docker.launching import without_passwords
from openpai.backends.docker.security import Allowed, amd_devices, infiniband, missing_protection
from openpai.backends.host.capabilities import CAPABILITIES
from openpai.backends.host.machine import Gpus
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport
from openpai.ports.backend import LaunchTask, Mount, RegistryAuth

KEY = AttemptKey("0" * 32, 1, "Worker_A", 2, 3)
PLAIN = Limits(cpus=16, has_nvidia=False, scope="scope")
GROUP = 993 if os.geteuid() == 0 else os.getegid()
NVIDIA = Limits(cpus=16, has_nvidia=True, scope="scope")


def a_launch(**rest: Any) -> LaunchTask:
    fields: dict[str, Any] = {
        "key": KEY,
        "grant": 7,
        "node": "node-01",
        "devices": (2, 5),
        "cpus": 4,
        "memory_mb": 1024,
        "image": "team/tool:1",
        "commands": "train",
        "env": {"CUDA_VISIBLE_DEVICES": "2,5", "NVIDIA_VISIBLE_DEVICES": "2,5", "A": "b"},
        **rest,
    }
    return LaunchTask(**fields)


def a_state(code: int = 0, *, status: str = "exited", oom: bool = False, **labels: str) -> ContainerState:
    return ContainerState("pai.x", labels, status, code, oom, "", 1000, 2000)


def made(launch: LaunchTask, limits: Limits = PLAIN, network: str = "pai.net") -> dict[str, Any]:
    return config_of(launch, Places("/data/task", "/data/logs", "/data/checkpoints"), limits, network)


@pytest.mark.parametrize(
    ("wanted", "there", "gpus", "model", "are_real"),
    [
        (None, Gpus(8, "NVIDIA H200"), 8, "NVIDIA H200", True),
        (3, Gpus(8, "NVIDIA H200"), 3, "NVIDIA H200", True),
        (0, Gpus(8, "NVIDIA H200"), 0, "", False),
        (9, Gpus(8, "NVIDIA H200"), 9, "virtual", False),
        (4, Gpus(0), 4, "virtual", False),
        (None, Gpus(0), 0, "", False),
    ],
)
async def test_fewer_gpus_than_the_driver_has_are_real_ones(
    wanted: int | None, there: Gpus, gpus: int, model: str, are_real: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def find_gpus() -> Gpus:
        return there

    class Outcome:
        async def info(self) -> dict[str, Any]:
            return {"Name": "vm", "NCPU": 2, "MemTotal": 1 << 30}

    monkeypatch.setattr(machine, "find_gpus", find_gpus)
    found = await machine.machine_of(cast("engine.Engine", Outcome()), 1, wanted, None, "127.0.0.1")
    assert (found.nodes[0].gpus, found.nodes[0].gpu_model, found.has_nvidia) == (gpus, model, are_real)


async def test_gpus_of_amd_are_found_where_nvidia_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    class Answering:
        async def info(self) -> dict[str, Any]:
            return {"Name": "vm", "NCPU": 2, "MemTotal": 1 << 30}

    async def none() -> Gpus:
        return Gpus(0)

    monkeypatch.setattr(machine, "find_gpus", none)
    monkeypatch.setattr(machine, "amd_gpus", lambda: Gpus(2, "MI300X", files=("/dev/dri/renderD128",) * 2))
    for wanted, has_amd in ((None, True), (1, True), (3, False), (0, False)):
        found = await machine.machine_of(cast("engine.Engine", Answering()), 1, wanted, None, "127.0.0.1")
        assert (found.has_amd, found.has_nvidia) == (has_amd, False)


def own(variables: list[str]) -> list[str]:
    """Return the variables that do not name the files and directories of every task."""
    files = ("PAI_PREEMPTION_NOTICE=", "PAI_CHECKPOINT_DIR=", "PAI_PROGRESS_FILE=")
    return sorted(one for one in variables if not one.startswith(files))


class TestConfig:
    def test_limits(self) -> None:
        host = made(a_launch(shm_mb=64))["HostConfig"]
        assert (host["NanoCpus"], host["Memory"], host["MemorySwap"]) == (4 * 10**9, 1 << 30, 1 << 30)
        assert host["ShmSize"] == 64 << 20

    def test_real_devices_are_requested_by_number_and_renumbered_inside(self) -> None:
        config = made(a_launch(), NVIDIA)
        assert config["HostConfig"]["DeviceRequests"] == [
            {"Driver": "nvidia", "DeviceIDs": ["2", "5"], "Capabilities": [["gpu"]]}
        ]
        assert own(config["Env"]) == ["A=b", "CUDA_VISIBLE_DEVICES=0,1"]

    def test_slices_are_requested_by_name(self) -> None:
        sliced = Gpus(6, "NVIDIA H200 MIG 1g.18gb", tuple(f"MIG-{number}" for number in range(6)))
        config = made(a_launch(), replace(NVIDIA, gpus=sliced))
        assert config["HostConfig"]["DeviceRequests"][0]["DeviceIDs"] == ["MIG-2", "MIG-5"]
        assert own(config["Env"]) == ["A=b", "CUDA_VISIBLE_DEVICES=MIG-2,MIG-5"]

    def test_without_devices_none_are_asked_for_and_none_are_seen(self) -> None:
        config = made(a_launch(devices=(), env={"NVIDIA_VISIBLE_DEVICES": "none"}), NVIDIA)
        assert "DeviceRequests" not in config["HostConfig"]
        assert own(config["Env"]) == ["NVIDIA_VISIBLE_DEVICES=none"]

    def test_pretended_devices_are_only_numbers(self) -> None:
        config = made(a_launch())
        assert "DeviceRequests" not in config["HostConfig"]
        assert "CUDA_VISIBLE_DEVICES=2,5" in config["Env"]

    def test_gpus_of_amd_are_passed_by_their_files_alone_and_renumbered_inside(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "kfd").touch()
        passing = partial(amd_devices, compute=tmp_path / "kfd")
        monkeypatch.setattr(containers, "amd_devices", passing)
        monkeypatch.setattr(containers, "infiniband", lambda: {"Devices": [{"PathOnHost": "uverbs0"}], "Ulimits": []})
        files = tuple(f"/dev/dri/renderD{128 + number}" for number in range(8))
        limits = Limits(cpus=16, has_nvidia=False, scope="scope", gpus=Gpus(8, "MI300X", files=files), has_amd=True)
        config = made(a_launch(infiniband=True), limits)
        passed = [each["PathOnHost"] for each in config["HostConfig"]["Devices"]]
        assert passed == [str(tmp_path / "kfd"), "/dev/dri/renderD130", "/dev/dri/renderD133", "uverbs0"]
        assert "DeviceRequests" not in config["HostConfig"]
        assert own(config["Env"]) == ["A=b", "CUDA_VISIBLE_DEVICES=0,1"]
        assert "Devices" not in made(a_launch(devices=()), limits)["HostConfig"]
        with pytest.raises(ValueError, match="cannot compute"):
            amd_devices(["/dev/dri/renderD128", ""], tmp_path / "kfd")
        with pytest.raises(ValueError, match="cannot compute"):
            amd_devices(["/dev/dri/renderD128"], tmp_path / "none")

    def test_users_of_a_container_may_open_the_files_of_its_gpus(self, tmp_path: Path) -> None:
        for name in ("kfd", "renderD128"):
            (tmp_path / name).touch()
            os.chown(tmp_path / name, -1, GROUP)
        host = amd_devices([str(tmp_path / "renderD128")], tmp_path / "kfd")
        assert host["GroupAdd"] == [str(GROUP)] * bool(GROUP)

    def test_infiniband_is_what_programs_use_and_not_what_manages_the_fabric(self, tmp_path: Path) -> None:
        for name in ("uverbs0", "umad0", "rdma_cm"):
            (tmp_path / name).touch()
        host = infiniband(tmp_path)
        assert [device["PathInContainer"] for device in host["Devices"]] == [
            str(tmp_path / name) for name in ("rdma_cm", "uverbs0")
        ]
        assert host["Ulimits"] == [{"Name": "memlock", "Soft": -1, "Hard": -1}]
        assert "CapAdd" not in host
        with pytest.raises(ValueError, match="has none"):
            infiniband(tmp_path / "nowhere")

    def test_a_container_may_do_what_is_written_down_and_no_more(self) -> None:
        host = made(a_launch())["HostConfig"]
        assert (host["CapDrop"], host["CapAdd"]) == (["ALL"], sorted(CAPABILITIES))
        assert not {"NET_RAW", "NET_ADMIN", "SYS_ADMIN", "MKNOD", "SYS_PTRACE"} & set(host["CapAdd"])
        assert (host["SecurityOpt"], host["PidsLimit"], host["Privileged"]) == (["no-new-privileges"], 8192, False)
        assert "Devices" not in host
        page = (Path(__file__).parents[3] / "docs" / "admin.md").read_text()
        assert [f"| `{name}` | {reason} |" for name, reason in CAPABILITIES.items() if name not in page] == []

    def test_the_administrator_may_allow_more(self) -> None:
        limits = Limits(16, has_nvidia=False, scope="scope", allowed=Allowed(setuid=True, pids_max=100))
        host = made(a_launch(), limits)["HostConfig"]
        assert (host["SecurityOpt"], host["PidsLimit"]) == ([], 100)
        limits = Limits(16, has_nvidia=False, scope="scope", allowed=Allowed(host_network=True))
        assert "NET_BIND_SERVICE" not in made(a_launch(), limits, "host")["HostConfig"]["CapAdd"]

    def test_ports_are_published_under_their_own_numbers_where_there_is_a_network_to_publish_them_from(self) -> None:
        config = made(a_launch(ports=(15000, 15007)))
        assert config["HostConfig"]["NetworkMode"] == "pai.net"
        assert config["HostConfig"]["PortBindings"] == {
            "15000/tcp": [{"HostPort": "15000"}],
            "15007/tcp": [{"HostPort": "15007"}],
        }
        assert list(config["ExposedPorts"]) == ["15000/tcp", "15007/tcp"]
        config = made(a_launch(ports=(15000,)), network="host")
        assert (config["HostConfig"]["PortBindings"], config["ExposedPorts"]) == ({}, {})

    def test_commands_and_secrets_are_not_part_of_it(self) -> None:
        assert "s3cret" not in str(made(a_launch(commands="login s3cret")))

    def test_the_hosts_file_is_named_where_the_task_sees_it(self) -> None:
        assert "PAI_HOSTS_FILE=/usr/local/pai/hosts" in made(a_launch(hosts="w 0 10.0.0.1\n"))["Env"]

    def test_a_container_names_its_attempt(self) -> None:
        owner = attempt_of(a_state(**made(a_launch(labels={"user": "alice"}))["Labels"]))
        assert owner == (KEY, 7, (2, 5))
        assert attempt_of(a_state(**{"openpai.attempt": "nonsense"})) is None
        assert attempt_of(a_state()) is None

    def test_names_are_legal_and_different(self) -> None:
        assert name_of(KEY) == f"pai.{'0' * 32}.1.Worker_A.2.3"
        odd = [AttemptKey("j", 0, role, 0, 0) for role in ("a b", "a_b", "a:b", "é")]
        names = {name_of(key) for key in odd}
        assert len(names) == 4
        assert all(engine.re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9_.-]+", name) for name in names)


@pytest.mark.parametrize(
    ("state", "written", "is_killed", "code", "reason"),
    [
        (a_state(3), ExitReport(3), False, 3, ExitReason.EXITED),
        (a_state(137, oom=True), None, False, 137, ExitReason.OOM_KILLED),
        (a_state(1, oom=True), ExitReport(1), False, 1, ExitReason.OOM_KILLED),
        (a_state(0, oom=True), ExitReport(0), False, 0, ExitReason.EXITED),
        (a_state(137), None, True, 137, ExitReason.EXITED),
        (a_state(137), None, False, 137, ExitReason.LOST),
        (a_state(137), ExitReport(0), False, 0, ExitReason.EXITED),
        (a_state(74), None, False, 74, ExitReason.EXITED),
    ],
)
def test_verdicts(
    state: ContainerState, written: ExitReport | None, is_killed: bool, code: int, reason: ExitReason
) -> None:
    report = verdict(state, written, has_begun=True, was_killed=is_killed)
    assert (report.code, report.reason) == (code, reason)


@pytest.mark.parametrize(
    ("code", "is_killed", "reason"),
    [
        (0, False, ExitReason.LAUNCH_REFUSED),
        (255, False, ExitReason.LAUNCH_REFUSED),
        (255, True, ExitReason.EXITED),
        (137, False, ExitReason.LOST),
    ],
)
def test_verdicts_on_what_never_began(code: int, is_killed: bool, reason: ExitReason) -> None:
    assert verdict(a_state(code), None, has_begun=False, was_killed=is_killed).reason is reason


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (404, "No such image: x:1", engine.NoImage),
        (404, "No such container: pai.image", engine.NoContainer),
        (404, "network pai.image not found", engine.NoNetwork),
        (403, "Pool overlaps with other one on this address space", engine.SubnetTaken),
        (500, "driver failed: Bind for 0.0.0.0:15000 failed: port is already allocated", engine.PortTaken),
        (500, "listen tcp4 0.0.0.0:15000: bind: address already in use", engine.PortTaken),
        (409, "Conflict. The container name is already in use", engine.Conflict),
        (500, "container name is already in use", engine.Conflict),
        (400, "Minimum memory limit allowed is 6MB", engine.EngineRefused),
        (500, 'could not select device driver "nvidia" with capabilities: [[gpu]]', engine.EngineRefused),
        (500, "no space left on device", engine.EngineError),
        (900, "Cannot connect", engine.EngineSilent),
    ],
)
def test_errors_are_sorted_by_what_can_be_done(status: int, message: str, kind: type[Exception]) -> None:
    assert type(engine._sorted(DockerError(status, message))) is kind


@pytest.mark.parametrize(
    ("when", "ms"),
    [
        ("1970-01-01T00:00:01.234567891Z", 1235),
        ("1970-01-01T01:00:01+01:00", 1000),
        ("1970-01-01T00:00:02Z", 2000),
        ("0001-01-01T00:00:00Z", None),
        (None, None),
    ],
)
def test_times(when: str | None, ms: int | None) -> None:
    assert engine._ms(when) == ms


@pytest.mark.parametrize(
    ("image", "full"),
    [
        ("ubuntu", "docker.io/library/ubuntu:latest"),
        ("ubuntu@sha256:12", "docker.io/library/ubuntu@sha256:12"),
        ("ubuntu:22.04", "docker.io/library/ubuntu:22.04"),
        ("team/tool:1", "docker.io/team/tool:1"),
        ("example.org/team/tool", "example.org/team/tool:latest"),
        ("localhost/tool", "localhost/tool:latest"),
        ("host:5000/tool", "host:5000/tool:latest"),
    ],
)
def test_full_names(image: str, full: str) -> None:
    assert full_name(tagged(image)) == full


@pytest.mark.parametrize(
    ("message", "is_shown"),
    [
        ("mount //fs/s: data: addr=fs,username=u,password=********: no route to host", True),
        ("mount //fs/s: data: addr=fs,username=u,password=********,,hush: invalid argument", False),
        ("mount //fs/s: data: password=first,hush", False),
        ("the registry refuses svc:of-registry", False),
        ("no such image", True),
    ],
)
def test_an_error_of_the_engine_repeats_no_password(message: str, is_shown: bool) -> None:
    share = Mount("s", "//fs/s", "/s", filesystem="cifs", options="addr=fs,rw,username=u,password=first,,hush")
    launch = a_launch(mounts=(share, Mount("d", "/d", "/d")), auth=RegistryAuth("svc", "of-registry"))
    assert "of-registry" not in repr(launch)
    shown = without_passwords(engine.EngineRefused(message), launch)
    assert (shown == message) is is_shown
    repeated = share.options.replace("rw,", "")
    whole = without_passwords(engine.EngineError(f"mount //fs/s: data: {repeated}: no such device"), launch)
    assert whole == "mount //fs/s: data: addr=fs,username=u,password=******: no such device"
    assert "hush" not in shown
    assert "of-registry" not in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("name=seccomp,profile=default",), ""),
        (("name=apparmor", "name=seccomp,profile=builtin", "name=cgroupns"), ""),
        (("name=seccomp,profile=unconfined",), "its seccomp profile lets every system call through"),
        (("name=apparmor",), "it filters no system calls (seccomp)"),
    ],
)
def test_what_an_engine_does_not_confine_is_said(options: tuple[str, ...], message: str) -> None:
    assert missing_protection(options) == message
