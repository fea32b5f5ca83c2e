"""`make demo`: start a platform, train a network on it with a parameter server and three workers, show everything.

Everything lives in a new directory under `.demo/`. On a terminal the platform stays up afterwards until Ctrl-C;
without one it ends after the job. Either way no process is left behind.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from openpai.cli.formatting import span
from openpai.cli.job_tables import diagnosis
from openpai.cli.job_watch import watch
from openpai.client import Client, JobDetail
from openpai.protocol.errors import PaiError

ROOT = Path(__file__).resolve().parent.parent
JOB_FILE = ROOT / "examples" / "04-distributed-training.yaml"
READY_WITHIN_S = 60
STOP_WITHIN_S = 20
ACCURACY_MIN = 0.9

console = Console(highlight=False)


class DemoFailed(Exception):
    """Something of the demo went wrong; the text says what."""


@dataclass
class Steps:
    """What was done and how long each took."""

    took: list[tuple[str, float]] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.took.append((name, time.monotonic() - began))

    def table(self) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("STEP")
        table.add_column("TOOK", justify="right")
        for name, seconds in [*self.took, ("together", sum(seconds for _, seconds in self.took))]:
            table.add_row(name, f"{seconds:.2f}s" if seconds < 10 else span(seconds))
        return table


@dataclass
class Platform:
    """A running server of ours."""

    process: subprocess.Popen[bytes]
    url: str
    directory: Path

    @property
    def data_dir(self) -> Path:
        """Return where it keeps everything."""
        return self.directory / "data"

    @property
    def password_file(self) -> Path:
        """Return where the administrator's password is."""
        return self.directory / "admin-password"

    def stop(self) -> None:
        """End the server; its tasks have ended before."""
        # A second Ctrl-C must not leave the platform behind; the wait is short and has an end.
        for impatience in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(impatience, signal.SIG_IGN)
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise DemoFailed(f"the platform did not end within {STOP_WITHIN_S} s and was killed") from None


def new_directory() -> Path:
    """Return a new directory under .demo/, and remove those of demos that are over."""
    home = ROOT / ".demo"
    home.mkdir(exist_ok=True)
    for old in home.glob("run-*"):
        if not is_in_use(old):
            shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix="run-", dir=home))


def is_in_use(directory: Path) -> bool:
    """Return whether the demo that made a directory is still running."""
    try:
        os.kill(int((directory / "demo.pid").read_text()), 0)
    except (OSError, ValueError):
        return False
    return True


def start_platform(port: int, directory: Path, password: str) -> Platform:
    """Start a server on a new data directory and return once it answers."""
    ready = directory / "ready.json"
    log = directory / "server.log"
    command = [str(Path(sys.executable).with_name("pai")), "up", "--data-dir", str(directory / "data")]
    command += ["--port", str(port), "--ready-file", str(ready)]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    environment = os.environ | {"PAI_ADMIN_PASSWORD": password, "PATH": path}
    with log.open("wb") as output:
        # A session of its own: Ctrl-C is for us, and we end the platform in good order.
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
    try:
        wait_until_ready(process, ready, log)
    except BaseException:
        process.kill()
        process.wait()
        raise
    return Platform(process, json.loads(ready.read_text())["url"], directory)


def wait_until_ready(process: subprocess.Popen[bytes], ready: Path, log: Path) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while not ready.exists():
        if process.poll() is not None:
            raise DemoFailed(f"the platform ended at once:\n{tail(log)}")
        if time.monotonic() > deadline:
            raise DemoFailed(f"the platform was not ready after {READY_WITHIN_S} s:\n{tail(log)}")
        time.sleep(0.02)


def tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])


def train(pai: Client, steps: Steps) -> tuple[JobDetail, float]:
    """Run the training job, show it while it runs, and return it with the accuracy it reached."""
    with steps.step("submit the job"):
        name = pai.submit(JOB_FILE.read_bytes()).full_name
    console.print(f"Submitted [bold]{name}[/] ({os.path.relpath(JOB_FILE, ROOT)}): 1 parameter server, 3 workers.\n")
    try:
        job = watch(pai, name, console)
    except BaseException:
        end_job(pai, name)
        raise
    if job.submitted_at_ms and job.started_at_ms and job.ended_at_ms:
        steps.took.append(("place and start 4 tasks", (job.started_at_ms - job.submitted_at_ms) / 1000))
        steps.took.append(("train", (job.ended_at_ms - job.started_at_ms) / 1000))
    if job.state != "SUCCEEDED":
        console.print(diagnosis(job))
        raise DemoFailed(f"the job {job.state.lower()} instead of succeeding")
    return job, accuracy_of(pai, job)


def accuracy_of(pai: Client, job: JobDetail) -> float:
    """Return the accuracy that the parameter server printed in the last line of its log."""
    server = job.task("ps", 0)
    if server is None or server.attempt is None or job.attempt is None:
        raise DemoFailed("the job has no parameter server")
    text = pai.logs(job.full_name, "ps", 0, attempt=server.attempt, job_attempt=job.attempt).text("stdout")
    message = re.search(r"^accuracy=([\d.]+)\s*\Z", text, re.MULTILINE)
    if message is None:
        raise DemoFailed(f"the parameter server printed no accuracy; its log ends with:\n{text[-500:]}")
    return float(message[1])


def end_job(pai: Client, name: str) -> None:
    """Let no task outlive the demo."""
    try:
        pai.stop(name)
        pai.wait(name, 60)
    except PaiError as error:
        console.print(f"[red]could not stop {name}: {error.message}[/]")


def report(platform: Platform, job: JobDetail, accuracy: float, steps: Steps) -> None:
    """Print the result, how long each step took, and where everything is."""
    console.print(f"\n[bold green]The network reads {accuracy:.1%} of unseen handwritten digits.[/]")
    console.print(f"accuracy={accuracy:.4f}\n")
    console.print(steps.table())
    logs = platform.data_dir / "logs"
    console.print(f"\nLogs of every task   {logs if logs.is_dir() else platform.data_dir}", soft_wrap=True)
    has_portal = (ROOT / "src" / "openpai" / "portal" / "index.html").exists()
    place = f"{platform.url}/" if has_portal else "not built here; `make portal` says what is missing"
    console.print(f"The web portal       {place}", soft_wrap=True)
    console.print(f"The platform         {platform.url} (REST: {platform.url}/docs)", soft_wrap=True)
    console.print(f"User and password    admin, in {platform.password_file}", soft_wrap=True)


def stay(platform: Platform) -> None:
    """Keep the platform up until Ctrl-C, or until it ends by itself."""
    pai = Path(sys.executable).with_name("pai")
    login = f"{pai} login --url {platform.url} --user admin --password-stdin < {platform.password_file}"
    console.print(f"Try it yourself      {login}", soft_wrap=True)
    console.print(
        f"                     {pai} job submit {ROOT / 'examples' / '01-hello.yaml'} --watch\n", soft_wrap=True
    )
    try:
        # A user who reads this line may press Ctrl-C before the next one runs.
        console.print("The platform stays up; [bold]Ctrl-C[/] ends it.")
        code = platform.process.wait()
    except KeyboardInterrupt:
        console.print()
        return
    raise DemoFailed(f"the platform ended by itself with exit code {code}")


def demo(port: int, stays: bool) -> None:
    steps = Steps()
    directory = new_directory()
    (directory / "demo.pid").write_text(str(os.getpid()))
    password_file = directory / "admin-password"
    password = secrets.token_urlsafe(12)
    password_file.touch(mode=0o600)
    password_file.write_text(password + "\n")
    with steps.step("start the platform"):
        platform = start_platform(port, directory, password)
    console.print(f"The platform is up at [bold]{platform.url}[/], its data in {directory}.", soft_wrap=True)
    try:
        with Client(platform.url) as guest, steps.step("log in"):
            entry = guest.login("admin", password)
        with Client(platform.url, entry.token, user=entry.user) as pai:
            job, accuracy = train(pai, steps)
        report(platform, job, accuracy, steps)
        if accuracy < ACCURACY_MIN:
            raise DemoFailed(f"accuracy {accuracy} is below {ACCURACY_MIN}")
        if stays:
            stay(platform)
    finally:
        platform.stop()
        console.print("The platform has ended; nothing is left running.")


def interrupted(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(description="Start a platform and run a distributed training job on it.")
    parser.add_argument("--port", type=int, default=9186, help="port of the platform; 0 takes a free one")
    port = parser.parse_args().port
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, interrupted)
    try:
        demo(port, stays=sys.stdout.isatty())
    except KeyboardInterrupt:
        console.print("interrupted")
        return 130
    except DemoFailed as failure:
        console.print(f"[red]The demo failed:[/] {escape(str(failure))}", soft_wrap=True)
        return 1
    except PaiError as error:
        console.print(f"[red]The demo failed:[/] {escape(error.message)}\n{escape(error.advice)}", soft_wrap=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
