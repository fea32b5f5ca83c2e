"""The file that keeps the past of all series: compressed blocks in SQLite, a tier of blocks per resolution.

Each round is written to a journal at once, so that a server that is killed loses nothing but the round it was in. When
an hour is over, its values become a block of the finest tier and one of the middle tier for each set of labels; when a
day is over, its blocks of the middle tier become one, and a block of the coarsest. All of it may be done again after a
crash: a block replaces the one of the same time.

Plain blocking functions; one thread writes, another reads.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from openpai.series.codec import decode, encode
from openpai.series.labels import Labels, Matcher, accepted
from openpai.series.open_block import STEP_MS, Key, OpenBlock
from openpai.series.retention import DAY_MS, HOUR_MS, Grid, Points, Tiers, coarser, coarser_points

FINE, MIDDLE, COARSE = 0, 1, 2
SUBJECTS_MAX: Final = 100_000
"""Sets of labels that one query looks at."""
_SCHEMA: Final = """\
CREATE TABLE IF NOT EXISTS names (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS subjects (
    id INTEGER PRIMARY KEY, labels TEXT NOT NULL UNIQUE, job TEXT NOT NULL, first_ms INTEGER NOT NULL,
    last_ms INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS subjects_of_jobs ON subjects (job, last_ms);
CREATE TABLE IF NOT EXISTS series (name INTEGER, subject INTEGER, PRIMARY KEY (name, subject)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS blocks (tier INTEGER, subject INTEGER, start_ms INTEGER, data BLOB NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS blocks_of_subjects ON blocks (subject, tier, start_ms);
CREATE INDEX IF NOT EXISTS blocks_by_age ON blocks (tier, start_ms);
CREATE TABLE IF NOT EXISTS journal (
    block_ms INTEGER, at_ms INTEGER, columns TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (block_ms, at_ms));
CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
"""
_VERSION: Final = 1
_BATCH: Final = 500
_PAGES_AT_ONCE: Final = 64
_JOB: Final = "job_name"


def open_file(path: Path) -> sqlite3.Connection:
    """Open the file, which is made if it is not there; raise sqlite3.DatabaseError for what is no such file."""
    try:
        # SQLite gives the files beside a database the same mode.
        path.touch(mode=0o600)
    except OSError as error:
        raise sqlite3.OperationalError(f"unable to make it: {error.strerror}") from error
    connection = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
    try:
        # A block of 3 KB would leave a quarter of a page of 4 KB empty.
        connection.execute("PRAGMA page_size = 16384")
        # So that the journal of an hour that is over gives its space back; it has no effect on a file that exists.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        # Memory is for the values of the present hour.
        connection.execute("PRAGMA cache_size = -2000")
        connection.execute("PRAGMA journal_size_limit = 8388608")
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found not in (0, _VERSION):
            raise sqlite3.DatabaseError(f"it has version {found}, and this program writes version {_VERSION}")
        connection.executescript(_SCHEMA)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    except BaseException:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


class Writer:
    """Writes rounds and blocks."""

    def __init__(self, connection: sqlite3.Connection, tiers: Tiers) -> None:
        self._connection = connection
        self._tiers = tiers
        self._block_ms = -1
        self._new: list[Key] = []
        """The new columns of the open block that are not in the journal yet."""
        self._last = array("f")
        """The row that was written last, from which the next one is the difference."""
        self._names: dict[str, int] = {
            name: number for number, name in connection.execute("SELECT id, name FROM names")
        }

    def append(self, block_ms: int, at_ms: int, new: Sequence[Key], row: array[float]) -> None:
        """Write a round to the journal."""
        if block_ms != self._block_ms:
            self._block_ms, self._new, self._last = block_ms, [], array("f")
        # Those of rounds that could not be written come with the next.
        self._new.extend(new)
        # Compressed: labels of thousands of series are alike.
        columns = zlib.compress(json.dumps([[labels.pairs, name] for labels, name in self._new]).encode(), 1)
        with _transaction(self._connection):
            self._connection.execute(
                "INSERT OR REPLACE INTO journal VALUES (?, ?, ?, ?)",
                (block_ms, at_ms, columns, _packed(row, self._last)),
            )
        self._new, self._last = [], row

    def unfinished(self) -> list[OpenBlock]:
        """Return the blocks of the journal, which were not closed before the server ended, from the oldest."""
        blocks: dict[int, OpenBlock] = {}
        rows = self._connection.execute("SELECT block_ms, at_ms, columns, data FROM journal ORDER BY block_ms, at_ms")
        labels_of: dict[str, Labels] = {}
        for block_ms, at_ms, columns, data in rows:
            new = []
            # Earlier versions wrote text, empty for no columns.
            text = columns if isinstance(columns, str) else zlib.decompress(columns)
            for pairs, name in json.loads(text or "[]"):
                labels = Labels(tuple((label, value) for label, value in pairs))
                new.append((labels_of.setdefault(repr(labels.pairs), labels), name))
            block = blocks.setdefault(block_ms, OpenBlock(block_ms))
            block.restore(at_ms, new, _unpacked(data, block.rows[-1] if block.rows else array("f")))
        return list(blocks.values())

    def close_block(self, block: OpenBlock) -> Iterator[None]:
        """Write a block that is over, a part at a time: other work may be done between two parts."""
        for chunk in block.chunks():
            with _transaction(self._connection):
                for labels, columns in chunk:
                    self._write(block, labels, columns)
            yield
        with _transaction(self._connection):
            self._connection.execute("DELETE FROM journal WHERE block_ms = ?", (block.start_ms,))
        yield from self._give_back()

    def _give_back(self) -> Iterator[None]:
        """Return free pages to the disk, a part at a time."""
        left = self._free_pages()
        while left:
            # Its rows have to be fetched: each is a page.
            self._connection.execute(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})").fetchall()
            yield
            before, left = left, self._free_pages()
            if left >= before:
                # A file of an earlier version keeps its pages, and uses them again.
                return

    def _free_pages(self) -> int:
        return int(self._connection.execute("PRAGMA freelist_count").fetchone()[0])

    def _write(self, block: OpenBlock, labels: Labels, columns: dict[str, list[float]]) -> None:
        last_ms = block.start_ms + block.length * STEP_MS
        subject = self._subject(labels, block.start_ms, last_ms)
        numbers = {name: self._name(name) for name in columns}
        self._connection.executemany(
            "INSERT OR IGNORE INTO series VALUES (?, ?)", [(number, subject) for number in numbers.values()]
        )
        if self._tiers.fine.kept_ms:
            fine = {numbers[name]: values for name, values in columns.items()}
            self._put(FINE, subject, block.start_ms, encode(fine, block.length))
        count = self._tiers.middle.step_ms // STEP_MS
        middle = {numbers[name]: coarser(values, count) for name, values in columns.items()}
        self._put(MIDDLE, subject, block.start_ms, encoded(middle))

    def _put(self, tier: int, subject: int, start_ms: int, data: bytes) -> None:
        self._connection.execute("INSERT OR REPLACE INTO blocks VALUES (?, ?, ?, ?)", (tier, subject, start_ms, data))

    def _subject(self, labels: Labels, first_ms: int, last_ms: int) -> int:
        found = self._connection.execute(
            "INSERT INTO subjects (labels, job, first_ms, last_ms) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (labels) DO UPDATE SET last_ms = max(last_ms, excluded.last_ms),"
            " first_ms = min(first_ms, excluded.first_ms) RETURNING id",
            (json.dumps(labels.pairs, ensure_ascii=False), labels.get(_JOB), first_ms, last_ms),
        ).fetchone()
        return int(found[0])

    def _name(self, name: str) -> int:
        if name not in self._names:
            self._connection.execute("INSERT OR IGNORE INTO names (name) VALUES (?)", (name,))
            found = self._connection.execute("SELECT id FROM names WHERE name = ?", (name,)).fetchone()
            self._names[name] = int(found[0])
        return self._names[name]

    def compacted_ms(self) -> int:
        """Return until when days have become blocks of the coarsest tier."""
        found = self._connection.execute("SELECT value FROM state WHERE name = 'compacted_ms'").fetchone()
        return int(found[0]) if found else 0

    def compact(self, now_ms: int) -> Iterator[None]:
        """Make each day that is over one block of the middle and one of the coarsest tier, a part at a time."""
        end_ms = now_ms // DAY_MS * DAY_MS
        since_ms = self.compacted_ms()
        days = self._connection.execute(
            "SELECT DISTINCT start_ms / ? FROM blocks WHERE tier = ? AND start_ms >= ? AND start_ms < ? ORDER BY 1",
            (DAY_MS, MIDDLE, since_ms, end_ms),
        ).fetchall()
        for (day,) in days:
            yield from self._compact_day(day * DAY_MS)
        with _transaction(self._connection):
            self._connection.execute(
                "INSERT OR REPLACE INTO state VALUES ('compacted_ms', ?)", (max(since_ms, end_ms),)
            )

    def _compact_day(self, day_ms: int) -> Iterator[None]:
        subjects = self._connection.execute(
            "SELECT DISTINCT subject FROM blocks WHERE tier = ? AND start_ms >= ? AND start_ms < ?",
            (MIDDLE, day_ms, day_ms + DAY_MS),
        ).fetchall()
        for place in range(0, len(subjects), 100):
            with _transaction(self._connection):
                for (subject,) in subjects[place : place + 100]:
                    self._compact_subject(subject, day_ms)
            yield

    def _compact_subject(self, subject: int, day_ms: int) -> None:
        span = (MIDDLE, subject, day_ms, day_ms + DAY_MS)
        rows = self._connection.execute(
            "SELECT start_ms, data FROM blocks WHERE tier = ? AND subject = ? AND start_ms >= ? AND start_ms < ?", span
        ).fetchall()
        step_ms = self._tiers.middle.step_ms
        grids: dict[int, Grid] = {}
        for start_ms, data in rows:
            for number, points in decoded(data).items():
                grid = grids.setdefault(number, Grid(day_ms, day_ms + DAY_MS, step_ms))
                grid.add(start_ms, step_ms, points, (day_ms, day_ms + DAY_MS))
        middle = {number: grid.points() for number, grid in grids.items()}
        count = self._tiers.coarse.step_ms // step_ms
        coarse = {number: coarser_points(points, count) for number, points in middle.items()}
        self._connection.execute(
            "DELETE FROM blocks WHERE tier = ? AND subject = ? AND start_ms >= ? AND start_ms < ?", span
        )
        self._put(MIDDLE, subject, day_ms, encoded(middle))
        if self._tiers.coarse.kept_ms:
            self._put(COARSE, subject, day_ms, encoded(coarse))

    def expire(self, now_ms: int) -> Iterator[None]:
        """Remove what is older than its tier is kept, a part at a time."""
        for number, tier in enumerate(self._tiers.all()):
            before_ms = now_ms - max(tier.kept_ms, HOUR_MS) - (DAY_MS if number else 0)
            while True:
                with _transaction(self._connection):
                    found = self._connection.execute(
                        "DELETE FROM blocks WHERE rowid IN"
                        " (SELECT rowid FROM blocks WHERE tier = ? AND start_ms < ? LIMIT ?)",
                        (number, before_ms, _BATCH),
                    )
                yield
                if found.rowcount < _BATCH:
                    break
        before_ms = now_ms - max(tier.kept_ms for tier in self._tiers.all()) - 2 * DAY_MS
        with _transaction(self._connection):
            self._connection.execute(
                "DELETE FROM series WHERE subject IN (SELECT id FROM subjects WHERE last_ms < ?)", (before_ms,)
            )
            self._connection.execute("DELETE FROM subjects WHERE last_ms < ?", (before_ms,))


class Reader:
    """Reads the past of series."""

    def __init__(self, connection: sqlite3.Connection, tiers: Tiers) -> None:
        self._connection = connection
        self._tiers = tiers

    def subjects(self, name: str, matchers: Sequence[Matcher], span_ms: tuple[int, int]) -> dict[Labels, int]:
        """Return the labels of the series with this name that were measured in a span, the newest first."""
        jobs = next((sorted(one.values) for one in matchers if one.label == _JOB and one.operator == "="), None)
        # SQLite binds only so many parameters.
        of_jobs = "" if jobs is None or len(jobs) > _BATCH else f" AND job IN ({', '.join('?' * len(jobs))})"
        rows = self._connection.execute(
            "SELECT subjects.id, labels FROM subjects JOIN series ON subject = subjects.id"  # noqa: S608
            " JOIN names ON series.name = names.id"
            f" WHERE names.name = ? AND last_ms >= ? AND first_ms <= ?{of_jobs}"
            " ORDER BY last_ms DESC, subjects.id LIMIT ?",
            (name, *span_ms, *(jobs if of_jobs and jobs is not None else ()), SUBJECTS_MAX),
        )
        found = {}
        for subject, text in rows:
            labels = Labels(tuple((label, value) for label, value in json.loads(text)))
            if accepted(matchers, labels):
                found[labels] = int(subject)
        return found

    def compacted_ms(self) -> int:
        """Return until when days have become blocks of the coarsest tier."""
        found = self._connection.execute("SELECT value FROM state WHERE name = 'compacted_ms'").fetchone()
        return int(found[0]) if found else 0

    def number_of(self, name: str) -> int | None:
        """Return the number of a name in blocks."""
        found = self._connection.execute("SELECT id FROM names WHERE name = ?", (name,)).fetchone()
        return int(found[0]) if found else None

    def fill(self, grid: Grid, subject: int, number: int, spans: Iterable[tuple[int, int, int]]) -> None:
        """Add to a grid the values of a series in spans of tiers: the tier, from when, until when."""
        for tier, start_ms, end_ms in spans:
            rows = self._connection.execute(
                "SELECT start_ms, data FROM blocks WHERE subject = ? AND tier = ? AND start_ms >= ? AND start_ms < ?",
                (subject, tier, start_ms - (DAY_MS if tier else 2 * HOUR_MS), end_ms),
            )
            for block_ms, data in rows:
                if tier == FINE:
                    values = decode(data, frozenset({number})).get(number)
                    points = None if values is None else Points(values, values, values)
                else:
                    points = decoded(data, number).get(number)
                if points is not None:
                    grid.add(block_ms, self._tiers.all()[tier].step_ms, points, (start_ms, end_ms))


def spans_of(
    tiers: Tiers, span_ms: tuple[int, int], step_ms: int, now_ms: int, compacted_ms: int
) -> list[tuple[int, int, int]]:
    """Return from which tier each part of a span is read: a coarser one where a finer is not kept any more.

    The coarsest has no days that are not over yet.
    """
    wanted = MIDDLE if step_ms >= tiers.middle.step_ms else FINE
    wanted = COARSE if step_ms >= tiers.coarse.step_ms and tiers.coarse.kept_ms else wanted
    oldest = [now_ms - tier.kept_ms for tier in tiers.all()]
    found, (start_ms, at_ms) = [], span_ms
    order = range(MIDDLE if wanted == COARSE else wanted, COARSE + 1)
    for tier in order:
        since_ms = max(start_ms, compacted_ms if wanted == COARSE and tier == MIDDLE else oldest[tier])
        since_ms = since_ms // HOUR_MS * HOUR_MS
        if since_ms < at_ms:
            found.append((tier, since_ms, at_ms))
            at_ms = since_ms
    return found


def encoded(columns: dict[int, Points]) -> bytes:
    """Return a block of means, least and greatest values."""
    length = max((len(points.mean) for points in columns.values()), default=0)
    flat = {3 * number + place: part for number, points in columns.items() for place, part in enumerate(points)}
    return encode(flat, length)


def decoded(data: bytes, number: int | None = None) -> dict[int, Points]:
    """Return what `encoded` made a block of, or one column of it."""
    wanted = None if number is None else frozenset(range(3 * number, 3 * number + 3))
    flat = decode(data, wanted)
    numbers = {place // 3 for place in flat}
    return {number: Points(*(flat[3 * number + place] for place in range(3))) for number in numbers}


def _packed(row: array[float], before: array[float]) -> bytes:
    """Return a row as the difference of its bits to the one before, with 16 significant bits of each value.

    The first byte is 1, or 0 where there is no row before, as after a restart.
    """
    size = row.itemsize * len(row)
    bits = int.from_bytes(row.tobytes(), "little") ^ int.from_bytes(before.tobytes(), "little")
    raw = bits.to_bytes(max(size, before.itemsize * len(before)), "little")[:size]
    return bytes([bool(before)]) + zlib.compress(raw[1::4] + raw[2::4] + raw[3::4], 1)


def _unpacked(data: bytes, before: array[float]) -> array[float]:
    """Return the row that `_packed` made these bytes of."""
    planes = zlib.decompress(data[1:])
    count = len(planes) // 3
    before = before if data[0] else array("f")
    raw = bytearray(4 * count)
    for place in range(3):
        raw[place + 1 :: 4] = planes[place * count : (place + 1) * count]
    bits = int.from_bytes(raw, "little") ^ int.from_bytes(before.tobytes()[: 4 * count], "little")
    row = array("f")
    row.frombytes(bits.to_bytes(4 * count, "little"))
    return row
