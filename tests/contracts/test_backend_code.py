"""What every backend that runs programs promises about the code that is sent along with a job."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from openpai.ports.code import CodeOwner
from openpai.protocol.code import CodeEntry, digest_of, write_list
from openpai.runtime.unpacking import unpacking
from openpai.storage.job_code import CodeFiles
from tests.contracts.harness import Harness
from tests.contracts.seen import Watch, a_key, a_launch
from tests.unit.storage.test_job_code import frames, pieces

COMMANDS = """
[ "$PWD" = "$PAI_WORK_DIR" ]
cat src/data
[ -x src/run ]
./link
echo mine >src/data
"""


async def packed(root: Path, content: bytes) -> str:
    """Return the pack of a code: a file of data, a program, and a link to it."""

    async def is_over(job: str) -> bool:
        return True

    program = b"#!/bin/sh\necho ran\n"
    entries = [
        CodeEntry("src/data", hashlib.sha256(content).hexdigest(), len(content)),
        CodeEntry("src/run", hashlib.sha256(program).hexdigest(), len(program), is_executable=True),
        CodeEntry("link", target="src/run"),
    ]
    listed = write_list(entries)
    store = CodeFiles(root, is_over)
    kept = await store.add(CodeOwner("ann"), digest_of(listed), pieces(frames(listed, content, program), 65_536))
    return store.pack(kept.digest)


async def test_tasks_start_in_their_own_copy_of_the_code(harness: Harness, tmp_path: Path) -> None:
    if not harness.runs_shell:
        pytest.skip(f"{type(harness).__name__} runs no shell")
    code = await packed(tmp_path / "code", b"theirs\n")
    backend = await harness.start()
    commands = f"{unpacking()}\n{COMMANDS}"
    launches = [a_launch(harness, a_key(number), commands, code=code) for number in (1, 2)]
    for number, launch in enumerate(launches, 1):
        # One after the other: what the first changes, the second must not see.
        await backend.apply([launch])
        (report,) = await Watch(backend).until_over(a_key(number))
        assert (report.code, harness.output(a_key(number))) == (0, "theirs\nran\n")


async def test_code_of_several_parts_arrives_whole(harness: Harness, tmp_path: Path) -> None:
    if not harness.runs_shell:
        pytest.skip(f"{type(harness).__name__} runs no shell")
    # A checksum of gzip holds for the whole.
    code = await packed(tmp_path / "code", b"word " + os.urandom(2_500_000).replace(b"\n", b"") + b"\n")
    backend = await harness.start()
    await backend.apply([a_launch(harness, a_key(), f"{unpacking()}\ncat src/run\n./link", code=code)])
    (report,) = await Watch(backend).until_over(a_key())
    assert (report.code, harness.output(a_key())) == (0, "#!/bin/sh\necho ran\nran\n")
