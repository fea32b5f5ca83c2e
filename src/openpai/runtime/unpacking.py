"""The shell text that unpacks a job's code into the task's working directory, before anything else runs."""

from __future__ import annotations

import shlex
from typing import Final

CODE_VARIABLE: Final = "PAI_CODE_FILE"
CODE_FILE: Final = "code.tar.gz"

# Where a file may only be of a limited size, it is in parts, whose names begin alike.
_SCRIPT: Final = r"""pai_fail() { echo "[openpai-runtime] the code of the job cannot be unpacked: $*" >&2; exit 1; }
mkdir -p "$PAI_WORK_DIR" 2>/dev/null
cd "$PAI_WORK_DIR" && [ -w . ] || pai_fail "the user of this image may not write to $PAI_WORK_DIR"
if command -v tar >/dev/null 2>&1 && command -v gzip >/dev/null 2>&1; then
    cat "$PAI_CODE_FILE"* | tar -xzf - || pai_fail "see above"
elif command -v python3 >/dev/null 2>&1; then
    cat "$PAI_CODE_FILE"* | python3 -c 'import sys, tarfile
tarfile.open(fileobj=sys.stdin.buffer, mode="r|gz").extractall(".")' || pai_fail "see above"
else
    pai_fail "this image has neither tar with gzip nor python3"
fi
"""


def unpacking() -> str:
    """Return the commands; a simulated machine passes over them."""
    return f"eval {shlex.quote(_SCRIPT)}"
