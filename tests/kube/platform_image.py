"""The real image of the server, built once for a run of tests, and the API server's address as pods know it."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.kube.node import RealNode

ROOT: Final = Path(__file__).parents[2]


def build_image(work: Path, name: str) -> Path:
    """Build the image of this very code; return its archive. Skips where its libraries cannot be had."""
    archive = work / f"{name.replace(':', '-')}.tar"
    python, made = work / "venv/bin/python", work / "image"
    if not made.exists():
        subprocess.run([sys.executable, "-m", "venv", str(work / "venv")], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--no-compile", f"{ROOT}[postgres,kubernetes]"]
        installed = subprocess.run(install, capture_output=True, text=True, check=False)
        if installed.returncode != 0:
            pytest.skip(f"no packages for the image: {installed.stderr[-200:]}")
        subprocess.run([str(python), str(ROOT / "deploy/collect.py"), str(made)], check=True)
    subprocess.run([str(python), str(ROOT / "deploy/pack.py"), str(made), str(archive), name], check=True)
    return archive


@contextlib.contextmanager
def api_server_for_pods(node: RealNode) -> Iterator[None]:
    """Let pods of a node reach the API server at the address of its service, as kube-proxy would."""
    address = f"{node.plane.services}.1"
    subprocess.run(["ip", "addr", "add", f"{address}/32", "dev", node.bridge], check=True, capture_output=True)
    listener = socket.create_server((address, 443))
    threading.Thread(target=_accept, args=(listener, node.plane.port), daemon=True).start()
    try:
        yield
    finally:
        listener.close()


def _accept(listener: socket.socket, port: int) -> None:
    while True:
        try:
            near, _ = listener.accept()
            far = socket.create_connection(("127.0.0.1", port))
        except OSError:
            return
        for source, target in ((near, far), (far, near)):
            threading.Thread(target=_pump, args=(source, target), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for one in (source, target):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
