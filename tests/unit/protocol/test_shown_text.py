"""What a terminal would show of a text."""

from __future__ import annotations

import pytest

from openpai.protocol.shown_text import LINE_MAX, ShownText, shown_line


def shown(text: str, size: int) -> str:
    stream = ShownText()
    return "".join(stream.take(text[at : at + size]) for at in range(0, len(text), size)) + stream.finish()


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("plain", "plain"),
        ("10%\r20%\r30%", "30%"),
        ("done\r", "done"),
        ("\r", ""),
        ("Downloading\rok", "okwnloading"),
        ("Downloading\r\x1b[Kok", "ok"),
        ("Downloading\r\x1b[2Kok", "ok"),
        ("abc\rx\x1b[K", "x"),
        ("\x1b[31m10%\x1b[0m\r\x1b[32m20%\x1b[0m", "20%"),
        ("a\x1b]0;title\x07b\rc", "c\\x1b]0;title\\x07b"),
    ],
)
def test_a_line_is_what_is_left_of_it(written, expected):
    assert shown_line(written) == expected
    for size in (1, 3, 1000):
        assert shown(f"before\n{written}\nafter", size) == f"before\n{expected}\nafter"


def test_a_bar_that_was_drawn_a_million_times_is_one_line_in_little_memory():
    stream = ShownText()
    step = "".join(f"\r{number:3d}% |{'#' * 50}|" for number in range(1000))
    assert not any(stream.take(step) for _ in range(100))
    assert stream.take("\n") == f"999% |{'#' * 50}|\n"


def test_a_line_without_an_end_is_handed_out_in_parts():
    stream = ShownText()
    text = "x" * (LINE_MAX // 2)
    parts = [stream.take(text) for _ in range(5)]
    assert sum(map(bool, parts)) == 1
    assert "".join(parts) + stream.finish() == text * 5


def test_short_texts_over_a_long_one_cost_little():
    # Quadratic work over these would take minutes.
    line = "y" * LINE_MAX + "\rx" * LINE_MAX
    assert shown_line(line) == "x" + "y" * (LINE_MAX - 1)
