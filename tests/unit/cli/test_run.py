"""`pai run`: what is guessed, how the code travels, and that nothing is submitted that would not work."""

from __future__ import annotations

import os
import subprocess

import pytest
import yaml

from openpai.cli import run_code, run_defaults
from openpai.protocol.errors import Refused
from openpai.protocol.reading import read_job

SHARES = {"A100": {"gpu": 1, "cpu": 6, "memory": 9000}, "cpu": {"gpu": 0, "cpu": 1, "memory": 3000}}
SUBMITTED = {"message": "", "name": "x", "id": "1", "user": "ann", "warnings": []}


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "proj").mkdir()
    (tmp_path / "proj/train.py").write_text("print(1)\n")
    monkeypatch.chdir(tmp_path / "proj")
    return tmp_path / "proj"


@pytest.mark.parametrize(
    ("line", "stem"),
    [
        ("python src/train_big.py --lr 3", "train_big"),
        ("torchrun -m pkg.train x", "pkg"),
        ("./go.sh", "go"),
        ("echo 'a b'", "echo"),
        ("echo 'open", "echo"),
        ("$X", "X"),
        ("''", "run"),
    ],
)
def test_a_name_is_made_of_what_runs(line, stem):
    assert run_defaults.name_of(line).rpartition("-")[0] == stem
    assert len({run_defaults.name_of(line) for _ in range(5)}) > 1


def test_an_image_is_guessed_from_the_command_and_what_the_code_needs(tmp_path):
    assert run_defaults.image_of("nvidia-smi", tmp_path)[0] == run_defaults.OTHERWISE
    assert run_defaults.image_of("python3.11 x", tmp_path)[0].startswith("python:3.")
    (tmp_path / "requirements.txt").write_text("numpy\ntorch>=2\n")
    assert run_defaults.image_of("make all", tmp_path)[0] == run_defaults.OTHERWISE
    image, why = run_defaults.image_of("/usr/bin/python train.py", tmp_path)
    assert image == "pytorch/pytorch:latest"
    assert "requirements.txt names torch" in why
    (tmp_path / "requirements.txt").write_text("torchless\nno-torch\n")
    assert run_defaults.image_of("python train.py", tmp_path)[0].startswith("python:3.")


def test_the_job_is_shown_and_submitted(pai, platform, project):
    platform.on("GET", "/cluster/sku-types", SHARES)
    platform.on("POST", "/jobs", SUBMITTED, status=202)
    words = ("--gpus", "2", "--instances", "3", "--vc", "v", "--env", "A=b c", "-d", "--", "python", "train.py", "-x y")
    message = pai("run", *words)
    assert message.code == 0, message.err
    for shown in ("python train.py '-x y'", "3 with 2 GPUs, 12 CPUs, 17.6 GB each", "python:3.", "1 file of"):
        assert shown in message.out
    spec = read_job(platform.requests[-1].content).spec
    role = spec.role("main")
    assert (role.instances, role.resources.gpus, role.resources.cpus, spec.virtual_cluster) == (3, 2, 12, "v")
    assert role.commands[0] == "export A='b c'"
    assert role.commands[-1] == "python train.py '-x y'"


@pytest.mark.parametrize("kept", ["work", "kept"])
def test_the_commands_bring_the_code_to_where_results_are_kept(pai, platform, project, tmp_path, kept):
    platform.on("GET", "/cluster/sku-types", SHARES)
    (project / "sub").mkdir()
    (project / "sub/data.bin").write_bytes(os.urandom(100_000))
    message = pai("run", "--print", "--", "sh", "-c", "cmp sub/data.bin $ORIGIN && pwd")
    commands = yaml.safe_load(message.out)["taskRoles"]["main"]["commands"]
    (tmp_path / "work").mkdir()
    (tmp_path / "kept").mkdir()
    (tmp_path / "user.sh").write_text("\n".join(commands))
    ran = subprocess.run(
        ["sh", "-e", tmp_path / "user.sh"],
        cwd=tmp_path / "work",
        env=os.environ | {"ORIGIN": str(project / "sub/data.bin"), "PAI_WORK_DIR": str(tmp_path / kept)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, f"{tmp_path / kept / 'code'}\n"), ran.stderr
    assert all(path != "/api/v2/jobs" for _, path in platform.asked)


def test_much_code_needs_a_storage(pai, platform, project):
    platform.on("GET", "/cluster/sku-types", SHARES)
    platform.on("GET", "/storages", {"storages": []})
    (project / "model.bin").write_bytes(os.urandom(run_code.IN_JOB_BYTES + 1000))
    message = pai("run", "python", "train.py")
    assert message.code == 2
    assert "model.bin" in message.err
    assert "--storage" in message.err
    platform.on("GET", "/storages", {"storages": [{"name": "team-a", "type": "local"}]})
    platform.on("POST", "/jobs", SUBMITTED, status=202)
    platform.on("PUT", "/storages/team-a/files/.pai-code/mine.tar.gz", {"size": 1}, status=201)
    message = pai("run", "-d", "--name", "mine", "python", "train.py")
    assert message.code == 0, message.err
    spec = read_job(platform.requests[-1].content).spec
    assert spec.extras["storages"] == [{"name": "team-a"}]
    assert '"$PAI_STORAGE_TEAM_A/.pai-code/mine.tar.gz"' in spec.role("main").commands[0]


@pytest.mark.parametrize(("status", "is_removed"), [(400, True), (409, True), (503, False)])
def test_the_code_of_a_job_that_is_refused_does_not_stay(pai, platform, project, status, is_removed):
    platform.on("GET", "/cluster/sku-types", SHARES)
    platform.on("PUT", "/storages/s/files/.pai-code/mine.tar.gz", {"size": 1}, status=201)
    platform.on("DELETE", "/storages/s/files/.pai-code/mine.tar.gz", {})
    platform.on("POST", "/jobs", {"code": "ConflictJobError", "message": "no"}, status=status)
    message = pai("run", "--storage", "s", "--name", "mine", "python", "train.py")
    assert message.code != 0
    assert (("DELETE", "/api/v2/storages/s/files/.pai-code/mine.tar.gz") in platform.asked) is is_removed


def test_the_next_steps_are_said_once(pai, platform, project):
    platform.on("GET", "/cluster/sku-types", SHARES)
    platform.on("POST", "/jobs", SUBMITTED, status=202)
    over = {"name": "x", "jobStatus": {"username": "ann", "state": "SUCCEEDED", "appExitCode": 0}, "taskRoles": {}}
    platform.on("GET", "/jobs/ann~x", over)
    message = pai("run", "python", "train.py")
    assert message.out.count("next:") == 1, message.out
    assert "pai job fetch x" in message.out


def test_in_place_is_for_a_server_on_this_machine(tmp_path):
    assert run_code.in_place("http://localhost:9", tmp_path).commands[0].startswith(f"cd {tmp_path} || ")
    with pytest.raises(Refused, match="not on this machine"):
        run_code.in_place("https://pai.example.org", tmp_path)


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (("--no-code", "--in-place", "x"), "give one of"),
        (("--memory", "lots", "x"), "not an amount of memory"),
        (("--dir", "/nowhere", "x"), "cannot read /nowhere"),
        ((), "COMMAND"),
    ],
)
def test_a_wrong_use_is_refused(pai, platform, project, words, output):
    message = pai("run", *words)
    assert message.code == 2
    assert output in message.err


@pytest.mark.parametrize(("given", "mb"), [("8G", 8192), ("512", 512), ("1tb", 1 << 20), ("64MiB", 64)])
def test_memory_is_read_in_any_usual_spelling(given, mb):
    assert run_defaults.megabytes(given) == mb


def test_shares_that_are_not_configured_are_guessed(pai, platform, project):
    message = pai("run", "--gpus", "1", "--no-code", "--print", "nvidia-smi")
    need = yaml.safe_load(message.out)["taskRoles"]["main"]["resourcePerInstance"]
    assert need == {"cpu": 4, "memoryMB": 8192, "gpu": 1}
