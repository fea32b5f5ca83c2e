"""Which texts a match of an expression needs, and that searching by them finds what searching without them finds."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from openpai.logs import searching
from openpai.logs.needed_texts import needed_texts
from openpai.logs.searching import Search, compiled, read_block, search_block
from openpai.ports.logs import LogHit, LogPattern
from openpai.protocol.errors import InvalidParameters
from tests.costs import counted_lines


@pytest.mark.parametrize(
    ("expression", "texts"),
    [
        ("RuntimeError|Traceback|nan", ("RuntimeError", "Traceback", "nan")),
        (r"^Run.*CUDA.*\bnan\b", ("CUDA",)),
        ("(?:loss|accuracy): +nan", ("accuracy", "loss")),
        ("(?P<what>oom kill|killed)+ by", ("killed", "oom kill")),
        (r"step \d+ of [0-9]+ failed", (" failed",)),
        (r"3\.14 \[end\]", ("3.14 [end]",)),
        ("colou?rs", ("colo",)),
        ("abcd*ef", ("abc",)),
        ("abcd+ef", ("abcd",)),
        ("abc{2}def", ("abc", "def")[:1]),
        ("x{,3}yzzy", ("yzzy",)),
        ("[]abc]long", ("long",)),
        ("[^]abc]long", ("long",)),
        (r"[[:alpha:]\]x]long", ("long",)),
        ("(?:error)?", ()),
        ("(?:error){0,5} in", (" in",)),
        ("error|z*", ()),
        ("error|", ()),
        ("ab", ()),
        (r"\x41bcdef", ()),
        (r"\Qa.b.c\E", ()),
        (r"\pNabc", ()),
        ("(?i)error", ()),
        ("a" * 3 + "|b" * 9, ()),
        ("|".join(f"word{number}" for number in range(9)), ()),
    ],
)
def test_the_texts_that_a_match_needs(expression: str, texts: tuple[str, ...]) -> None:
    assert needed_texts(expression) == texts


def an_expression(chance: random.Random, depth: int = 3) -> str:
    """Return a random expression over few letters, with much of the syntax of RE2."""
    if depth == 0 or chance.random() < 0.3:
        text = "".join(chance.choices("abB", k=chance.randrange(1, 6)))
        return chance.choice(
            [text, text, r"\x61", r"\.", r"\Qa.\E", "[ab]", "[^]a]", "[[:upper:]]", r"\b", ".", "^", "$"]
        )
    parts = [an_expression(chance, depth - 1) for _ in range(chance.randrange(1, 4))]
    match chance.randrange(4):
        case 0:
            return "|".join(parts)
        case 1:
            begin = chance.choice(["(", "(?:", "(?P<n>", "(?i:", "(?i)("])
            return f"{begin}{parts[0]}){chance.choice(['', '', '*', '+', '?', '{0}', '{2}', '{,2}', '{1,2}', '+?'])}"
        case _:
            ends = ["", "", "", "*", "+", "?", "??", "{0,1}", "{2}", "{,2}", "{"]
            return "".join(part + chance.choice(ends) for part in parts)


@pytest.mark.slow
def test_a_search_by_needed_texts_finds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(11)
    path = tmp_path / "log"
    lines = ["".join(chance.choices("aabB.\r {,2}", k=chance.randrange(14))) for _ in range(300)]
    path.write_text("\n".join(lines))
    monkeypatch.setattr(searching, "BLOCK_BYTES", 900)
    tried = 0
    while tried < 400:
        pattern = LogPattern(an_expression(chance), is_regex=True, ignores_case=chance.random() < 0.3)
        try:
            search = compiled(pattern)
        except InvalidParameters:
            continue
        tried += bool(search.needed)
        if search.needed:
            monkeypatch.setattr(searching, "TRIES_MAX", chance.choice([1, 3, 1000]))
            assert hits_of(path, search) == hits_of(path, Search(search.expression)), pattern


def hits_of(path: Path, search: Search) -> list[LogHit]:
    block, hits = read_block(str(path), 0), list[LogHit]()
    while block.data:
        hits += [hit for hit, _ in search_block(block, search, 10_000)]
        block = read_block(str(path), block.after)
    return hits


def test_lines_that_have_a_text_and_no_match_do_not_cost_more_than_a_search_of_all(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"an error, but no\n" * 100_000)
    search = compiled(LogPattern("error .*found", is_regex=True))
    assert search.needed
    with counted_lines() as lines:
        assert search_block(read_block(str(path), 0), search, 10) == []
    assert lines.count < 50_000
