"""Keeps the log of a container in files, in the layout of `openpai.logs`, with the cursor that belongs to them.

The bytes are written first, then the cursor with the lengths of the files. So after a server was killed the files may
be longer than the cursor says; what is beyond is cut off, and read again from the node.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from threading import RLock
from typing import Final

from openpai.backends.kubernetes.log_lines import MARK, Cursor, LogLines
from openpai.lifecycle.model import AttemptKey
from openpai.ports.logs import ARRIVING, STREAMS

CURSOR_FILE: Final = "shipped"
_APPEND: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
GAP: Final = b"lines may be missing here: the node removed them unread"
_DAMAGED: Final = "lines above may be repeated below: how far this log was read is not known any more"


class AttemptLog:
    """The log files of one attempt. Its functions block: they are meant for a thread, one at a time."""

    def __init__(self, root: Path, key: AttemptKey) -> None:
        self._directory = f"{root}/{key.path()}"
        self.cursor = Cursor()
        self.is_complete = False
        """Whether the whole log was read; survives restarts."""
        self.is_open = False
        """Whether the files and the cursor fit each other."""
        self._sizes = dict.fromkeys(STREAMS, 0)
        self._first_sizes: dict[str, int] | None = None
        """What was there before this object wrote, while there is no cursor."""
        self._lock = RLock()
        """Held while files and cursor change: a message may be written while the log is."""

    def open(self) -> None:
        """Read the cursor, and make the files fit it. Raises OSError."""
        with self._lock:
            if not self.is_open:
                self._open()
                self.is_open = True

    def _open(self) -> None:
        os.makedirs(self._directory, mode=0o700, exist_ok=True)  # noqa: PTH103
        sizes = {stream: self._size(stream) for stream in STREAMS}
        try:
            document = json.loads(Path(self._directory, CURSOR_FILE).read_text())
            cursor, is_complete = Cursor.of(document), bool(document["complete"])
            self._sizes = {stream: int(document["sizes"][stream]) for stream in STREAMS}
        except FileNotFoundError:
            # Also after a full disk, with a part of what was to be written and without its cursor.
            self._first_sizes = self._first_sizes or sizes
            self.cursor, self.is_complete, self._sizes = Cursor(), False, dict(self._first_sizes)
            self._cut(sizes)
            return
        except (ValueError, KeyError, TypeError):
            self._sizes = sizes
            self.note(_DAMAGED)
            return
        self.cursor, self.is_complete = cursor, is_complete
        self._cut(sizes)

    def _cut(self, sizes: dict[str, int]) -> None:
        """Cut off what is beyond the cursor."""
        for stream in STREAMS:
            if sizes[stream] > self._sizes[stream]:
                os.truncate(self._path(stream), self._sizes[stream])
            self._sizes[stream] = min(sizes[stream], self._sizes[stream])

    def add(self, lines: LogLines, chunk: bytes | None) -> int:
        """Write what is new in an answer; None stands for its end. Returns how many bytes that is. Raises OSError."""
        with self._lock:
            return self._add(lines, chunk)

    def _add(self, lines: LogLines, chunk: bytes | None) -> int:
        written = self._write(lines.feed(chunk) if chunk is not None else lines.finish())
        if written:
            self.save()
        return written

    def take(self, lines: LogLines, data: bytes, *, is_end: bool) -> int:
        """Write what is new in an answer that came whole, and if it `is_end`, record that the whole log was read.

        Returns how many bytes that is. Raises OSError.
        """
        with self._lock:
            written = self._write(lines.feed(data))
            if is_end:
                written += self._write(lines.finish())
            if lines.may_have_gap or (is_end and lines.has_found_nothing):
                written += self._append("runtime", MARK + GAP + b"\n")
            if is_end:
                self._complete()
            elif written:
                self.save()
        if is_end:
            self.expect_nothing()
        return written

    def _write(self, pieces: Iterable[tuple[str, bytes]]) -> int:
        parts: dict[str, list[bytes]] = {}
        for stream, piece in pieces:
            parts.setdefault(stream, []).append(piece)
        return sum(self._append(stream, b"".join(found)) for stream, found in parts.items())

    def note(self, message: str) -> None:
        """Write a message of the platform to the log. Raises OSError."""
        with self._lock:
            self._append("runtime", MARK + message.encode() + b"\n")
            self.save()

    def expect(self) -> None:
        """Mark the end of the log as on its way, for readers who see that the attempt has ended. Raises OSError."""
        path, flags = f"{self._directory}/{ARRIVING}", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            file = os.open(path, flags, 0o600)
        except FileNotFoundError:
            os.makedirs(self._directory, mode=0o700, exist_ok=True)  # noqa: PTH103
            file = os.open(path, flags, 0o600)
        os.close(file)

    def expect_nothing(self) -> None:
        """Mark the log as all that will be there. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self._directory}/{ARRIVING}")  # noqa: PTH108

    def complete(self) -> None:
        """Record that the whole log was read. Raises OSError."""
        with self._lock:
            self._complete()
        self.expect_nothing()

    def _complete(self) -> None:
        self.is_complete = True
        if not self._sizes["stdout"]:
            # A task that wrote nothing has a log too, an empty one.
            self._append("stdout", b"")
        self.save()

    def save(self) -> None:
        """Write the cursor that belongs to the files as they are; the lock is held. Raises OSError."""
        document = {**self.cursor.document(), "sizes": self._sizes, "complete": self.is_complete}
        file = os.open(
            f"{self._directory}/{CURSOR_FILE}", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        try:
            # In one call, so that a server that is killed leaves the old one or the new one.
            data = json.dumps(document).encode()
            os.pwrite(file, data + b"\n" + b" " * max(0, os.fstat(file).st_size - len(data) - 1), 0)
        finally:
            os.close(file)

    def _append(self, stream: str, data: bytes) -> int:
        file = os.open(self._path(stream), _APPEND, 0o600)
        try:
            written = 0
            while written < len(data):
                written += os.write(file, data[written:])
        finally:
            os.close(file)
        self._sizes[stream] += len(data)
        return len(data)

    def _size(self, stream: str) -> int:
        with contextlib.suppress(FileNotFoundError):
            return os.stat(self._path(stream)).st_size  # noqa: PTH116
        return 0

    def _path(self, stream: str) -> str:
        return f"{self._directory}/{stream}.log"
