"""The walls between rooms, and the size and style of files."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, Final

import pytest
import re2

from tests.architecture.places import ROOT, SOURCE, named, python_files, text_files

LINES_MAX: Final = 400
# Written so that this file does not find itself. In ten million letters, an expression that begins with a letter, and
# one of RE2, are found in a part of the time.
BUILD_MACHINE: Final = re.compile(r"/(?<![\w.~/-]/)(?:(?:root|Users)/|home/(?!you/)\w)")
REGISTRY: Final = re2.compile(
    r"\b(?:extra-)?index[-_]url\b|\b(?:pypi\.org|pythonhosted\.org|test\.pypi|npmjs\.(?:org|com)|registry\.k8s\.io|k8s\.gcr\.io"
    r"|[a-z]*\.?gcr\.io|ghcr\.io|quay\.io|nvcr\.io|mcr\.microsoft\.com|public\.ecr\.aws)\b"
)
"""Without Docker Hub, which is the default registry of OpenPAI's protocol."""


def test_imports_only_go_down() -> None:
    command = Path(sys.executable).with_name("lint-imports")
    if not command.exists():
        pytest.skip("import-linter is not installed beside this Python")
    ran = subprocess.run([command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout


def test_no_modules_import_each_other_in_a_circle_not_even_for_types() -> None:
    grimp = pytest.importorskip("grimp")
    graph = grimp.build_graph("openpai", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert circle_in(imports) == []


def test_a_circle_of_imports_would_be_found() -> None:
    assert set(circle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}})) == {"b", "c"}


def circle_in(imports: Mapping[str, Iterable[str]]) -> list[str]:
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_file_is_longer_than_a_person_reads() -> None:
    sizes = {named(path): len(path.read_text("utf-8").splitlines()) for path in python_files()}
    assert sizes, "no Python files found"
    written_by_programs = ("migrations/versions", "client/model.py")
    too_long = {
        name for name, size in sizes.items() if size > LINES_MAX and not any(map(name.count, written_by_programs))
    }
    assert too_long == set()


def test_every_module_says_what_it_is() -> None:
    silent = [
        named(path)
        for path in SOURCE.rglob("*.py")
        if (text := path.read_text("utf-8")).strip() and not re.match(r'(?:#.*\n)*r?""".', text)
    ]
    assert silent == []


def test_no_pattern_repeats_a_group_possessively() -> None:
    # Python 3.11.2, which Debian 12 has, goes on in the middle of the last repetition that did not fit.
    group = re.compile(r"(?<!\\)\)[*+?]\+|[A-Z]\}[*+?]\+")
    assert [named(path) for path in SOURCE.rglob("*.py") if group.search(path.read_text("utf-8"))] == []


def test_nothing_relies_on_what_python_3_11_gets_wrong() -> None:
    # What is raised inside `except*` becomes a group before 3.11.4, and `wait_for` loses cancellations before 3.12.
    risky = re.compile(r"^\s*except\*|\basyncio\.wait_for\(", re.MULTILINE)
    assert [named(path) for path in SOURCE.rglob("*.py") if risky.search(path.read_text("utf-8"))] == []


def test_objects_of_kubernetes_have_only_the_fields_that_are_used() -> None:
    field = re.compile(r"^    (\w+): ", re.MULTILINE)
    folder = SOURCE / "kube" / "objects"
    words = Counter(word for path in SOURCE.rglob("*.py") for word in re.findall(r"\w+", path.read_text("utf-8")))
    fields = [name for path in folder.glob("*.py") for name in field.findall(path.read_text("utf-8"))]
    assert fields
    assert [name for name in fields if words[name] == fields.count(name)] == []


def test_no_room_is_called_utils() -> None:
    nameless = re.compile(r"^(utils?|helpers?|common|base|manager|misc)$")
    assert [named(path) for path in SOURCE.rglob("*.py") if nameless.match(path.stem)] == []


@pytest.mark.parametrize("pattern", [BUILD_MACHINE, REGISTRY], ids=["path of a machine", "package index"])
def test_nothing_names_where_it_was_built(pattern: Any) -> None:
    found = {
        f"{named(path)}:{number}": line.strip()
        for path in text_files()
        if pattern.search(text := path.read_text("utf-8", errors="replace")) and path != Path(__file__)
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    }
    assert found == {}


# Spelled with spaces: no file names one, this one included.
@pytest.mark.parametrize(
    "words", ["pypi org", "registry npmjs org", "ghcr io/team/x:2", "eu gcr io/x", "registry k8s io"]
)
def test_a_host_of_a_registry_would_be_found(words: str) -> None:
    assert REGISTRY.search(f"see https://{words.replace(' ', '.')}")


@pytest.mark.parametrize("line", ["cd /Users/x", "see /home/ann/x", "in '/root/y'"])
def test_a_path_of_a_machine_would_be_found(line: str) -> None:
    assert BUILD_MACHINE.search(line)
