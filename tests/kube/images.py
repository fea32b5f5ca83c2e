"""Images for the containers of a real node, made of this machine's own programs: nothing is downloaded."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from tests.integration.docker_engine import root_files

SHELL_IMAGE = "local/shell:1"
"""A shell, sleep, cat, env, mkdir, ls, id and touch."""
PAUSE_IMAGE = "local/pause:1"
PACKAGES = "/packages"
"""Where a Python of an image finds its packages: where it looks by itself differs between Debian's and others."""


def _without_tests(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if entry.name.endswith("/tests") else entry


def write_image(
    path: Path,
    tag: str,
    files: Iterable[tuple[str, str]],
    *,
    entrypoint: Sequence[str] = (),
    user: str = "",
    env: Sequence[str] = (),
) -> Path:
    """Write an image as `docker save` does: of `files`, where each goes and where it comes from."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for target, source in files:
            tar.add(source, target.lstrip("/"), filter=_without_tests)
    blob = layer.getvalue()
    digest = hashlib.sha256(blob).hexdigest()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Entrypoint": list(entrypoint),
            "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", *env],
            "User": user,
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    content = json.dumps(config).encode()
    name = hashlib.sha256(content).hexdigest()
    manifest = [{"Config": f"{name}.json", "RepoTags": [tag], "Layers": [f"{digest}/layer.tar"]}]
    parts = (
        (f"{digest}/layer.tar", blob),
        (f"{name}.json", content),
        ("manifest.json", json.dumps(manifest).encode()),
    )
    with tarfile.open(path, "w") as tar:
        for member, data in parts:
            entry = tarfile.TarInfo(member)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return path


def shell_image(path: Path, tag: str = SHELL_IMAGE, *programs: str) -> Path:
    """Write an image with a shell and some programs."""
    return write_image(path, tag, root_files(*programs))


_UNUSED: Final = ("test", "site-packages", "dist-packages", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "tkinter")
"""What programs need nothing of, as the library to link programs with, which lies in `config-*`."""


def python_image(path: Path, tag: str, *packages: str, files: Mapping[str, str] = {}) -> Path:
    """Write an image with a shell, and with the Python of this process and some packages of it with what they load.

    `files` are more ones for its packages, by where each goes. Every megabyte costs each node a thirtieth of a second.
    """
    home, needed = f"/usr/local/lib/python{sys.version_info.major}.{sys.version_info.minor}", [sys.executable]
    library = [found for found in Path(sysconfig.get_path("stdlib")).iterdir() if found.name not in _UNUSED]
    chosen = {f"{home}/{found.name}": str(found) for found in library if not found.name.startswith("config-")}
    chosen |= {f"{PACKAGES}/{target}": source for target, source in files.items()}
    installed = Path(sysconfig.get_path("platlib"))
    for package in packages:
        parts = [found for found in installed.iterdir() if found.name in (package, f"{package}.py", f"{package}.libs")]
        chosen |= {f"{PACKAGES}/{found.name}": str(found) for found in parts}
        needed += [str(library) for part in parts for library in part.rglob("*.so*")]
    needed += [str(library) for library in Path(sysconfig.get_path("stdlib"), "lib-dynload").glob("*.so")]
    listed = subprocess.run(["ldd", *needed], check=False, capture_output=True, text=True).stdout
    libraries = {name for name in re.findall(r"=> (/\S+)", listed) if not Path(name).is_relative_to(installed)}
    chosen |= {name: os.path.realpath(name) for name in libraries}
    chosen["/usr/local/bin/python3"] = os.path.realpath(sys.executable)
    return write_image(path, tag, chain(chosen.items(), root_files()), env=[f"PYTHONPATH={PACKAGES}"])


def pause_image(path: Path) -> Path:
    """Write the image of the process that holds a pod's namespaces."""
    return write_image(path, PAUSE_IMAGE, root_files(), entrypoint=("/bin/sleep", "infinity"))
