"""A log that breaks anywhere, any number of times, is read without losing or repeating a byte."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from hypothesis import example, given
from hypothesis import strategies as st

from openpai.backends.kubernetes.log_lines import LINE_BYTES, MARK, Cursor, LogLines

SECOND = 1_000_000_000
START = 1_800_000_000 * SECOND


def stamped(lines: Sequence[tuple[int, bytes]], since_s: int | None = None) -> bytes:
    """Return a log as the kubelet sends it, which leaves out lines from before a second."""
    found = b""
    for at, line in lines:
        if since_s is None or at >= since_s * SECOND:
            found += stamp(at) + line
    return found


def stamp(at: int) -> bytes:
    text = datetime.fromtimestamp(at // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{at % SECOND:09}Z ".encode()


class Reader:
    """Reads a log in several answers, and stores its cursor between them."""

    def __init__(self) -> None:
        self.cursor = Cursor()
        self.streams = {"stdout": b"", "runtime": b""}

    def read(self, data: bytes, *, piece: int = 7, is_whole: bool = True) -> LogLines:
        self.cursor = Cursor.of(json.loads(json.dumps(self.cursor.document())))
        lines = LogLines(self.cursor)
        for start in range(0, len(data), piece):
            for stream, content in lines.feed(data[start : start + piece]):
                self.streams[stream] += content
        if is_whole:
            for stream, content in lines.finish():
                self.streams[stream] += content
        return lines


def test_lines_lose_their_times_and_the_wrapper_s_go_to_its_own_stream() -> None:
    reader = Reader()
    reader.read(
        stamped([(START, b"one\n"), (START + 1, MARK + b"task starts\n"), (START + 2, b"\n"), (START + 3, b"two")])
    )

    assert reader.streams == {"stdout": b"one\n\ntwo", "runtime": MARK + b"task starts\n"}


def test_times_of_nodes_in_another_zone_are_understood() -> None:
    reader = Reader()
    reader.read(b"2027-01-15T10:00:00.000000001+02:00 a\n2027-01-15T08:00:00.000000002Z b\n")

    assert reader.streams["stdout"] == b"a\nb\n"
    assert list(reader.cursor.recent) == [START + 1, START + 2]


def test_an_error_of_the_node_is_not_output_of_the_task() -> None:
    reader = Reader()
    reader.read(stamp(START) + b"one\nfailed to create fsnotify watcher: too many open files")

    assert reader.streams["stdout"] == b"one\n"
    assert (
        reader.streams["runtime"]
        == MARK + b"the node reports: failed to create fsnotify watcher: too many open files\n"
    )


def test_a_line_of_megabytes_is_passed_on_in_parts() -> None:
    reader = Reader()
    lines = LogLines(reader.cursor)
    line = b"x" * (3 << 20)
    got = []
    for start in range(0, len(line), 4096):
        piece = stamp(START) + line[:4096] if start == 0 else line[start : start + 4096]
        got += [content for _, content in lines.feed(piece)]
        assert len(lines._rest) <= LINE_BYTES
    assert b"".join(got) + lines._rest == line


def test_a_break_within_a_long_line_continues_it() -> None:
    whole = [(START, b"a\n"), (START + 5, b"0123456789" * 20_000 + b"\n"), (START + 9, b"b\n")]
    data = stamped(whole)
    reader = Reader()
    reader.read(data[:100_000], piece=4096, is_whole=False)
    assert 0 < reader.cursor.open_bytes < 100_000
    reader.read(stamped(whole, reader.cursor.since_s), piece=4096)

    assert reader.streams["stdout"] == b"".join(line for _, line in whole)


def test_a_rotated_log_is_noticed_and_read_on() -> None:
    reader = Reader()
    reader.read(stamped([(START, b"a\n"), (START + 1, b"b\n")]))
    lines = reader.read(stamped([(START + 9, b"c\n")]))

    assert lines.may_have_gap
    assert reader.streams["stdout"] == b"a\nb\nc\n"
    assert not reader.read(stamped([(START + 9, b"c\n"), (START + 10, b"d\n")])).may_have_gap
    assert reader.streams["stdout"] == b"a\nb\nc\nd\n"


def test_the_rest_of_a_line_that_rotation_took_does_not_join_two_lines() -> None:
    reader = Reader()
    reader.read(stamp(START) + b"x" * 100_000, is_whole=False, piece=4096)
    reader.read(stamped([(START + 9, b"c\n")]))

    assert reader.streams["stdout"].endswith(b"x\nc\n")


def test_a_clock_that_is_set_back_loses_nothing() -> None:
    # Lines may be repeated then: by their times alone, those of before cannot be recognised.
    before = [(START + 7200 * SECOND + number, b"before %d\n" % number) for number in range(3)]
    after = [(START + number * SECOND, b"after %d\n" % number) for number in range(3)]
    reader = Reader()
    reader.read(stamped([*before, *after[:2]]))
    reader.read(stamped([*before, *after], reader.cursor.since_s))

    assert reader.streams["stdout"].count(b"after 2\n") == 1
    assert set(reader.streams["stdout"].splitlines(True)) == {line for _, line in [*before, *after]}


def test_what_is_stored_stays_small() -> None:
    reader = Reader()
    reader.read(stamped([(START + number, b"line\n") for number in range(10_000)]), piece=1 << 16)

    assert len(json.dumps(reader.cursor.document())) < 4096


lines_of_a_log = st.lists(
    st.tuples(
        # Lines of two streams: a little out of order, and some with the same time.
        st.sampled_from([0, 1, 1, 2, -3, 400_000_000, 2 * SECOND]),
        st.binary(max_size=12).map(lambda text: text.replace(b"\n", b".")),
    ),
    max_size=40,
)


@example([(0, b""), (-3, b"")], [32], 1)
@given(lines_of_a_log, st.lists(st.integers(0, 2000), max_size=6), st.integers(1, 40) | st.just(4096))
def test_any_number_of_breaks_anywhere_changes_nothing(
    steps: list[tuple[int, bytes]], breaks: list[int], piece: int
) -> None:
    at, log = START, []
    for step, line in steps:
        at += step
        log.append((at, line + b"\n"))
    reader = Reader()
    for length in breaks:
        reader.read(stamped(log, reader.cursor.since_s)[:length], piece=piece, is_whole=False)
    lines = reader.read(stamped(log, reader.cursor.since_s), piece=piece)

    assert reader.streams["stdout"] == b"".join(line for _, line in log)
    assert not lines.may_have_gap


@given(st.binary(max_size=300), st.integers(1, 9))
def test_no_answer_breaks_the_reader(data: bytes, piece: int) -> None:
    reader = Reader()
    reader.read(data, piece=piece)
    reader.read(stamp(START) + data, piece=piece)


def test_a_line_from_the_second_before_is_not_taken_for_an_old_one() -> None:
    log = [(START, b"out\n"), (START - 3, b"err\n")]
    reader = Reader()
    reader.read(stamped(log[:1]))
    reader.read(stamped(log, reader.cursor.since_s))

    assert reader.streams["stdout"] == b"out\nerr\n"


def test_a_log_that_comes_in_large_pieces_is_continued() -> None:
    log = [(START + number * 10_000_000, b"line %d\n" % number) for number in range(1000)]
    reader = Reader()
    reader.read(stamped(log[:700]), piece=1 << 16)
    assert reader.cursor.since_s is not None
    reader.read(stamped(log, reader.cursor.since_s), piece=1 << 16)

    assert reader.streams["stdout"] == b"".join(line for _, line in log)
