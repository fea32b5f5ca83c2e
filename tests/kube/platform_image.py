"""The real image of the server, built once for a run of tests, and the API server's address as pods know it."""

from __future__ import annotations

import contextlib
import fcntl
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution, distributions
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement

from tests.kube.node import RealNode

ROOT: Final = Path(__file__).parents[2]


def image_tree(place: Path) -> Path:
    """Return the tree of the image of this very code, which the first process of a run that asks for it makes.

    Skips where its libraries cannot be had.
    """
    place.mkdir(parents=True, exist_ok=True)
    made = place / "image"
    with (place / "image.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "image.made").exists():
            _collect(made)
            (place / "image.made").touch()
    return made


def _collect(made: Path) -> None:
    (extras,) = re.findall(r'ARG EXTRAS="(.*)"', (ROOT / "deploy/Dockerfile").read_text())
    with tempfile.TemporaryDirectory() as venv:
        python = f"{venv}/bin/python"
        # The pip of the tests does as well as one of the environment's own, which takes seconds to install.
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
        pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
        install = [*pip, "install", "--quiet", "--no-compile", "--no-deps", str(ROOT)]
        installed = subprocess.run(install, capture_output=True, text=True, check=False)
        if installed.returncode != 0:
            pytest.skip(f"no package index for the image: {installed.stderr[-200:]}")
        where = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
        packages = Path(subprocess.run(where, capture_output=True, text=True, check=True).stdout.strip())
        try:
            _copy_dependencies(packages, extras.split(","))
        except PackageNotFoundError as error:
            pytest.skip(f"no package {error} for the image; it is in the dependency group dev")
        collect = [python, str(ROOT / "deploy/collect.py"), str(made)]
        collected = subprocess.run(collect, capture_output=True, text=True, check=False)
    assert collected.returncode == 0, collected.stderr


def _copy_dependencies(packages: Path, extras: Sequence[str]) -> None:
    """Copy what the openpai in a directory of packages needs: from those of the tests, as pip would take long to do."""
    (openpai,) = distributions(name="openpai", path=[str(packages)])
    left, seen = [(openpai, tuple(extras))], set[tuple[str, tuple[str, ...]]]()
    while left:
        needing, chosen = left.pop()
        for requirement in map(Requirement, needing.requires or ()):
            marker, more = requirement.marker, tuple(sorted(requirement.extras))
            is_needed = marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *chosen))
            if not is_needed or (requirement.name, more) in seen:
                continue
            needed = distribution(requirement.name)
            seen.add((requirement.name, more))
            left.append((needed, more))
            for file in needed.files or ():
                # Not the programs of packages, which lie beside Python.
                if ".." not in file.parts and file.suffix != ".pyc" and not (packages / file).exists():
                    (packages / file).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(needed.locate_file(file), packages / file)  # type: ignore[arg-type]


def build_image(made: Path, archive: Path, name: str) -> Path:
    """Pack a tree as an image of this name; return its archive."""
    subprocess.run([sys.executable, str(ROOT / "deploy/pack.py"), str(made), str(archive), name], check=True)
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
