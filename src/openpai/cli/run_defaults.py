"""Defaults of `pai run`: a name, an image, and the resources of a task."""

from __future__ import annotations

import re
import secrets
import shlex
import sys
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from openpai.protocol.errors import InvalidParameters, PaiError

if TYPE_CHECKING:
    from openpai.client import Client

BYTES_READ: Final = 64 << 10
# Images of frameworks, chosen when a list of requirements names one.
FRAMEWORKS: Final = (("torch", "pytorch/pytorch:latest"), ("tensorflow", "tensorflow/tensorflow:latest-gpu"))
LISTS: Final = ("requirements.txt", "pyproject.toml", "environment.yml", "setup.cfg")
OTHERWISE: Final = "ubuntu:24.04"
CPU_SHARE: Final = (1, 2048)
GPU_SHARE: Final = (4, 8192)
"""CPUs and memory (in MiB) if the cluster has no SKU that fits: of a task without GPUs, and for each GPU."""
_PYTHON: Final = re.compile(r"(?:python|pip|torchrun|accelerate|deepspeed|jupyter|pytest)[\d.]*")
_SCRIPT: Final = re.compile(r"[\w./-]+\.(py|sh|R|jl|ipynb)")
_MEMORY: Final = re.compile(r"(\d{1,9})(m|mb|mib|g|gb|gib|t|tb|tib)?", re.IGNORECASE)


def words_of(line: str) -> list[str]:
    """Return the words of a command line, as a shell splits them or, if it cannot, split at blanks."""
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def name_of(line: str) -> str:
    """Return a name for a job: the script or module that it runs, with a few letters that make it unique."""
    parts = words_of(line)
    script = next(filter(_SCRIPT.fullmatch, parts), "")
    if not script and "-m" in parts[:-1]:
        script = parts[parts.index("-m") + 1]
    stem = PurePosixPath(script or (parts or ["run"])[0]).stem
    return f"{re.sub(r'[^A-Za-z0-9_-]+', '-', stem).strip('-')[:60] or 'run'}-{secrets.token_hex(2)}"


def image_of(line: str, directory: Path) -> tuple[str, str]:
    """Return an image for a command, and the reason for it."""
    parts = words_of(line) or [""]
    if not _PYTHON.fullmatch(PurePosixPath(parts[0]).name) and not any(part.endswith(".py") for part in parts):
        return OTHERWISE, "guessed"
    for name in LISTS:
        try:
            with (directory / name).open("rb") as file:
                text = file.read(BYTES_READ).decode("utf-8", "replace")
        except OSError:
            continue
        for library, image in FRAMEWORKS:
            if re.search(rf"(?<![\w-]){library}(?!\w)", text):
                return image, f"guessed: {name} names {library}"
    return f"python:{sys.version_info.major}.{sys.version_info.minor}", "guessed from the command"


def share_of(pai: Client, gpus: int, vc: str | None) -> tuple[int, int]:
    """Return CPUs and memory for each GPU, or for a task without GPUs, from the SKUs of the cluster."""
    otherwise = GPU_SHARE if gpus else CPU_SHARE
    try:
        kinds = pai.sku_types(vc)
    except PaiError:
        # The submission reports what is wrong with the virtual cluster.
        return otherwise
    fit = [kind for kind in kinds.values() if isinstance(kind, dict) and bool(kind.get("gpu")) == bool(gpus)]
    if not fit:
        return otherwise
    least = min(fit, key=lambda kind: int(kind.get("memory") or 0))
    each = max(1, int(least.get("gpu") or 1))
    cpus, memory_mb = int(least.get("cpu") or 0) // each, int(least.get("memory") or 0) // each
    return (cpus, memory_mb) if cpus and memory_mb else otherwise


def megabytes(given: str) -> int:
    """Return an amount of memory in MiB; a plain number is MiB."""
    found = _MEMORY.fullmatch(given.strip())
    if found is None or not int(found[1]):
        raise InvalidParameters(f"{given!r} is not an amount of memory", "write it like 8G or 512M")
    return int(found[1]) << {"m": 0, "g": 10, "t": 20}[(found[2] or "m")[0].lower()]
