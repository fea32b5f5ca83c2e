"""VS Code's Remote-SSH in tasks whose image has no SSH server."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.containers import docker_platform
from tests.e2e.editors import installed
from tests.e2e.editors.remote_ssh import EXTENSION_HOST, MANAGEMENT, Host, Window
from tests.e2e.server import Server, job_text, until
from tests.integration.docker_engine import build, engine, root_files

pytestmark = pytest.mark.skipif(shutil.which("ssh") is None, reason="OpenSSH's client is not installed")
NEED = {"cpu": 1, "memoryMB": 2048, "gpu": 0}
IMAGE = "openpai-test-editors:1"
PROGRAMS = ("bash", "chmod", "dd", "dirname", "head", "mv", "nohup", "readlink", "rm", "sed", "stat", "tail", "uname")


@contextlib.contextmanager
def host_of(server: Server, place: Path, image: str) -> Iterator[Host]:
    """Yield the entry for `~/.ssh/config` of a running task."""
    text = job_text("code", "echo ready; sleep infinity", image=image, role={"resourcePerInstance": NEED})
    assert server.http.post("/jobs", content=text).status_code == 202
    try:
        until(lambda: server.state("code") == "RUNNING", "the task runs")
        key, known, config = place / "key", place / "known", place / "config"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        added = server.http.post("/users/admin/ssh-keys", json={"key": key.with_suffix(".pub").read_text().strip()})
        assert added.status_code == 201, added.text
        (task,) = server.get("/jobs/admin~code/ssh")["gateway"]
        known.write_text(f"[{task['host']}]:{task['port']} {task['hostKey']}\n")
        config.write_text(
            f"Host task\n HostName {task['host']}\n Port {task['port']}\n User {task['user']}\n IdentityFile {key}\n"
            f" IdentitiesOnly yes\n UserKnownHostsFile {known}\n StrictHostKeyChecking yes\n SendEnv LANG\n"
        )
        host = Host(config, "task")
        until(lambda: _answers(host), "the task takes commands")
        yield host
    finally:
        server.http.put("/jobs/admin~code/executionType", json={"value": "STOP"})
        server.ended("code")


def _answers(host: Host) -> bool:
    command = ["ssh", "-F", str(host.config), host.name, "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def bring(host: Host, archive: Path) -> None:
    """Copy a server into the task, and unpack it."""
    host.send(archive, "server.tar")
    host.run("mkdir -p server && tar xf server.tar -C server && rm server.tar")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Return a task on this machine."""
    place = tmp_path_factory.mktemp("editors")
    server = Server.start(place / "platform", 0, "--ssh-port", "0")
    try:
        with host_of(server, place, "busybox") as found:
            yield found
    finally:
        server.end()


def try_sessions(host: Host, kinds: tuple[int, ...]) -> None:
    """Open a window, lose it, and open another one that finds the server again."""
    with Window(host, "server") as window:
        version = window.version()
        for kind in kinds:
            with window.session(kind, version, language="en"), window.session(MANAGEMENT, version) as second:
                assert second.answer["type"] == "ok"
        with pytest.raises(ConnectionRefusedError):
            window.connect(host="192.0.2.1")
        token, window.token = window.token, "wrong"
        with pytest.raises(AssertionError, match="error"), window.session(MANAGEMENT, version):
            pass
        assert window.ssh.poll() is None
        window.lose()
    # The laptop is back: the server and what it runs are still there.
    with Window(host, "server") as again:
        assert (again.pid, again.port, again.token) == (window.pid, window.port, token)
        with again.session(MANAGEMENT, version) as session:
            assert session.answer["type"] == "ok"
        assert host.run("bash -s", stdin=b"echo $((40 + 2))") == "42\n"


def test_an_editor_starts_its_server_and_has_its_sessions(host: Host, tmp_path: Path) -> None:
    bring(host, installed.stand_in(tmp_path / "server.tar"))
    try_sessions(host, (MANAGEMENT,))


@pytest.mark.slow
def test_the_server_of_vs_code_is_reached(host: Host, tmp_path: Path) -> None:
    archive = installed.real_server(tmp_path / "server.tar")
    host.run("rm -rf server")
    bring(host, archive)
    try_sessions(host, (MANAGEMENT, EXTENSION_HOST))


@pytest.mark.slow
def test_the_server_of_vs_code_is_reached_in_a_container(tmp_path: Path) -> None:
    archive = installed.real_server(tmp_path / "server.tar")
    with docker_platform(tmp_path / "platform", "--ssh-port", "0") as (server, _):
        libraries = ((to, where) for to, where in root_files(*PROGRAMS, "node") if to != "/bin/node")
        build(engine()[0], IMAGE, "FROM scratch", "COPY root /", files=libraries)
        with host_of(server, tmp_path, IMAGE) as found:
            assert not found.run("command -v sshd || true")
            bring(found, archive)
            try_sessions(found, (MANAGEMENT, EXTENSION_HOST))
