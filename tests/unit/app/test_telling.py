"""What a server says to whoever started it."""

from __future__ import annotations

from pathlib import Path

import pytest

from openpai.app.settings import BackendName, Settings
from openpai.app.telling import Teller


def told(backend: BackendName, capsys: pytest.CaptureFixture[str]) -> str:
    settings = Settings(Path("/data"), backend=backend)
    Teller(settings).welcome("1.0", "http://127.0.0.1:1", None, "admin", is_open=False)
    return capsys.readouterr().out


@pytest.mark.parametrize(("user", "whose"), [(0, "own rights, which are root's: let in"), (1000, "own rights: let in")])
def test_the_rights_that_jobs_get_are_told(
    user: int, whose: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    assert whose in told("process", capsys)
    assert "own rights" not in told("docker", capsys)
