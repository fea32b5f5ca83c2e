"""`make demo`, with and without a terminal: it shows the accuracy, ends well, and leaves no process behind."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from tests.e2e.server import job_text

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[3]
COMMAND = [sys.executable, str(ROOT / "examples" / "demo.py"), "--port"]
# The demo with another job, which a test can wait for at no cost.
WITH_JOB = """
import sys
from pathlib import Path
import demo
demo.JOB_FILE = Path(sys.argv.pop())
sys.exit(demo.main())
"""


@pytest.fixture(autouse=True)
def _has_the_command() -> None:
    if not Path(sys.executable).with_name("pai").exists():
        pytest.skip("the command pai is not installed beside this Python")


def run(port: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, str(port)], capture_output=True, text=True, timeout=150, check=False, cwd=ROOT)


class Impatient(io.StringIO):
    """A screen of a person who presses Ctrl-C as soon as it offers that."""

    def write(self, text: str) -> int:
        """Take text, and press Ctrl-C, once, if it invites to."""
        is_first = "Ctrl-C" not in self.getvalue()
        count = super().write(text)
        if "Ctrl-C" in text and is_first:
            signal.raise_signal(signal.SIGINT)
        return count


def test_ctrl_c_in_the_moment_it_is_offered_is_no_interruption(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("demo", ROOT / "examples" / "demo.py")
    assert spec is not None
    assert spec.loader is not None
    demo = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "demo", demo)
    spec.loader.exec_module(demo)
    monkeypatch.setattr(demo, "console", Console(file=Impatient()))
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            demo.stay(demo.Platform(process, "http://pai.test", tmp_path))
        finally:
            process.kill()


def left_behind(output: str) -> list[str]:
    """Return the command lines of processes that belong to the demo which printed `output`."""
    directory = re.search(r"\.demo/run-\w+", output)
    assert directory is not None, output
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            message = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            where = os.readlink(process / "cwd")  # noqa: PTH115
        except OSError:
            continue
        if directory[0] in message.decode(errors="replace") or directory[0] in where:
            found.append(process.name)
    return found


def test_without_a_terminal_it_ends_after_the_job():
    message = run(0)
    assert message.returncode == 0, message.stdout + message.stderr
    accuracy = re.search(r"^accuracy=(0\.\d+)$", message.stdout, re.MULTILINE)
    assert accuracy is not None
    assert float(accuracy[1]) > 0.93
    for expected in ("start the platform", "train", "Logs of every task", "http://127.0.0.1:"):
        assert expected in message.stdout
    assert left_behind(message.stdout) == []


def test_a_port_that_is_taken_is_reported_and_fails():
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        message = run(stranger.getsockname()[1])
    assert message.returncode == 1
    assert "another program listens there" in message.stdout
    assert "Traceback" not in message.stdout + message.stderr


@pytest.fixture
def job_file(tmp_path: Path) -> Callable[[str], Path]:
    """Return a maker of files of a job with the demo's task roles, whose tasks run one command."""

    def write(command: str) -> Path:
        names = {"worker": 3, "ps": 1}
        job = json.loads(job_text("distributed-training", command))
        job["taskRoles"] = {name: job["taskRoles"]["worker"] | {"instances": count} for name, count in names.items()}
        path = tmp_path / "job.yaml"
        path.write_text(json.dumps(job))
        return path

    return write


def on_a_terminal(job_file: Path, until: str, how: signal.Signals) -> tuple[int, str]:
    """Run the demo with a job on a terminal, send a signal once it has printed `until`, and return how it ended."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", WITH_JOB, "--port", "0", str(job_file)]
    paths = os.environ | {"PYTHONPATH": str(ROOT / "examples")}
    demo = subprocess.Popen(command, env=paths, stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT)
    os.close(theirs)
    watchdog = threading.Timer(150, demo.kill)
    watchdog.start()
    shown, is_sent = "", False
    try:
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:
                break
            if not piece:
                break
            shown += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", piece.decode(errors="replace"))
            if until in shown and not is_sent:
                is_sent = True
                demo.send_signal(how)
        return demo.wait(60), shown
    finally:
        watchdog.cancel()
        os.close(ours)


@pytest.mark.full
def test_on_a_terminal_it_stays_until_ctrl_c_and_leaves_nothing(job_file):
    code, shown = on_a_terminal(job_file("echo accuracy=0.9125"), "The platform stays up", signal.SIGINT)
    assert code == 0, shown
    assert "accuracy=0.9125" in shown
    assert "nothing is left running" in shown
    assert left_behind(shown) == []


@pytest.mark.full
@pytest.mark.parametrize(
    "how",
    [
        pytest.param(signal.SIGINT, id="ctrl-c"),
        pytest.param(signal.SIGTERM, id="sigterm"),
    ],
)
def test_interrupted_in_the_middle_it_ends_the_job_too(how, job_file):
    code, shown = on_a_terminal(job_file("echo epoch=1; sleep 1000"), "epoch=", how)
    assert code == 130, shown
    assert left_behind(shown) == []
