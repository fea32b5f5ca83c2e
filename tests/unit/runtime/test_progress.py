"""What tasks report about their progress, in every form, and what is no report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import openpai
from openpai.runtime.progress import METRICS_MAX, Progress, read_progress


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"step": 3, "total": 10, "metrics": {"loss": 0.5}}', Progress(3, 10, {"loss": 0.5})),
        ('{"step": 3}\n{"step": 4}\n\n', Progress(4)),
        ("120/1000 loss=0.3", Progress(120, 1000, {"loss": 0.3})),
        ("step=7 total=9 val/acc=1e-3 bad=x inf=inf", Progress(7, 9, {"val/acc": 0.001})),
        ("old\n5/0", Progress(5)),
        ('{"step": 1, "loss": 2}', Progress(1, None, {"loss": 2.0})),
        ("", None),
        ("starting", None),
        ('{"step": ', None),
        ('{"step": -1}', None),
        ('{"step": NaN}', None),
        ('{"step": true}', None),
        ("[1]", None),
        ("{" * 3000, None),
        ('{"step": 1' + "0" * 400 + "}", None),
    ],
)
def test_reports(text, expected):
    assert read_progress(text) == expected


def test_metrics_are_bounded():
    found = read_progress(json.dumps({"step": 1, "metrics": {f"m{number}": number for number in range(99)}}))
    assert len(found.metrics) == METRICS_MAX
    assert read_progress('{"step": 1, "metrics": {"\\u001b[2J": 1, "ok": 2}}').metrics == {"ok": 2.0}


def test_a_program_reports(tmp_path, monkeypatch):
    file = tmp_path / "progress"
    monkeypatch.setenv("PAI_PROGRESS_FILE", str(file))
    monkeypatch.setattr(openpai, "_reported_at", [-1.0])
    openpai.progress(1, 1000, {"loss": 0.123456})
    openpai.progress(2, 1000)
    assert read_progress(file.read_text()) == Progress(1, 1000, {"loss": 0.123456})
    openpai.progress(1000, 1000)
    assert file.read_text() == '{"step": 1000, "total": 1000, "metrics": {}}\n'
    for wrong in ("nowhere/at/all", ""):
        monkeypatch.setenv("PAI_PROGRESS_FILE", wrong)
        openpai.progress(3, 3, {"loss": object()})


def test_the_client_needs_nothing_but_python(tmp_path):
    program = "import sys, openpai; openpai.progress(2, 4); print([m for m in sys.modules if m.startswith('openpai.')])"
    source = str(Path(openpai.__file__).parents[1])
    environment = {"PAI_PROGRESS_FILE": str(tmp_path / "p"), "PYTHONPATH": source}
    done = subprocess.run([sys.executable, "-S", "-c", program], env=environment, capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
    assert read_progress((tmp_path / "p").read_text()) == Progress(2, 4)
