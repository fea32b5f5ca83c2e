"""`pai up --backend docker`: a job in a container, its log and exit code, also when the server is killed meanwhile."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.containers import Containers, docker_platform
from tests.e2e.server import WITHIN_S, Person, Server, job_text, logged_in, until
from tests.fork_server import PAI
from tests.integration.docker_engine import IMAGE, engine, remove_image, root_files
from tests.integration.docker_registry import serving

pytestmark = pytest.mark.slow
UNTIL_RESUMED = "while [ ! -e /usr/local/pai/resume ]; do sleep 0.05; done"


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[tuple[Server, Containers]]:
    with docker_platform(tmp_path / "platform") as running:
        yield running


@pytest.fixture
def server(platform: tuple[Server, Containers]) -> Server:
    return platform[0]


@pytest.fixture
def containers(platform: tuple[Server, Containers]) -> Containers:
    return platform[1]


@pytest.fixture
def pai(server: Server, tmp_path: Path) -> Person:
    return logged_in(tmp_path / "home", server.url)


def job_file(directory: Path, name: str, *commands: str, image: str = IMAGE) -> str:
    """Write a job of one task in a container, of the small image unless another is named."""
    path = directory / f"{name}.yaml"
    path.write_text(job_text(name, *commands, image=image))
    return str(path)


def read_until(process: subprocess.Popen[str], expected: str) -> None:
    """Read what a command says up to the line `expected`."""
    assert process.stdout is not None
    for line in process.stdout:
        if line == f"{expected}\n":
            return
    pytest.fail(f"{expected!r} was never said: {process.communicate()}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only a server that is root keeps what containers leave")
def test_what_a_container_left_is_shown_and_fetched(pai: Person, containers: Containers, tmp_path: Path) -> None:
    writes = 'mkdir "$PAI_WORK_DIR/out"; echo weights >"$PAI_WORK_DIR/out/model"'
    assert pai("job", "submit", job_file(tmp_path, "leaves", writes)).code == 0
    assert pai("job", "wait", "leaves").code == 0
    assert "they can be fetched" in pai("job", "logs", "leaves", "--stream", "runtime").out
    # It is kept once the container is gone, and no event says when.
    until(lambda: bool(list(containers.tasks.glob(".kept/*"))), "it is kept")
    assert "pai job fetch leaves" in pai("job", "show", "leaves").out
    assert pai("job", "fetch", "leaves", "--to", str(tmp_path / "got")).code == 0
    assert [path.read_text() for path in (tmp_path / "got").rglob("model")] == ["weights\n"]


def test_a_job_runs_in_a_container_of_its_image_and_leaves_only_its_log(
    pai: Person, containers: Containers, tmp_path: Path
) -> None:
    assert pai("job", "submit", job_file(tmp_path, "hello", "ls /bin", "echo hello", UNTIL_RESUMED)).code == 0
    following = pai.begin("job", "logs", "hello", "-f")
    read_until(following, "hello")
    (container,) = containers.there()
    containers.resume()
    assert pai("job", "wait", "hello").code == 0
    assert following.wait(WITHIN_S) == 0
    containers.wait(container, "removed")
    assert containers.there() == []
    programs = sorted(Path(target).name for target, _ in root_files() if target.startswith("/bin/"))
    assert pai("job", "logs", "hello").out.splitlines() == [*programs, "hello"], "what the image has, not this machine"


def test_a_command_in_a_container_reads_the_end_of_its_input(
    pai: Person, containers: Containers, tmp_path: Path
) -> None:
    assert pai("job", "submit", job_file(tmp_path, "reads", "echo ready", UNTIL_RESUMED)).code == 0
    following = pai.begin("job", "logs", "reads", "-f")
    read_until(following, "ready")
    command = [*PAI, "job", "exec", "-i", "reads", "--", "cat"]
    sent = bytes(range(256)) * 4096
    # The server runs on uvloop, and the tests of the backend do not.
    run = subprocess.run(command, input=sent, env=dict(pai.environment), capture_output=True, timeout=WITHIN_S)
    assert (run.returncode, run.stdout == sent) == (0, True), run.stderr
    containers.resume()
    assert pai("job", "wait", "reads").code == 0
    assert following.wait(WITHIN_S) == 0


def test_a_job_says_that_its_image_is_being_pulled(pai: Person, tmp_path: Path) -> None:
    with serving() as registry:
        registry.may_answer.clear()
        assert pai("job", "submit", job_file(tmp_path, "patient", "exit 0", image=registry.image)).code == 0
        assert registry.was_asked.wait(60)
        message = f"1 of its tasks is being started on {socket.gethostname()}-0: pulling image {registry.image}"
        (wait,) = pai("job", "why", "patient", "--json").json()["waits"]
        assert (wait["code"], wait["message"]) == ("STARTING", message)
        registry.may_answer.set()
        assert pai("job", "wait", "patient").code == 0
        remove_image(engine()[0], registry.image)
    assert "is not waiting" in pai("job", "why", "patient").out


# That an end while no server looks is found is also a test of the contract, on every backend.
@pytest.mark.parametrize(
    "ends", [pytest.param("while the server is dead", marks=pytest.mark.full), "after the server is back"]
)
def test_a_killed_server_comes_back_to_its_container(
    ends: str, server: Server, pai: Person, containers: Containers, tmp_path: Path
) -> None:
    assert (
        pai("job", "submit", job_file(tmp_path, "survivor", "echo begun", UNTIL_RESUMED, "echo resumed", "exit 7")).code
        == 0
    )
    following = pai.begin("job", "logs", "survivor", "-f")
    read_until(following, "begun")
    (container,) = containers.there()
    server.end(signal.SIGKILL)
    if ends == "while the server is dead":
        containers.resume()
        containers.wait(container, "not-running")
    again = server.again()
    try:
        if ends == "after the server is back":
            assert containers.there() == [container]
            containers.resume()
        assert pai("job", "wait", "survivor").code == 1
        assert following.communicate(timeout=WITHIN_S)[0] == "resumed\n"
        assert pai("job", "logs", "survivor").out == "begun\nresumed\n"
        job = pai("job", "show", "survivor", "--json").json()
        (task,) = job["taskRoles"]["worker"]["taskStatuses"]
        assert (job["jobStatus"]["state"], task["containerExitCode"]) == ("FAILED", 7)
        assert job["jobStatus"]["retries"] == 0
    finally:
        assert again.end() == 0


def test_events_and_the_detail_say_what_became_of_an_image(pai: Person, tmp_path: Path) -> None:
    with serving() as registry, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        away = f"127.0.0.1:{nobody.getsockname()[1]}/team/tool:1"
        registry.is_private = True
        images = {"denied": registry.image, "away": away, "wrong": registry.missing_image}
        for name, image in images.items():
            assert pai("job", "submit", job_file(tmp_path, name, "exit 0", image=image)).code == 0
        for name in ("denied", "wrong"):
            assert pai("job", "wait", name).code == 1
            why = f"image '{images[name]}' cannot be pulled"
            failed = messages_of(pai, name, "TaskFailed")
            assert any(why in message for message in failed), failed
            assert why in " ".join(pai("job", "show", name).out.split())
        for name in ("denied", "away", "wrong"):
            pulling = f"pulling image {images[name]}"
            until(lambda name=name, text=pulling: text in messages_of(pai, name, "PullingImage"), "it is pulled")  # type: ignore[misc]
        # What may work later is tried again, and each failure says why.
        until(lambda: "connection refused" in str(messages_of(pai, "away", "ImagePullFailed")), "the pull fails")
        assert pai("job", "stop", "away").code == 0
        registry.is_private = False
        assert pai("job", "submit", job_file(tmp_path, "fine", "exit 0", image=registry.image)).code == 0
        assert pai("job", "wait", "fine").code == 0
        remove_image(engine()[0], registry.image)
    message = sorted(event["reason"] for event in events_of(pai, "fine") if "Image" in event["reason"])
    assert message == ["ImagePulled", "PullingImage"]


def events_of(pai: Person, name: str) -> list[dict[str, str]]:
    return list(pai("job", "events", name, "--json").json()["data"])


def messages_of(pai: Person, name: str, reason: str) -> list[str]:
    return [event["message"] for event in events_of(pai, name) if event["reason"] == reason]
