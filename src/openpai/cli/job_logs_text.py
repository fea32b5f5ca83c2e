"""What `pai job logs` prints or saves of a log that may be larger than memory."""

from __future__ import annotations

from codecs import getincrementaldecoder
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from openpai.cli import output
from openpai.cli.plain_text import plain_stamped
from openpai.protocol.errors import InvalidParameters
from openpai.protocol.shown_text import ShownText

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from openpai.client.logs import AttemptLogs


class Stamped:
    """Lines after their times, from pieces; see `plain_stamped`."""

    def __init__(self) -> None:
        self._rest = ""

    def take(self, piece: str) -> str:
        """Return the lines that a piece completes."""
        *whole, self._rest = (self._rest + piece).split("\n")
        return "".join(f"{plain_stamped(line)}\n" for line in whole)

    def finish(self) -> str:
        """Return the rest at the end."""
        rest, self._rest = self._rest, ""
        return plain_stamped(rest)


class Raw:
    """Text as it came."""

    def take(self, piece: str) -> str:
        """Return a piece."""
        return piece

    def finish(self) -> str:
        """Return nothing: no text is held."""
        return ""


@dataclass(frozen=True, slots=True)
class Part:
    """Which part of a log, and how to print it."""

    stream: str
    tail: int | None
    timestamps: bool
    since_ms: int | None
    raw: bool
    json: bool

    def text(self, logs: AttemptLogs) -> str:
        """Return the part as one text."""
        return logs.text(self.stream, lines=self.tail, timestamps=self.timestamps, since_ms=self.since_ms)

    def content(self, logs: AttemptLogs) -> Iterable[bytes]:
        """Return the part in pieces, however large it is."""
        if self.tail is not None:
            return [self.text(logs).encode("utf-8", "replace")]
        return logs.content(self.stream, timestamps=self.timestamps, since_ms=self.since_ms)

    def shown(self, logs: AttemptLogs) -> Iterator[str]:
        """Yield the part as it is printed."""
        return shown(self.content(logs), timestamps=self.timestamps, raw=self.raw)


def shown(pieces: Iterable[bytes], *, timestamps: bool, raw: bool) -> Iterator[str]:
    """Yield a log as it is printed, with a line end at its end."""
    decoder = getincrementaldecoder("utf-8")("replace")
    text = Raw() if raw else Stamped() if timestamps else ShownText()
    last = ""
    for data in chain(pieces, [None]):
        found = text.take(decoder.decode(data or b"", data is None))
        if data is None:
            found += text.finish()
        last = found or last
        yield found
    if last and not last.endswith("\n"):
        yield "\n"


def save(pieces: Iterable[bytes], path: Path) -> int:
    """Write a log to a new file; return its size. Raises InvalidParameters for a file that exists."""
    size = 0
    try:
        with path.open("xb") as file:
            for data in pieces:
                size += file.write(data)
    except FileExistsError:
        raise InvalidParameters(f"{path} exists already", "name another file with --output") from None
    except OSError as error:
        raise InvalidParameters(f"cannot write {path}: {error.strerror}", "name another file with --output") from error
    return size


def saved(json: bool, where: Path, total: int, files: int = 1) -> None:
    """Report what was saved."""
    from openpai.cli.formatting import plural, size

    what = f"{plural(files, 'log')}, {size(total)}" if files > 1 else size(total)
    output.done(json, {"path": str(where), "files": files, "bytes": total}, f"{what}, in {where}.")
