"""Which files of a working directory are meant, and how a container hands them over before it ends.

Where the files of a task go with its container, the wrapper waits in it, once the task has ended, until the server has
run `COLLECT` there. The file `left` says that there is something, `taking` that the server has begun, and `taken` has a
sentence for the log. A task may forge all of them, which affects only its own files.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any, Final

import re2

from openpai.protocol.errors import InvalidParameters
from openpai.protocol.outputs import STARS_MAX, stars_in

HAND_OVER_VARIABLE: Final = "PAI_HAND_OVER"
OUTPUTS_VARIABLE: Final = "PAI_OUTPUTS"
LEFT_FILE: Final = "left"
_SPECIAL: Final = frozenset("*?")
_ONE: Final = {"*": "[^/]*", "?": "[^/]"}

COLLECT: Final = r"""dir=$1 work=$2 limit=$3 patience=$4
waited=0
while [ ! -e "$dir/left" ]; do
    if [ "$waited" -ge "$patience" ]; then exit 3; fi
    sleep 1 || exit 3
    waited=$((waited + 1))
done
: >"$dir/taking"
cd "$work" || exit 4
if ! command -v tar >/dev/null 2>&1 || ! command -v find >/dev/null 2>&1; then exit 5; fi
{ eval "find . -type f ${PAI_OUTPUTS-} -size +${limit}c -print" 2>/dev/null; } >&2
# GNU tar would take a backslash in a name for an escape. Many files make several archives, one after the other.
as_is=
if tar --no-unquote --version >/dev/null 2>&1; then as_is=--no-unquote; fi
eval "find . -type f ${PAI_OUTPUTS-} ! -size +${limit}c -exec tar $as_is -cf - {} +" 2>/dev/null
exit 0
"""
"""Called as `sh -c COLLECT pai TASK_DIR WORK_DIR FILE_BYTES_MAX PATIENCE_S`: writes the results, as archives of `tar`.

The names of files that are too large go to standard error. Ends with 3 if nothing was left, and with 5 if the image
lacks what it needs.
"""

TAKEN: Final = 'printf "%s\\n" "$2" >"$1/taken"'
"""Called as `sh -c TAKEN pai TASK_DIR SENTENCE`: lets the wrapper end, which writes the sentence to the log."""


class Wanted:
    """The files at or below some paths or patterns; all files if there are none."""

    def __init__(self, entries: Iterable[str]) -> None:
        given = [_plain(entry) for entry in entries]
        if stars_in(given) > STARS_MAX:
            raise InvalidParameters(f"the patterns have more than {STARS_MAX} stars together", "name fewer of them")
        self._bases = [_base(entry) for entry in given]
        self._expression = _compiled("|".join(_expression(entry) for entry in given)) if given else None

    def has(self, path: str) -> bool:
        """Return whether the file with this path is meant."""
        return self._expression is None or self._expression.fullmatch(_bytes(path)) is not None

    def may_hold(self, directory: str) -> bool:
        """Return whether a directory may hold such a file."""
        below = f"{directory}/"
        return not self._bases or any(below.startswith(base) or base.startswith(below) for base in self._bases)


def find_words(entries: Iterable[str]) -> str:
    """Return the conditions for `find`, in a form for the shell, which hold for all files that are meant, and more."""
    paths = []
    for entry in entries:
        name = "".join(f"\\{char}" if char in "[]\\" else char for char in _plain(entry))
        # The star of `find` matches slashes too.
        paths += [f"./{name.replace('**/', '*').replace('**', '*')}", f"./{name.replace('**/', '*')}/*"]
    words = " -o ".join(f"-path {shlex.quote(path)}" for path in dict.fromkeys(paths))
    return f"\\( {words} \\)" if words else ""


def _plain(entry: str) -> str:
    return "/".join(part for part in entry.split("/") if part not in ("", "."))


def _base(entry: str) -> str:
    """Return the directories at the start of an entry that are no patterns, with a slash at the end."""
    base = ""
    for part in entry.split("/"):
        if _SPECIAL.intersection(part):
            return base
        base = f"{base}{part}/"
    return base


def _expression(entry: str) -> str:
    parts = entry.split("/")
    found = []
    for at, part in enumerate(parts):
        is_last = at == len(parts) - 1
        if part == "**":
            found.append("(?s:.*)" if is_last else "(?s:.*/)?")
        else:
            found.append(_of_part(part) + ("" if is_last else "/"))
    return f"(?:{''.join(found)}(?s:/.*)?)"


def _of_part(part: str) -> str:
    return "".join(_ONE.get(char) or _escaped(char) for char in part)


def _escaped(char: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in _bytes(char))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _compiled(expression: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    # Names are bytes, in any encoding.
    options.encoding = re2.Options.Encoding.LATIN1
    try:
        return re2.compile(expression.encode(), options)
    except re2.error:
        raise InvalidParameters("the paths and patterns are too many together", "name fewer of them") from None
