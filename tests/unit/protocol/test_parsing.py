"""Files that are no job at all, or want to hurt the reader, get one clear answer."""

from __future__ import annotations

from itertools import pairwise

import pytest
import yaml

from openpai.protocol.parsing import NOTED_MAX, parse

from .jobs import faults_in, job, only_fault, text_of


@pytest.mark.parametrize("text", ["", "   \n", "# nothing\n", "---\n", "null"])
def test_an_empty_file_is_said_to_be_empty(text: str) -> None:
    assert only_fault(text).describe() == "the file is empty (allowed: a job)"


@pytest.mark.parametrize(
    ("text", "kind"), [("- a\n- b\n", "a list"), ("hello", "a single value"), ("42", "a single value")]
)
def test_a_file_that_is_no_mapping_says_what_it_is(text: str, kind: str) -> None:
    fault = only_fault(text)
    assert (fault.line, fault.message) == (1, f"the file holds {kind}")


def test_bytes_that_are_not_text_are_reported_with_their_place() -> None:
    fault = only_fault(b"name: x\ntype: \xff\n")
    assert (fault.line, fault.message) == (2, "the file is not UTF-8 text: byte 15 is 0xff")


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("name: [a, b\ntype: job\n", 2, 5),
        ("name: a: b\n", 1, 8),
        ("name: x\n  type: job\n", 2, 7),
        ("name: 'x\ntype: job\n", 1, 7),
    ],
)
def test_a_syntax_error_names_its_line_and_column(text: str, line: int, column: int) -> None:
    fault = only_fault(text)
    assert fault.line == line
    assert fault.message.startswith(f"the file is not valid YAML at column {column}: ")


def test_a_tab_in_the_indentation_is_called_a_tab() -> None:
    fault = only_fault("taskRoles:\n\tworker: {}\n")
    assert (fault.line, fault.message.partition(": ")[2]) == (2, "a tab is used where only spaces are allowed")


def test_broken_json_is_called_json() -> None:
    fault = only_fault('{\n  "jobName": "x",\n  "image": }\n}')
    assert fault.line is not None
    assert fault.message.startswith("the file is not valid JSON")


def test_a_character_no_file_may_hold_is_named() -> None:
    fault = only_fault("name: x\ntype: a\x07\n")
    assert (fault.line, fault.message) == (2, "the file holds a character that YAML does not allow: U+0007")


def test_keys_given_twice_are_faults_beside_all_others() -> None:
    text = text_of(job(name="a b")) + "type: job\n"
    name, twice = faults_in(text)
    assert name.path == "name"
    assert (twice.path, twice.message) == ("type", "is given twice, first on line 3")
    assert twice.line == text.count("\n")


def test_a_key_given_twice_deep_in_a_list_has_its_whole_path() -> None:
    faults = faults_in("prerequisites:\n- a: 1\n- b: {c: 1, c: 2}\n")
    assert ("prerequisites[1].b.c", 3) in [(fault.path, fault.line) for fault in faults]


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("a: &x [*x]\n", 1, "contains itself"),
        ("a: 1\nb: *x\n", 2, "refers to an anchor that is not there"),
        ("a: 1\nb: !!python/object/apply:os.system [ls]\n", 2, "a tag that a job file may not use"),
        ("a: !local 3\n", 1, "a tag that a job file may not use"),
        ("? [a]\n: 1\n", 1, "a key is text"),
        ("a: 1\n<<: 3\n", 2, "<< takes a mapping"),
        ('a: "x\\0y"\n', 1, "NUL character"),
    ],
)
def test_what_a_job_file_never_needs_is_refused(text: str, line: int, part: str) -> None:
    assert [fault.line for fault in faults_in(text) if part in fault.message] == [line]


def test_what_is_refused_in_many_places_is_reported_in_one_answer() -> None:
    text = 'name: a b\nsecrets: {a: *b, c: !d e, f: "\\0"}\nextras: !g {h: [*i, *j]}\n'
    paths = {fault.path for fault in faults_in(text)}
    assert paths > {"name", "secrets.a", "secrets.c", "secrets.f", "extras", "extras.h[0]", "extras.h[1]"}


def test_a_hopeless_file_is_given_up_early() -> None:
    faults = faults_in("a: [" + "*b, " * 10_000 + "]")
    assert len(faults) == NOTED_MAX + 1
    assert faults[-1].message.startswith("and more faults")


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="libyaml is missing, and its complaints with it")
@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("a: b: c\n", 'a text that holds ": " in quotes, and the keys of a mapping below each other'),
        ("a:\n  b\n c: d\n", 'a text that holds ": " in quotes, and the keys of a mapping below each other'),
        ("a:\n- @b\n", "a text that begins with @, ` or % in quotes"),
        ("a:\n- *.py\n", "a text that begins with *, & or [ in quotes"),
        ("a:\n- [ -f x ] && y\n", "a text that begins with *, & or [ in quotes"),
        ("a:\n  - 'b' c\n", "a text that begins with [, { or a quote in quotes as a whole"),
        (
            "a:\n   b: 1\n  c: 2\n",
            "keys of a mapping below each other, and a text that begins with a quote in quotes as a whole",
        ),
        ('a: "\\d"\n', r"single quotes around a text with \, or \\ for each"),
    ],
)
def test_a_text_that_lacks_quotes_is_said_to_need_them(text: str, allowed: str) -> None:
    assert only_fault(text).allowed == allowed


def test_a_syntax_error_names_the_start_of_what_was_being_read() -> None:
    assert "that begins on line 1" in only_fault("a: [\n b\nc: d\n").message


def test_half_a_character_is_no_accident() -> None:
    fault = only_fault("name: x\ntype: \ud800\n")
    assert (fault.line, fault.message) == (2, "the file holds a character that YAML does not allow: U+D800")


def test_a_file_in_the_encoding_of_windows_shells_is_reported() -> None:
    assert only_fault(text_of(job()).encode("utf-16")).message == "the file is not UTF-8 text: it is UTF-16"


@pytest.mark.parametrize("text", ["secrets: {t: *hush}\n", "secrets: {t: !hush x}\n", "secrets: {t: !hush [x]}\n"])
def test_a_secret_that_should_have_been_quoted_is_not_repeated(text: str) -> None:
    faults = faults_in(text)
    assert [fault.path for fault in faults if "needs quotes" in fault.message] == ["secrets.t"]
    assert not [fault for fault in faults if "hush" in fault.describe()]


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 100_000, '{"a":' * 100_000, "{a: " * 100_000])
def test_deep_nesting_is_refused_before_it_hurts(text: str) -> None:
    assert "nested deeper than 64 levels" in only_fault(text).message


def test_aliases_that_blow_up_are_refused() -> None:
    lines = ["a: &a [" + ",".join(["lol"] * 9) + "]"]
    for before, after in pairwise("abcdefghi"):
        lines.append(f"{after}: &{after} [{','.join([f'*{before}'] * 9)}]")
    assert "makes the file larger than" in only_fault("\n".join(lines)).message


def test_keys_are_always_text() -> None:
    assert parse("on: 1\n2: b\nnull: c\n~: d\ntrue: e\n").documents[0] == {
        "on": 1,
        "2": "b",
        "null": "c",
        "~": "d",
        "true": "e",
    }


def test_json_may_hold_comments_tabs_and_escaped_pairs() -> None:
    text = '// first\n{\t"a": "http://x//y", /* two\nlines */ "b": "\\ud83d\\ude00\\/", // last\n"c": [1.5, true]}'
    parsed = parse(text)
    assert parsed.documents[0] == {"a": "http://x//y", "b": "\U0001f600/", "c": [1.5, True]}
    assert parsed.lines[0].line_of(("c", 1)) == 4


def test_a_place_that_is_not_there_has_the_line_of_what_is_around_it() -> None:
    lines = parse("a:\n  b:\n  - c: 1\n").lines[0]
    assert [lines.line_of(path) for path in [("a",), ("a", "b", 0, "c"), ("a", "b", 7), ("a", "x", "y"), ("z",)]] == [
        1,
        3,
        2,
        1,
        None,
    ]
