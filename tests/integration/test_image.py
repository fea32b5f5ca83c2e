"""The tree that `deploy/Dockerfile` makes an image of, run without anything else of this machine."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.ports import free_port

ROOT = Path(__file__).parents[2]


DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text()


def test_what_the_dockerfile_copies_is_there_and_sent_to_docker() -> None:
    """Docker is sent what `.dockerignore` does not leave out, and the wheel needs all that it includes."""
    sent = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [words.split()[:-1] for words in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)]
    sources = [source for line in copied for source in line]
    for source in sources:
        # A pattern may match nothing.
        assert "[" in source or (ROOT / source).exists(), source
        assert any(f"{source.replace('[s]', 's')}/".startswith(f"{each}/") for each in sent), source
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {*build["force-include"]} <= {*sources}


@pytest.mark.full
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the root of a process")
def test_the_image_starts_without_a_shell_and_as_a_user_without_rights(image: Path) -> None:
    root = image / "root"

    def enter() -> None:
        os.chroot(root)
        os.setgid(10001)
        os.setuid(10001)

    started = subprocess.run(
        ["/opt/openpai/bin/pai", "--version"],
        preexec_fn=enter,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        env={},
    )
    assert started.stdout.strip() == f"pai {version('openpai')}", started.stderr
    assert not [path for path in root.rglob("*sh") if path.parent.name in ("bin", "sbin")]
    size = sum(path.lstat().st_size for path in root.rglob("*"))
    assert size < 150_000_000
    assert (root / "tmp").stat().st_mode & 0o7777 == 0o1777


@pytest.mark.full
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the root of a process")
def test_a_server_of_the_image_compiles_nothing_when_it_starts(image: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    # Its file system is read-only where it runs; here what it would compile at each start can be counted.
    shutil.copytree(image / "root", root, copy_function=os.link)
    (root / "dev").mkdir(exist_ok=True)
    os.mknod(root / "dev/null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    before = set(root.rglob("*.pyc"))
    with subprocess.Popen(
        ["/opt/openpai/bin/pai", "up", "--backend", "simulated", "--port", str(free_port()), "--data-dir", "/tmp/data"],
        preexec_fn=lambda: os.chroot(root),
        cwd="/",
        stdout=subprocess.PIPE,
        text=True,
        env={"LANG": "C.UTF-8", "SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt"},
    ) as server:
        assert server.stdout is not None
        assert any("is up at" in line for line in server.stdout)
        server.terminate()
        server.stdout.read()
    # Without what only simulated nodes need, and what Python itself chooses.
    added = [path for path in set(root.rglob("*.pyc")) - before if "simulated" not in path.parts]
    assert len(added) < 20, sorted(str(path.relative_to(root)) for path in added)
