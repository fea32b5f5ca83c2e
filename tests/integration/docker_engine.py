"""An Engine for the tests: one started for as long as the tests run, or where that cannot be, the one of this machine.

A started one is in a network namespace of its own, so its bridges and filters are not this machine's and several run
side by side; everything it writes is in a temporary directory. The image it is given is made of this machine's own
shell and a few programs, so nothing is downloaded.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import http.client
import importlib.util
import io
import os
import re
import shutil
import socket
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

IMAGE = "openpai-test:1"
_PROGRAMS = ("sleep", "cat", "env", "mkdir", "ls", "id", "touch", "echo", "stty", "tar", "gzip", "find")
_START_PATIENCE_S = 90.0
_NETWORK_NAMESPACE = 0x40000000
_ours: dict[str, int] = {}
"""The process of each Engine that was started here, by its URL."""


@functools.cache
def engine(*, has_filters: bool = False) -> tuple[str, str]:
    """Return the URL of an Engine that has `IMAGE`, or an empty one and the reason why there is none.

    One with filters keeps the networks of jobs apart. It runs iptables twenty times for each network and container,
    which takes a quarter of their processor time.
    """
    if importlib.util.find_spec("aiodocker") is None:
        return "", "the docker backend needs the package 'aiodocker', which is not installed"
    # Names of containers and ports are the same in every process that tests, so each has its own Engine if it can.
    url, why_not = _started(*(() if has_filters else ("--iptables=false",)))
    url = url or _answering()
    if url:
        build(url, IMAGE, "FROM scratch", "COPY root /", files=root_files())
    return url, why_not


def another_engine(*options: str) -> tuple[str, str]:
    """Return the URL of an Engine started with these options, or an empty one and the reason why there is none."""
    return _started(*options)


def _answering() -> str:
    for url in (os.environ.get("DOCKER_HOST", ""), "unix:///var/run/docker.sock"):
        if url.startswith("unix://") and _answers(url.removeprefix("unix://")):
            return url
    return ""


def _answers(path: str) -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as asked:
        asked.settimeout(5.0)
        asked.connect(path)
        asked.sendall(b"GET /_ping HTTP/1.0\r\nHost: engine\r\n\r\n")
        return b" 200 " in asked.recv(1000)
    return False


def _started(*options: str) -> tuple[str, str]:
    """Start an Engine of our own, to be ended with this process."""
    if os.geteuid() != 0:
        return "", "no container Engine answers, and only root can start one"
    program = shutil.which("dockerd")
    if program is None:
        return "", "no container Engine answers, and there is no dockerd to start"
    message = ""
    for driver in ("overlay2", "vfs"):
        url, message = _start(program, driver, *options)
        if url:
            return url, ""
    return "", f"dockerd does not start here: {message}"


def _start(program: str, driver: str, *options: str) -> tuple[str, str]:
    home = Path(tempfile.mkdtemp(prefix="openpai-engine-"))
    path = str(home / "docker.sock")
    # If this process is killed, the Engine gets SIGTERM, too.
    leash = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
    log = (home / "log").open("wb")
    started = subprocess.Popen(
        [
            *leash,
            *("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"),
            program,
            f"--host=unix://{path}",
            f"--data-root={home / 'data'}",
            f"--exec-root={home / 'exec'}",
            f"--pidfile={home / 'pid'}",
            f"--storage-driver={driver}",
            *options,
        ],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    atexit.register(_end, started, home)
    deadline = time.monotonic() + _START_PATIENCE_S
    while time.monotonic() < deadline and started.poll() is None:
        if _answers(path):
            _ours[f"unix://{path}"] = started.pid
            return f"unix://{path}", ""
        time.sleep(0.1)
    return "", (home / "log").read_text(errors="replace").strip().rpartition("\n")[2]


def _end(started: subprocess.Popen[bytes], home: Path) -> None:
    started.terminate()
    try:
        started.wait(60.0)
    except subprocess.TimeoutExpired:
        started.kill()
        started.wait()
    # A mount that dockerd leaves behind keeps its directory from being removed.
    subprocess.run(["umount", str(home / "exec" / "netns" / "default")], check=False, capture_output=True)
    shutil.rmtree(home, ignore_errors=True)


def socket_at_engine(url: str, kind: int = socket.SOCK_STREAM) -> socket.socket:
    """Return a socket on the network of the Engine's machine, which is not this one's for an Engine we started."""
    made: list[socket.socket] = []

    def make() -> None:
        if url in _ours:
            with open(f"/proc/{_ours[url]}/ns/net") as namespace:  # noqa: PTH123  # only its number is needed
                if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _NETWORK_NAMESPACE):
                    raise OSError(ctypes.get_errno(), "the Engine's network cannot be entered")
        made.append(socket.socket(socket.AF_INET, kind))

    # A thread of its own: what enters a network cannot be relied upon to come back.
    maker = threading.Thread(target=make)
    maker.start()
    maker.join()
    return made[0]


def build(url: str, tag: str, *steps: str, files: Iterable[tuple[str, str]] = ()) -> None:
    """Make an image of `files` (where each goes, where it comes from) and further lines of a Dockerfile."""
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        recipe = "\n".join(steps).encode()
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(recipe)
        tar.addfile(entry, io.BytesIO(recipe))
        for target, source in files:
            tar.add(source, f"root{target}")
    message = ask(url, "POST", f"/build?t={tag}", context.getvalue())
    if "Successfully built" not in message:
        raise RuntimeError(f"the test image cannot be built: {message}")
    atexit.register(remove_image, url, tag)


def remove_image(url: str, tag: str) -> None:
    """Take an image away again, as far as the Engine lets us."""
    with contextlib.suppress(OSError):
        # A container of it may still be there.
        ask(url, "DELETE", f"/images/{tag}?force=1")


def ask(url: str, method: str, path: str, body: bytes | None = None) -> str:
    """Return what the Engine answers, as it says it."""
    connection = http.client.HTTPConnection("engine")
    connection.sock = socket.socket(socket.AF_UNIX)
    with contextlib.closing(connection):
        connection.sock.connect(url.removeprefix("unix://"))
        connection.request(method, path, body, {"Content-Type": "application/x-tar"} if body else {})
        return connection.getresponse().read().decode()


def root_files(*further: str) -> Iterator[tuple[str, str]]:
    """Yield where each file of the image goes and where it comes from; `further` names more programs."""
    shell = shutil.which("dash") or shutil.which("sh") or "/bin/sh"
    programs = {"sh": shell, **{name: found for name in (*_PROGRAMS, *further) if (found := shutil.which(name))}}
    libraries: dict[str, str] = {}
    for name, program in programs.items():
        yield f"/bin/{name}", os.path.realpath(program)
        listed = subprocess.run(["ldd", program], check=False, capture_output=True, text=True).stdout
        libraries.update({library: os.path.realpath(library) for library in re.findall(r"(/\S+)", listed)})
    yield from libraries.items()
    with tempfile.TemporaryDirectory() as empty:
        yield "/tmp", empty
