"""Jobs with runtime plugins, run to their end on a real platform: those of openpai-runtime's tests, and one of ours.

Programs that no test machine has (a trainer) or may reach (a download) are small stand-ins that come first in PATH.
"""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .server import PROGRAMS, Server, until

pytestmark = pytest.mark.full
SAMPLES = Path(__file__).parents[3] / "shared" / "samples" / "jobs"
FILES = sorted(SAMPLES.glob("runtime-*.yaml"))
LOG = "/attempts/0/taskRoles/{role}/taskIndex/0/attempts/0/logs/{stream}"


def program(directory: Path, name: str, text: str) -> None:
    (directory / name).write_text(f"#!/bin/sh\n{text}\n")
    (directory / name).chmod(0o755)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("plugins")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("cifar-10-batches-py/batch"))
    (root / "cifar.tar.gz").write_bytes(packed.getvalue())
    programs = root / "bin"
    programs.mkdir()
    program(programs, "wget", f"cat {root}/cifar.tar.gz")
    program(programs, "ssh", 'for word; do last=$word; done\n[ "$last" = true ]')
    program(programs, "horovodrun", 'ssh worker-0 true && echo "trained with $*"')
    path = f"{programs}:{PROGRAMS}"
    server = Server.start(root, 0, "--gpus-per-node", "4", "--cpus-per-node", "32", path=Path(path))
    yield server
    server.end()


def log_of(server: Server, name: str, stream: str = "stdout", role: str = "worker") -> str:
    answer = server.http.get(f"/jobs/admin~{name}{LOG.format(role=role, stream=stream)}")
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.mark.skipif(not FILES, reason=f"no sample job files in {SAMPLES.parent.name}/ beside the checkout")
def test_the_jobs_of_openpai_runtimes_own_tests_run_to_their_end(server: Server) -> None:
    for file in FILES:
        answer = server.http.post("/jobs", content=file.read_bytes())
        assert answer.status_code == 202, (file.name, answer.text)
    for name in ("cmd_test_job", "cmd_with_callbacks_test_job", "cmd_with_prerequisites_test_job"):
        assert server.ended(name) == "SUCCEEDED", log_of(server, name, "stderr")
        lines = log_of(server, name).splitlines()
        assert [line for line in lines if line.endswith("start ...")] == [
            "PreCommands start ...", "Commands start ...", "PostCommands start ...",
        ], (lines, log_of(server, name, "stderr"), log_of(server, name, "runtime"))  # fmt: skip
    assert server.ended("sshbarrier_test_job") == "SUCCEEDED", log_of(server, "sshbarrier_test_job", "stderr", "master")
    assert "trained with -np 4 -H master-0:2,worker-0:2" in log_of(server, "sshbarrier_test_job", role="master")
    assert "all tasks of the job can be reached" in log_of(server, "sshbarrier_test_job", "stderr", "master")
    # These two sleep for hours.
    for name in ("ssh_test_job", "ubuntu"):
        until(lambda name=name: server.state(name) == "RUNNING", f"{name} runs")  # type: ignore[misc]
    until(lambda: "ssh:" in log_of(server, "ssh_test_job", "stderr"), "the plugin ssh has run")
    for name in ("ssh_test_job", "ubuntu"):
        server.http.put(f"/jobs/admin~{name}/executionType", json={"value": "STOP"})
        assert server.ended(name) == "STOPPED"


JOB = """
protocolVersion: 2
name: whole
type: job
prerequisites:
  - {{type: dockerimage, name: image, uri: busybox}}
  - {{type: data, name: digits, uri: [one, two]}}
secrets: {{token: hunter2-of-ann}}
taskRoles:
  first:
    dockerImage: image
    data: digits
    completion: {{minSucceededInstances: -1}}
    resourcePerInstance: {{cpu: 1, memoryMB: 64, gpu: 0}}
    commands: [cat code/data.txt, 'ssh first-0 true && echo reached', exit {code}]
extras:
  com.microsoft.pai.runtimeplugin:
    - plugin: git
      parameters: {{repo_uri: {repository}, ref: v1, username: ann, password: <% $secrets.token %>}}
    - {{plugin: ssh, parameters: {{jobssh: true}}}}
    - plugin: cmd
      parameters:
        preCommands: ['echo before <% $data.uri[1] %>']
        postCommands: ['echo after $PAI_TASK_EXIT_CODE']
        callbacks: [{{event: taskSucceeds, commands: [echo well]}}]
    - {{plugin: cmd, failurePolicy: ignore, parameters: {{preCommands: [exit 9], postCommands: [exit 8]}}}}
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    import subprocess

    if not shutil.which("git"):
        pytest.skip("this machine has no git")
    root = tmp_path / "repository"
    root.mkdir()
    (root / "data.txt").write_text("of the first version\n")
    who = ("-c", "user.name=ann", "-c", "user.email=ann@example.com")
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "one"], ["tag", "v1"]):
        subprocess.run(["git", "-C", str(root), *words], check=True)
    (root / "data.txt").write_text("of the second version\n")
    subprocess.run(["git", "-C", str(root), *who, "commit", "-qam", "two"], check=True)
    return root


def test_plugins_of_several_kinds_work_together(server: Server, repository: Path) -> None:
    good, bad = (JOB.format(code=code, repository=repository) for code in (0, 3))
    assert server.http.post("/jobs", content=good).status_code == 202
    assert server.http.post("/jobs", content=bad.replace("name: whole", "name: broken")).status_code == 202
    assert (server.ended("whole"), server.ended("broken")) == ("SUCCEEDED", "FAILED")
    lines = [line for line in log_of(server, "whole", role="first").splitlines() if not line.startswith("[openpai")]
    assert lines == ["before two", "of the first version", "reached", "well", "after 0"]
    assert log_of(server, "broken", role="first").splitlines()[-1] == "after 3"
    status = server.get("/jobs/admin~broken")["taskRoles"]["first"]["taskStatuses"][0]
    assert status["containerExitCode"] == 3


def test_a_repository_that_does_not_exist_fails_the_task_with_its_address(server: Server) -> None:
    text = JOB.format(code=0, repository="/no/such/repository").replace("name: whole", "name: lost")
    assert server.http.post("/jobs", content=text).status_code == 202
    assert server.ended("lost") == "FAILED"
    assert "/no/such/repository cannot be read" in log_of(server, "lost", "stderr", "first")


def test_an_unknown_plugin_is_refused(server: Server) -> None:
    text = JOB.format(code=0, repository="x").replace("plugin: ssh", "plugin: sssh")
    answer = server.http.post("/jobs", content=text)
    assert answer.status_code == 400
    assert "there is no runtime plugin called 'sssh'" in answer.text
    assert "did you mean 'ssh'" in answer.text
