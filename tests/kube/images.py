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
from collections.abc import Iterable, Sequence
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


_LOADED: Final = """
import json, sys
loaded = [getattr(module, name, None) for module in [*sys.modules.values()] for name in ("__file__", "__cached__")]
print(json.dumps([path for path in loaded if path]))
"""


def python_image(path: Path, tag: str, program: str, packages: Path) -> Path:
    """Write an image with a shell, and with the Python of this process and what of its modules a program loads.

    They are looked for in `packages` first. Every megabyte costs each node a thirtieth of a second.
    """
    code = f"import sys; sys.path.insert(0, {str(packages)!r})\n{program}\n{_LOADED}"
    ran = subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True, env={})
    modules = {Path(each) for each in json.loads(ran.stdout.splitlines()[-1]) if Path(each).is_file()}
    # What is imported late, as for a message of an error, is compiled then.
    modules |= {*Path(sysconfig.get_path("stdlib")).glob("*.py")}
    program_and_modules = [sys.executable, *(str(each) for each in modules if ".so" in each.suffixes)]
    listed = subprocess.run(["ldd", *program_and_modules], check=False, capture_output=True, text=True).stdout
    libraries = {Path(os.path.normpath(name)) for name in re.findall(r"=> (/\S+)", listed)}
    home = f"/usr/local/lib/python{sys.version_info.major}.{sys.version_info.minor}"
    places = {packages: PACKAGES, Path(sysconfig.get_path("platlib")): PACKAGES}
    places |= {Path(sysconfig.get_path(kind)): home for kind in ("stdlib", "platstdlib")}
    chosen = {str(each): os.path.realpath(each) for each in libraries}
    for each in {*modules, *libraries}:
        for place, target in places.items():
            if each.is_relative_to(place):
                chosen.pop(str(each), None)
                chosen[f"{target}/{each.relative_to(place)}"] = os.path.realpath(each)
                break
    chosen |= {f"{PACKAGES}/{each.relative_to(packages)}": str(each) for each in packages.rglob("*") if each.is_file()}
    chosen["/usr/local/bin/python3"] = os.path.realpath(sys.executable)
    return write_image(path, tag, chain(chosen.items(), root_files()), env=[f"PYTHONPATH={PACKAGES}"])


def pause_image(path: Path) -> Path:
    """Write the image of the process that holds a pod's namespaces."""
    return write_image(path, PAUSE_IMAGE, root_files(), entrypoint=("/bin/sleep", "infinity"))
