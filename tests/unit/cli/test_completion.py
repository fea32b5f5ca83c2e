"""What the shell offers, and that it never keeps anybody waiting."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from openpai.cli import completion


@pytest.fixture
def silent(monkeypatch, tmp_path):
    """Return a server that takes connections and never answers, as the one that we are logged in at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("PAI_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.setenv("PAI_TOKEN", "t0ken")
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        yield server


def test_a_server_that_does_not_answer_is_waited_for_once_and_not_long(silent, monkeypatch):
    monkeypatch.setattr(completion, "WITHIN_S", 0.05)
    silent.settimeout(1)
    assert completion.jobs("x") == []
    silent.accept()[0].close()
    silent.settimeout(0)
    with pytest.raises(BlockingIOError):
        silent.accept()


def test_nothing_is_offered_without_a_login(monkeypatch, tmp_path):
    monkeypatch.delenv("PAI_TOKEN", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for offer in (
        completion.jobs,
        completion.users,
        completion.groups,
        completion.nodes,
        completion.tokens,
        completion.virtual_clusters,
        completion.storages,
    ):
        assert offer("") == []


def test_a_damaged_file_of_credentials_prints_no_complaint(monkeypatch, tmp_path):
    (tmp_path / "openpai").mkdir()
    (tmp_path / "openpai" / "credentials.json").write_text("{")
    monkeypatch.delenv("PAI_TOKEN", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert completion.jobs("") == []


def test_the_next_name_of_a_list_is_offered(monkeypatch):
    monkeypatch.setattr(completion, "_offer", lambda incomplete, names: [f"{incomplete}sion"])
    assert completion.virtual_clusters("speech,vi") == ["speech,vision"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("pai j", {"job"}),
        ("pai job list --state RUNNING,S", {"RUNNING,STOPPING", "RUNNING,STOPPED", "RUNNING,SUCCEEDED"}),
        ("pai job a", {"archive"}),
        ("pai quota s", {"show", "set"}),
        ("pai job list --ar", None),
    ],
)
@pytest.mark.slow
def test_a_shell_completes_the_commands(words, expected, tmp_path):
    message = subprocess.run(
        [sys.executable, "-c", "from openpai.app.main import run; run()"],
        env={
            **{key: value for key, value in os.environ.items() if not key.startswith("PAI_")},
            "XDG_CONFIG_HOME": str(tmp_path),
            "_PAI_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert set(message.stdout.split()) == (expected or {"--archived"})
    assert message.stderr == ""
