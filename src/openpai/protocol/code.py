"""The list of the files of a job's code, which client and server exchange, and the form in which contents are sent.

Code is named by the SHA-256 of its list, and a file by that of its content, so what the server has need not be sent
again. The list comes from a user and becomes paths in a task: every name is checked, and every link leads to a place
inside.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from openpai.protocol.errors import InvalidParameters, Refused

FILES_MAX: Final = 20_000
BYTES_MAX: Final = 256 << 20
"""The limit on the files of one code together."""
LIST_BYTES_MAX: Final = 16 << 20
HASHES_MAX: Final = 10_000
"""How many hashes a client asks about at once."""
DIGEST: Final = r"^[0-9a-f]{64}$"
_DIGEST: Final = re.compile(DIGEST)
_UNFIT: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_NAME_MAX: Final = 1024
_SHOWN: Final = 3


def digest_in(extras: Mapping[str, Any]) -> str:
    """Return the name of the code that was sent along with a job, `extras.code`; empty without one."""
    code = extras.get("code")
    return code if isinstance(code, str) else ""


@dataclass(frozen=True, slots=True)
class CodeEntry:
    """A file of the code, or a link if it has a `target`."""

    name: str
    sha256: str = ""
    size: int = 0
    is_executable: bool = False
    target: str = ""


def write_list(entries: Iterable[CodeEntry]) -> bytes:
    """Return the list as text: the same files make the same bytes."""
    rows = [
        [each.name, each.target] if each.target else [each.name, each.sha256, each.size, each.is_executable]
        for each in sorted(entries, key=lambda each: each.name)
    ]
    return json.dumps({"version": 1, "files": rows}, ensure_ascii=False, separators=(",", ":")).encode()


def digest_of(content: bytes) -> str:
    """Return the name of a code, from its list."""
    return hashlib.sha256(content).hexdigest()


def read_list(content: bytes) -> tuple[CodeEntry, ...]:
    """Return the entries of a list. Raise InvalidParameters for a wrong one, and Refused for one that is too large."""
    try:
        document = json.loads(content)
        entries = tuple([_entry(row) for row in document["files"]])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        message = "the list of the code's files is not one that this server reads"
        raise InvalidParameters(message, "use a client of the server's version") from error
    check(entries)
    return entries


def check(entries: Sequence[CodeEntry]) -> None:
    """Raise InvalidParameters for names that a task must not get, and Refused beyond the limits."""
    names = {each.name for each in entries}
    if len(names) != len(entries):
        raise InvalidParameters("the code names a file twice", "send each file once")
    links = {each.name for each in entries if each.target}
    bad = [fault for each in entries if (fault := _fault(each, names, links))]
    if bad:
        more = f" and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
        message = f"the code cannot be sent: {'; '.join(bad[:_SHOWN])}{more}"
        raise InvalidParameters(message, "remove them, or name them in .paiignore")
    if len(entries) > FILES_MAX or sum(each.size for each in entries) > BYTES_MAX:
        raise too_large("the code", ((each.name, each.size) for each in entries))


def too_large(what: str, sizes: Iterable[tuple[str, int]], files_max: int = FILES_MAX) -> Refused:
    """Return the refusal of code beyond the limits, with its largest files."""
    largest = sorted(sizes, key=lambda each: -each[1])[:_SHOWN]
    few = ", ".join(f"{name} ({size >> 20} MiB)" for name, size in largest if size >> 20)
    message = f"{what} holds more than {files_max:,} files or {BYTES_MAX >> 20} MiB"
    advice = "name what the job does not need in .paiignore, and put data into a storage: pai storage upload"
    return Refused("RequestTooLargeError", f"{message}{'; the largest: ' if few else ''}{few}", advice)


def _entry(row: Any) -> CodeEntry:
    if len(row) == 2:
        name, target = row
        if isinstance(name, str) and isinstance(target, str) and target:
            return CodeEntry(name, target=target)
    else:
        name, sha256, size, is_executable = row
        fits = isinstance(name, str) and isinstance(sha256, str) and _DIGEST.fullmatch(sha256)
        if fits and type(size) is int and 0 <= size <= 1 << 50 and isinstance(is_executable, bool):
            return CodeEntry(name, sha256, size, is_executable)
    raise ValueError(row)


def _fault(entry: CodeEntry, names: set[str], links: set[str]) -> str:
    name = entry.name
    parts = name.split("/")
    if _UNFIT.search(name) or _UNFIT.search(entry.target):
        return f"{name!r} has a control character in its name, or is not UTF-8"
    if name.startswith("/"):
        return f"{name} is an absolute path"
    if ".." in parts:
        return f"{name} has '..' in its path"
    if "" in parts or "." in parts or len(name) > _NAME_MAX:
        return f"{name[:80]!r} is no path of a file"
    above = ["/".join(parts[:count]) for count in range(1, len(parts))]
    if any(one in names for one in above):
        return f"{name} lies below a file or a link"
    if entry.target.startswith("/"):
        return f"{name} is a link to the absolute path {entry.target}"
    return _link_fault(entry, links) if entry.target else ""


def _link_fault(entry: CodeEntry, links: set[str]) -> str:
    goal = posixpath.normpath(posixpath.join(posixpath.dirname(entry.name), entry.target))
    if goal == ".." or goal.startswith("../"):
        return f"{entry.name} is a link to {entry.target}, outside of the directory"
    # `a/..` is the parent of a, unless a is a link to elsewhere.
    passed, by_link = posixpath.dirname(entry.name), False
    for part in entry.target.split("/"):
        if part == ".." and by_link:
            return f"{entry.name} is a link to {entry.target}, by way of another link"
        passed = posixpath.normpath(posixpath.join(passed, part))
        by_link = by_link or passed in links
    return ""
