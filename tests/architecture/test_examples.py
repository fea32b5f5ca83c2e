"""Random examples are the same in each run."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers


def test_examples_do_not_depend_on_what_a_process_has_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "planets.py"
    file.write_text("NAMES = 'Mercury', 'Venus'\n")
    spec = importlib.util.spec_from_file_location("planets", file)
    assert spec is not None
    monkeypatch.setitem(sys.modules, "planets", importlib.util.module_from_spec(spec))

    @given(st.text())
    def look(_: str) -> None:
        assert "Mercury" not in providers._local_constants.set_for_type("string")

    look()
