"""The logs of simulated tasks, as the reader of logs finds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from openpai.backends.simulated.backend import LogFiles
from openpai.logs.files import FileLogs
from openpai.protocol.errors import Refused
from tests.contracts.seen import a_key


async def test_a_task_that_says_nothing_has_an_empty_log_for_which_no_file_is_written(tmp_path: Path) -> None:
    written, logs = LogFiles(tmp_path), FileLogs(tmp_path, lambda key: True)
    try:
        with pytest.raises(Refused, match="has no logs"):
            await logs.read(a_key(), "stdout", 0, 100)
        written.say(a_key(), "")
        assert (await logs.read(a_key(), "stdout", 0, 100)).data == b""
        assert list((tmp_path / a_key().path()).iterdir()) == []
        written.say(a_key(), "one\n")
        written.say(a_key(), "two\n")
        assert (await logs.read(a_key(), "stdout", 0, 100)).data == b"one\ntwo\n"
    finally:
        await logs.close()
