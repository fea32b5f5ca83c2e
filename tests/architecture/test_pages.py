"""What pages say is there: links lead somewhere, commands and targets exist, generated pages are up to date."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from openpai.app.pages.__main__ import outdated
from openpai.app.pages.permissions import permissions
from tests.architecture.places import DOCS, ROOT, SOURCE, markdown_files, named
from tests.command_tree import WALKED

_BLOCK: Final = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"`[^`\n]+`")
_LINK: Final = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
_HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)
_TARGET: Final = re.compile(r"(?:^|[`$(\s])make ([a-z][a-z-]*)", re.MULTILINE)
_COMMAND: Final = re.compile(r"(?:^|[`$(/\s])pai ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?", re.MULTILINE)
_NAMED_COMMAND: Final = re.compile(r"(?:^|`)pai ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?")
# What names of files on pages begin at.
_TOPS: Final = (".", "src", "src/openpai", "portal", "portal/src", "tests")
ROOMS: Final = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))


def prose(text: str) -> str:
    """Return a page without its code."""
    return _CODE.sub("", _BLOCK.sub("", text))


def code(text: str) -> str:
    """Return nothing but the code of a page."""
    rest = _BLOCK.sub("", text)
    return "\n".join([*(match.group() for match in _BLOCK.finditer(text)), *_CODE.findall(rest)])


def anchors(page: Path) -> set[str]:
    """Return the anchors that a page's headings get where it is shown."""
    headings = _HEADING.findall(_BLOCK.sub("", page.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> Iterable[str]:
    """Yield the relative links of a page that lead nowhere."""
    for link in _LINK.findall(prose(page.read_text("utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


@pytest.mark.parametrize("page", markdown_files(), ids=named)
def test_every_link_leads_somewhere(page: Path) -> None:
    assert list(broken_links(page)) == []


def test_a_broken_link_would_be_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Top\n[a](#top) [b](#gone) [c](page.md#top) [d](gone.md) [e](https://example.org) `[f](g)`\n")
    assert list(broken_links(page)) == ["#gone", "gone.md"]


@pytest.mark.parametrize("page", [page for page in markdown_files() if page.name != "CHANGELOG.md"], ids=named)
def test_every_source_file_that_a_page_names_exists(page: Path) -> None:
    written = re.findall(r"`((?:[\w-]+/)+[\w-]+\.(?:py|tsx?|css|mako))(?:::\w+)?`", page.read_text("utf-8"))
    assert [name for name in written if not any(list((ROOT / top).glob(name)) for top in _TOPS)] == []


@pytest.mark.parametrize("page", markdown_files(), ids=named)
def test_make_knows_every_target_that_a_page_names(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    assert set(_TARGET.findall(code(page.read_text("utf-8")))) <= targets


def test_readme_names_the_most_needed_commands() -> None:
    assert {"demo", "test", "check"} <= set(_TARGET.findall(code((ROOT / "README.md").read_text("utf-8"))))


@pytest.mark.parametrize("page", markdown_files(), ids=named)
def test_pai_knows_every_command_that_a_page_names(page: Path) -> None:
    assert unknown_commands(_COMMAND.findall(code(page.read_text("utf-8")))) == []


def test_pai_knows_every_command_that_the_platform_names() -> None:
    texts = [
        node.value
        for source in sorted((ROOT / "src/openpai").rglob("*.py"))
        if "pai " in (text := source.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    named_commands = [pair for text in texts for pair in _NAMED_COMMAND.findall(text)]
    assert (unknown_commands(named_commands), len(named_commands) > 300) == ([], True)


def unknown_commands(words: list[tuple[str, str]]) -> list[str]:
    """Return those of the commands `pai WORD BELOW` that do not exist."""
    known = {path[1:] for path, _ in WALKED}
    groups = {path[0] for path in known if len(path) > 1}
    return [
        f"pai {word} {below}".strip()
        for word, below in words
        if (word,) not in known or (word in groups and below and (word, below) not in known)
    ]


def test_generated_pages_are_up_to_date() -> None:
    stale = sorted(map(named, outdated(DOCS)))
    assert stale == [], "run `make docs` and commit what it writes"


def test_each_action_names_the_requests_it_is_about() -> None:
    _, _, requests = permissions().partition("## Requests")
    assert [line for line in requests.splitlines() if line.startswith("| `") and "/" not in line] == []


def test_a_page_that_is_out_of_date_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openpai.app.pages.__main__.PAGES", {"old.md": lambda: "new", "same.md": lambda: "same"})
    assert outdated(tmp_path) == {tmp_path / "old.md": "new", tmp_path / "same.md": "same"}
    for name in ("old", "same"):
        (tmp_path / f"{name}.md").write_text(name)
    assert outdated(tmp_path) == {tmp_path / "old.md": "new"}


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_is_described(room: str) -> None:
    text = (DOCS / "architecture.md").read_text("utf-8")
    found = re.search(rf"^### `{room}`\n\n(.+?)\n\n", text, re.MULTILINE | re.DOTALL)
    assert found, f"docs/architecture.md has no paragraph on the room {room!r}"
    assert len(found.group(1).split()) > 20


@pytest.mark.parametrize("room", ROOMS)
def test_the_readme_shows_every_room(room: str) -> None:
    rooms = (ROOT / "README.md").read_text("utf-8").partition("## Architecture")[2].partition("\n## ")[0]
    assert f"`{room}`" in rooms
