"""Packs what `collect.py` collected into an archive of an image, as `docker save` would, without any engine.

Run `python pack.py DIRECTORY FILE NAME:TAG`. What the image says of itself is what `Dockerfile` says.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import IO, Any, Final

USER: Final = 10001
HOME: Final = "var/lib/openpai"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_CHUNK: Final = 1 << 20
ABOUT: Final = {
    "Entrypoint": ["/opt/openpai/bin/pai"],
    "Cmd": ["up"],
    "Env": [
        "PATH=/opt/openpai/bin",
        f"HOME=/{HOME}",
        f"PAI_DATA_DIR=/{HOME}",
        "PAI_HOST=0.0.0.0",
        "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt",
        "LANG=C.UTF-8",
    ],
    "User": f"{USER}:{USER}",
    "ExposedPorts": {"9186/tcp": {}},
    "Volumes": {f"/{HOME}": {}},
}


def main(made: Path, target: Path, name: str) -> None:
    """Write the archive."""
    with tempfile.TemporaryFile() as layer:
        with tarfile.open(fileobj=layer, mode="w") as tar:
            _add(tar, made / "root", "", 0)
            _add(tar, made / "home", HOME, USER)
        digest = _digest(layer)
        rootfs = {"type": "layers", "diff_ids": [f"sha256:{digest}"]}
        architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
        # Nodes tell images apart by this, whatever their names are.
        about = {**ABOUT, "Labels": {"org.opencontainers.image.version": name.rpartition(":")[2]}}
        config = json.dumps({"architecture": architecture, "os": "linux", "config": about, "rootfs": rootfs}).encode()
        config_name = f"{hashlib.sha256(config).hexdigest()}.json"
        manifest = [{"Config": config_name, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}]
        with tarfile.open(target, "w") as tar:
            _put(tar, f"{digest}/layer.tar", layer)
            _put(tar, config_name, io.BytesIO(config))
            _put(tar, "manifest.json", io.BytesIO(json.dumps(manifest).encode()))


def _add(tar: tarfile.TarFile, source: Path, name: str, owner: int) -> None:
    def owned(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = owner
        member.uname = member.gname = ""
        return member

    for path in sorted(source.iterdir()) if not name else [source]:
        tar.add(path, name or path.name, filter=owned)


def _put(tar: tarfile.TarFile, name: str, content: IO[bytes]) -> None:
    member = tarfile.TarInfo(name)
    member.size = content.seek(0, io.SEEK_END)
    content.seek(0)
    tar.addfile(member, content)


def _digest(file: Any) -> str:
    file.seek(0)
    found = hashlib.sha256()
    while data := file.read(_CHUNK):
        found.update(data)
    return found.hexdigest()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
