"""Job files that are made of items: one's own values at their places, and no others."""

from __future__ import annotations

import pytest

from openpai.market.running import job_file, parameters_of, secrets_of
from openpai.protocol.errors import InvalidParameters
from openpai.protocol.reading import read_job

from .test_checking import FILE

WITH_SECRET = FILE.replace("train --lr", "echo '<% $secrets.token %>' --lr") + 'secrets:\n  token: "******"\n'


def test_values_of_the_user_replace_the_defaults() -> None:
    text = job_file(FILE, name="mine", suffix="1", parameters={"lr": 5}, virtual_cluster="team")
    spec = read_job(text).spec
    assert (spec.name, spec.parameters, spec.virtual_cluster) == ("mine", {"lr": 5}, "team")


def test_without_a_name_the_job_has_the_files_and_a_suffix() -> None:
    assert read_job(job_file(FILE, name="", suffix="ab12")).spec.name == "train-ab12"


def test_a_parameter_that_is_not_there_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(InvalidParameters) as refused:
        job_file(FILE.replace("lr: 0.1", "rate: 0.1"), name="", suffix="1", parameters={"rat": 1})
    assert "'rate'" in refused.value.advice


@pytest.mark.parametrize("text", [WITH_SECRET, WITH_SECRET.replace("secrets:\n  token", "---\ntoken")])
def test_each_user_gives_their_own_secrets(text: str) -> None:
    assert secrets_of(text) == ("token",)
    with pytest.raises(InvalidParameters, match="token"):
        job_file(text, name="", suffix="1")
    with pytest.raises(InvalidParameters, match="no secret 'other'"):
        job_file(text, name="", suffix="1", secrets={"token": "mine", "other": "x"})
    assert read_job(job_file(text, name="", suffix="1", secrets={"token": "mine"})).spec.secrets == {"token": "mine"}


def test_the_parameters_of_a_file_are_shown_with_their_defaults() -> None:
    assert parameters_of(FILE) == {"lr": 0.1}
