"""Images for the containers of a real node, made of this machine's own programs: nothing is downloaded."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.integration.docker_engine import root_files

SHELL_IMAGE = "local/shell:1"
"""A shell, sleep, cat, env, mkdir, ls, id and touch."""
PAUSE_IMAGE = "local/pause:1"


def write_image(
    path: Path, tag: str, files: Iterable[tuple[str, str]], *, entrypoint: Sequence[str] = (), user: str = ""
) -> Path:
    """Write an image as `docker save` does: of `files`, where each goes and where it comes from."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for target, source in files:
            tar.add(source, target.lstrip("/"))
    blob = layer.getvalue()
    digest = hashlib.sha256(blob).hexdigest()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Entrypoint": list(entrypoint),
            "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"],
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


def pause_image(path: Path) -> Path:
    """Write the image of the process that holds a pod's namespaces."""
    return write_image(path, PAUSE_IMAGE, root_files(), entrypoint=("/bin/sleep", "infinity"))
