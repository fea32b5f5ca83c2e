"""What is wrong with a backup or its key is said before anything stops, and names the right file."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from openpai.app.cluster import restore
from openpai.protocol.errors import BadConfiguration

pyrage = pytest.importorskip("pyrage")


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    file = tmp_path / "backup.age"
    file.write_bytes(pyrage.encrypt(b"backup", [pyrage.x25519.Identity.generate().to_public()]))
    return file


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (None, r"identity file \S*/key cannot be read: No such file"),
        ("directory", r"identity file \S*/key cannot be read: Is a directory"),
        (b"\xff\xfe", r"\S*/key is no private key of age or SSH"),
        (b"AGE-SECRET-KEY-1\n", r"\S*/key is no private key of age or SSH"),
        (b"hello\n", r"\S*/key is no private key of age or SSH"),
        (b"", r"\S*/key is no private key of age or SSH"),
        (b"#" * (1 << 20) + b"\n", r"\S*/key is larger than any file of private keys"),
        ("another", r"\S*/backup.age cannot be opened with this key"),
    ],
)
def test_a_wrong_identity_file_is_named(sealed: Path, tmp_path: Path, key: bytes | str | None, message: str) -> None:
    path = tmp_path / "key"
    if key == "directory":
        path.mkdir()
    elif key == "another":
        path.write_text(str(pyrage.x25519.Identity.generate()))
    elif isinstance(key, bytes):
        path.write_bytes(key)
    work = tmp_path / "work"
    work.mkdir()
    with pytest.raises(BadConfiguration) as refused:
        restore._unpacked(sealed, [path], work)
    assert re.match(message, refused.value.message)
    assert "private key" in refused.value.advice or "passphrase" in refused.value.advice


def test_a_missing_backup_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match=f"{tmp_path}/none cannot be read: {os.strerror(2)}"):
        restore._unpacked(tmp_path / "none", [], tmp_path)


def test_the_pod_that_restores_is_never_ready_for_requests() -> None:
    container = {"name": "server", "image": "i", "args": ["up"], "readinessProbe": {}, "livenessProbe": {}}
    template = {"metadata": {"labels": {"app": "openpai"}}, "spec": {"containers": [container]}}
    pod = restore._pod({"spec": {"template": template}}, "openpai-restore")
    assert pod["spec"]["readinessGates"] == [{"conditionType": "openpai/serves"}]
    assert "readinessProbe" not in pod["spec"]["containers"][0]
    # Network policies know the server by its labels.
    assert pod["metadata"]["labels"] == {"app": "openpai"}
