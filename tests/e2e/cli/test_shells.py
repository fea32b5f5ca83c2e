"""`pai job exec`, `ssh`, `cp` and `forward` with a real server, real tasks and a real terminal."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import select
import socket
import struct
import subprocess
import sys
import tarfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from openpai.client import task_files
from tests.e2e.server import Person, Server, until
from tests.fork_server import PAI


@pytest.fixture(scope="module")
def job(server: Server) -> Iterator[str]:
    """Return a job whose only task waits."""
    assert server.submit("shells", "echo ready; sleep 1000").status_code == 202
    until(lambda: server.state("shells") == "RUNNING", "it runs")
    yield "shells"
    server.http.put("/jobs/admin~shells/executionType", json={"value": "STOP"})


def _exec(pai: Person, job: str, *words: str) -> tuple[int, str, str]:
    printed = pai("job", "exec", job, "--", *words)
    return printed.code, printed.out, printed.err


def test_a_command_has_its_output_and_its_exit_code(pai: Person, job: str) -> None:
    assert _exec(pai, job, "sh", "-c", "echo out; echo err >&2; exit 7") == (7, "out\n", "err\n")
    code, out, _ = _exec(pai, job, "sh", "-c", 'cd "$PAI_WORK_DIR" && pwd -P && echo "$PAI_JOB_NAME"')
    assert code == 0
    assert out.splitlines()[0].endswith("/work")
    assert _exec(pai, job, "no-such-program")[0] == 127


def test_wrong_tasks_and_jobs_are_named(pai: Person, server: Server, job: str) -> None:
    code, _, err = _exec(pai, "no-such-job", "true")
    assert (code, "no-such-job" in err) == (3, True)
    printed = pai("job", "exec", job, "--task", "worker/9", "--", "true")
    assert printed.code == 3
    server.submit("shells-over", "true")
    server.ended("shells-over")
    code, _, err = _exec(pai, "shells-over", "true")
    assert (code, "does not run" in err) == (7, True)
    forwarded = pai("job", "forward", "shells-over", "0:8000")
    assert (forwarded.code, forwarded.out, "does not run" in forwarded.err) == (7, "", True)
    assert "without completing handshake" not in server.log()


def test_standard_input_passes_through(pai: Person, job: str) -> None:
    sent = os.urandom(3 << 20)
    run = subprocess.run(
        [*PAI, "job", "exec", "-i", job, "--", "cat"], input=sent, env=dict(pai.environment), capture_output=True
    )
    assert (run.returncode, run.stdout == sent) == (0, True), run.stderr


class _Terminal:
    """`pai` on a terminal of its own."""

    def __init__(self, pai: Person, *arguments: str) -> None:
        self.master, slave = pty.openpty()
        self.before = termios.tcgetattr(slave)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 31, 97, 0, 0))
        self.slave = slave
        self.process = subprocess.Popen(
            [*PAI, *arguments],
            env={**pai.environment, "TERM": "xterm"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        self.printed = b""

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def until(self, text: str) -> None:
        deadline = time.monotonic() + 90
        while text.encode() not in self.printed:
            assert time.monotonic() < deadline, self.printed
            if select.select([self.master], [], [], 1.0)[0]:
                self.printed += os.read(self.master, 65536)

    def end(self) -> int:
        code = self.process.wait(90)
        assert termios.tcgetattr(self.slave)[:4] == self.before[:4], "the terminal was not restored"
        os.close(self.master)
        os.close(self.slave)
        return code


@pytest.mark.full
def test_a_terminal_is_raw_while_a_shell_runs_and_restored_after_it(pai: Person, job: str) -> None:
    terminal = _Terminal(pai, "job", "ssh", job)
    terminal.type("stty size; echo $TERM\r")
    terminal.until("31 97")
    terminal.until("xterm")
    fcntl.ioctl(terminal.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 60, 0, 0))
    terminal.process.send_signal(28)
    terminal.type("sleep 0.3; stty size\r")
    terminal.until("20 60")
    terminal.type("exit 5\r")
    assert terminal.end() == 5


@pytest.mark.full
def test_a_terminal_is_restored_when_its_program_is_ended_or_its_session_closed(pai: Person, job: str) -> None:
    terminal = _Terminal(pai, "job", "exec", "-it", job)
    terminal.type("echo up$((1+1))\r")
    terminal.until("up2")
    terminal.process.terminate()
    assert terminal.end() == 143
    terminal = _Terminal(pai, "job", "exec", "-it", job)
    terminal.type("echo up$((1+1))\r")
    terminal.until("up2")
    terminal.type("\r~.")
    assert terminal.end() == 255


def test_files_are_copied_in_both_directions(pai: Person, job: str, tmp_path: Path) -> None:
    source = tmp_path / "code"
    (source / "deep" / "deeper").mkdir(parents=True)
    (source / "deep" / "deeper" / "a file").write_bytes(b"x" * 100_000)
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o755)
    (source / "in").symlink_to("deep/deeper")
    (source / "out").symlink_to("/etc/passwd")
    os.mkfifo(source / "pipe")
    sent = pai("job", "cp", str(source), f"{job}:copy", "--json")
    assert sent.code == 0, sent.err
    assert (sent.json()["files"], len(sent.json()["skipped"])) == (2, 2)
    back = pai("job", "cp", f"{job}:copy", str(tmp_path / "back"), "--json")
    assert back.code == 0, back.err
    assert (tmp_path / "back" / "deep" / "deeper" / "a file").read_bytes() == b"x" * 100_000
    assert (tmp_path / "back" / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "back" / "in").readlink() == Path("deep/deeper")
    assert pai("job", "cp", str(source / "run.sh"), f"{job}:copy/deep").code == 0
    assert pai("job", "cp", f"{job}:copy/deep/run.sh", str(tmp_path)).code == 0
    assert (tmp_path / "run.sh").read_text() == "#!/bin/sh\n"
    missing = pai("job", "cp", f"{job}:no/such", str(tmp_path))
    assert (missing.code, "has no no/such" in missing.err) == (3, True)


def test_an_archive_that_a_task_made_up_writes_nothing_outside(pai: Person, job: str, tmp_path: Path) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, link in (("../evil", ""), ("/tmp/pai-evil", ""), ("link", ".."), ("link/evil", ""), ("fine", "")):
            member = tarfile.TarInfo(name)
            if link:
                member.type, member.linkname = tarfile.SYMTYPE, link
                archive.addfile(member)
            else:
                member.size = 4
                archive.addfile(member, io.BytesIO(b"evil"))
    (tmp_path / "made.tar").write_bytes(made.getvalue())
    (tmp_path / "tar").write_text('#!/bin/sh\nexec cat "${0%/*}/made.tar"\n')
    (tmp_path / "tar").chmod(0o755)
    for name in ("made.tar", "tar"):
        assert pai("job", "cp", str(tmp_path / name), f"{job}:{name}").code == 0

    goal = tmp_path / "goal" / "below"
    goal.mkdir(parents=True)
    send = task_files._SEND.replace("exec tar", "exec ./tar")
    with patch.object(task_files, "_SEND", send):
        printed = pai("job", "cp", f"{job}:.", str(goal), "--json")
    assert printed.code == 0, printed.err
    assert len(printed.json()["skipped"]) == 3
    assert not (tmp_path / "goal" / "evil").exists()
    assert not Path("/tmp/pai-evil").exists()
    assert (goal / "fine").read_bytes() == b"evil"


def test_a_port_of_a_task_is_reached(pai: Person, server: Server, job: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve = (
        f"import socket; s=socket.create_server(('127.0.0.1', {port})); print('up', flush=True)\n"
        "while True:\n c,_=s.accept()\n while d:=c.recv(65536): c.sendall(d.upper())\n c.close()"
    )
    served = pai.begin("job", "exec", job, "--", sys.executable, "-c", serve)
    forwarded = None
    try:
        assert served.stdout is not None
        assert served.stdout.readline() == "up\n"
        forwarded = pai.begin("job", "forward", job, f"0:{port}")
        assert forwarded.stdout is not None
        local = int(forwarded.stdout.readline().split()[1].rpartition(":")[2])
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", local), timeout=60) as asked:
                asked.sendall(b"hello" * 50_000)
                found = b""
                while len(found) < 250_000:
                    found += asked.recv(65536)
                assert found == b"HELLO" * 50_000
    finally:
        for process in filter(None, (served, forwarded)):
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)


def test_sessions_are_in_the_audit_log(pai: Person, server: Server, job: str) -> None:
    assert _exec(pai, job, "sh", "-c", "exit 9")[0] == 9

    def entries() -> list[Any]:
        return list(server.get("/audit?action=job.exec")["entries"])

    def ended() -> list[Any]:
        return [entry for entry in entries() if entry["detail"].get("exitCode") == 9]

    until(lambda: bool(ended()), "the end is in the audit log")
    (end,) = ended()
    session = end["detail"]["session"]
    (start,) = [e for e in entries() if e["detail"].get("session") == session and e["detail"]["event"] == "start"]
    assert start["target"] == "admin~shells"
    assert (start["actor"], start["detail"]["task"]) == ("admin", "worker-0")
    assert start["detail"]["command"] == "sh -c exit 9"
