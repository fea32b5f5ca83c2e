"""What `pai` said when it was run, in this process or as a program."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass
class Outcome:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Return the one JSON document on standard output; fails when there is anything else."""
        return json.loads(self.out)


def run_pai(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> Outcome:
    """Run `pai` to its end in this process."""
    from openpai.cli.main import run

    monkeypatch.setattr(sys, "argv", ["pai", *arguments])
    # Loggers keep the stream they see first, and the captured one is closed when the test is over.
    monkeypatch.setattr("structlog.configure", lambda **_: None)
    with pytest.raises(SystemExit) as ended:
        run()
    message = capsys.readouterr()
    return Outcome(int(ended.value.code or 0), message.out, message.err)
