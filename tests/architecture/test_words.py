"""The words of the field: messages count GPUs and CPUs, and no word that only this project used comes back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import re2

from tests.architecture.places import DOCS, ROOT, SOURCE, named

_OURS: Final = re.compile(r"\b(?:gang|device)s?\b", re.IGNORECASE)
# A line that may hold such a message, so that few files are parsed.
_QUOTED: Final = re.compile(r'''^(?!\s*(?:#|""")).*["'].*\b(?:gang|device)s?\b''', re.MULTILINE)
# Real devices, and other programs' own words.
_FIELD: Final = re.compile(
    r"device[ -]plugin|devices of these drivers|a device(?: or a socket)?$|it is a device|InfiniBand devices|Device\\s"
    r"|device\.driver|device\.attributes|\{\} has no devices|select device driver|width=device-width|disk or device"
    r"|power limit of a device"
)
# Texts that only callers of the scheduler's own rooms, programs in containers and readers of logs see.
_INSIDE: Final = (
    "openpai/scheduler/cells/",
    "openpai/backends/kubernetes/received.py",
    "openpai/diagnosis/error_forms.py",
)
_OLD: Final = re2.compile(
    r"(?i)\b(?:wish(?:es|ed)?|told|shelf|shelves|squatters?|teller|shall|anew|whose doing|lest|hitherto|forthwith)\b"
)
# A variable is a message, an answer, a reason or a body, whoever wrote or sent it.
_OWN_NAMES: Final = re.compile(r"\b_?(?:said|told|saying|whom)\b")
# Names in documents of earlier versions, which are still read.
_EARLIER: Final = re.compile(r'"wishes"|"told"|`told`')
# What `make portal` writes from these is left out: it may be of an earlier tree.
_PROSE: Final = [
    *(path for kind in ("*.py", "*.yaml") for path in SOURCE.rglob(kind)),
    *(path for room in ("bench", "tests") for path in (ROOT / room).rglob("*.py") if path != Path(__file__)),
    *(
        path
        for kind in ("*.ts", "*.tsx", "zh.po")
        for path in (ROOT / "portal" / "src").rglob(kind)
        if path.name != "schema.d.ts" and not (path.parent.name == "locales" and path.suffix == ".ts")
    ),
    *DOCS.rglob("*.md"),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
]


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each string of more than one word that is no docstring and goes into no log."""
    tree = ast.parse(source)
    left_out: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            left_out.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            left_out.update(map(id, node.values))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_log(node.func.value):
            left_out.update(map(id, node.args))
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        text = ""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        elif isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        if " " in text:
            yield getattr(node, "lineno", 0), text


def names(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each variable, parameter and function that is defined."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name


def _is_log(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in {"log", "_log"}


def unusual(text: str) -> bool:
    """Return whether a message speaks of gangs or devices, where its reader knows jobs, GPUs and CPUs."""
    return _OURS.search(_FIELD.sub("", text)) is not None


def test_messages_speak_of_jobs_and_gpus() -> None:
    found = {
        f"{named(path)}:{line}": text
        for path in SOURCE.rglob("*.py")
        if not any(inside in path.as_posix() for inside in _INSIDE)
        and _QUOTED.search(source := path.read_text("utf-8"))
        for line, text in texts(source)
        if unusual(text)
    }
    assert found == {}


def test_the_portal_speaks_of_jobs_and_gpus() -> None:
    messages = re.findall(r'^msgid "(.*)"$', (ROOT / "portal/src/locales/zh.po").read_text("utf-8"), re.MULTILINE)
    assert len(messages) > 100
    assert [text for text in messages if unusual(re.sub(r"\{\w+\}", "", text))] == []


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ('raise Refused("E", f"the gang needs {n} GPUs")', True),
        ('message = "100 devices of a kind"', True),
        ('log.error("a device was granted twice")', False),
        ('"""A docstring about gangs and devices."""', False),
        ('say("needs a device plugin")', False),
        ('message = "100 tasks need 100 CPUs"', False),
    ],
)
def test_such_a_message_would_be_found(source: str, *, is_found: bool) -> None:
    assert any(unusual(text) for _, text in texts(source)) is is_found


def test_no_word_of_our_own_comes_back() -> None:
    assert len(_PROSE) > 500
    found = {
        f"{named(path)}:{number}": line.strip()
        for path in _PROSE
        if _OLD.search(text := path.read_text("utf-8"))
        for number, line in enumerate(text.splitlines(), 1)
        if _OLD.search(_EARLIER.sub("", line))
    }
    assert found == {}


def test_pages_are_part_of_what_is_searched() -> None:
    assert {Path("docs/guide.md"), Path("src/openpai/diagnosis/rules.yaml"), Path("portal/src/locales/zh.po")} <= {
        path.relative_to(ROOT) for path in _PROSE
    }


@pytest.mark.parametrize("folder", ["src", "bench", "tests"])
def test_no_name_is_a_word_of_our_own(folder: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}": name
        for path in (ROOT / folder).rglob("*.py")
        if _OWN_NAMES.search(source := path.read_text("utf-8"))
        for line, name in names(source)
        if _OWN_NAMES.fullmatch(name)
    }
    assert found == {}


def test_such_a_name_would_be_found() -> None:
    source = "def f(said):\n    for told in said:\n        kept = told\n    return {'said': kept.said}\n"
    assert sorted(name for _, name in names(source) if _OWN_NAMES.fullmatch(name)) == ["said", "told"]
