"""Job files that other people wrote are read without a fault, and survive being written and read again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from openpai.protocol.reading import read_job
from openpai.protocol.templates import image_of, render_commands
from openpai.protocol.writing import dump_spec, load_spec
from openpai.runtime.plugins import offline_check
from tests.unit.protocol.test_writing import to_yaml

SAMPLES = Path(__file__).parents[4] / "shared" / "samples"
# What is true of these files, and worth a warning: a role that ends the others.
EXPECTED = re.compile(r"taskRoles: the job succeeds as soon as ")
FILES = [*sorted(SAMPLES.glob("jobs/*.yaml")), *sorted(SAMPLES.glob("jobs-v1/*.json"))]


@pytest.mark.skipif(not FILES, reason=f"no sample job files in {SAMPLES.name}/ beside the checkout")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_sample_is_read_and_survives_writing(file: Path) -> None:
    found = read_job(file.read_bytes(), check=offline_check)
    assert read_job(to_yaml(found.spec, mask_secrets=False)).spec == found.spec
    assert load_spec(dump_spec(found.spec), found.spec.secrets) == found.spec
    for role in found.spec.task_roles:
        assert render_commands(found.spec, role.name)
        assert image_of(found.spec, role.name)
    if file.suffix == ".yaml":
        assert [warning for warning in found.warnings if not EXPECTED.search(warning)] == []
