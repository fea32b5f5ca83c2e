"""What `pai` said when it was run, in this process or as a program."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

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


def run_pai(*arguments: str, stdin: str | None = None) -> Outcome:
    """Run `pai` to its end in this process."""
    from openpai.app.main import run

    given = sys.stdin if stdin is None else _stream(stdin)
    with (
        redirect_stdout(_stream()) as out,
        redirect_stderr(_stream()) as err,
        patch.multiple(sys, argv=["pai", *arguments], stdin=given),
        # Loggers keep the stream they see first, and the one of a command is gone when it has ended.
        patch("structlog.configure", lambda **_: None),
        pytest.raises(SystemExit) as ended,
    ):
        run()
    return Outcome(int(ended.value.code or 0), _text(out), _text(err))


def _stream(text: str = "") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8", newline="", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()
