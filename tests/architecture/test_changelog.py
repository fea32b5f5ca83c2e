"""The changelog and the version go with the database's schema."""

from __future__ import annotations

import re
import tomllib
from typing import Final

from openpai.store.revisions import newest_schema
from tests.architecture.places import ROOT

_SECTION: Final = re.compile(r"^## (\d+)\.(\d+)\.(\d+)\n+Database schema (\d{4})\.", re.MULTILINE)


def _sections() -> list[tuple[tuple[int, ...], int]]:
    """Return version and schema of every section, newest first."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    found = [(tuple(map(int, match.groups()[:3])), int(match[4])) for match in _SECTION.finditer(text)]
    assert len(found) == len(re.findall(r"^## ", text, re.MULTILINE)), "each section names its version and its schema"
    return found


def test_the_newest_section_is_of_this_version_and_this_schema() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    newest, schema = _sections()[0]
    assert ".".join(map(str, newest)) == version
    assert schema == int(newest_schema()[:4]), (
        "a new schema comes with a new version, or belongs to one not yet released"
    )


def test_versions_and_schemas_only_grow() -> None:
    sections = _sections()
    assert sections == sorted(sections, reverse=True)
    assert len({version for version, _ in sections}) == len(sections)
