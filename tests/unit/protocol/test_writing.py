"""A job can be written for people, secrets masked, and for the store, secrets left out."""

from __future__ import annotations

import json

import pytest
import yaml

from openpai.protocol.documents import document_of
from openpai.protocol.job import Completion, JobSpec, Resources, TaskRole
from openpai.protocol.reading import read_job
from openpai.protocol.writing import dump_masked, dump_spec, load_spec, masked_yaml

from .jobs import faults_in, job, text_of


def read(**changes: object) -> JobSpec:
    return read_job(json.dumps(job(**changes))).spec


def to_yaml(spec: JobSpec, *, mask_secrets: bool = True) -> str:
    return masked_yaml(dump_masked(spec) if mask_secrets else json.dumps(document_of(spec)))


def test_jobs_that_differ_in_their_name_share_their_task_roles() -> None:
    one, other = read(name="one"), read(name="other")
    assert one.name != other.name
    assert all(mine is its for mine, its in zip(one.task_roles, other.task_roles, strict=True))


def test_only_what_differs_from_a_default_is_written() -> None:
    spec = JobSpec("small", (TaskRole("main", "image", Resources(1, 2, 0), ("echo",), completion=Completion(1, 1)),))
    assert document_of(spec) == {
        "protocolVersion": 2,
        "name": "small",
        "type": "job",
        "taskRoles": {
            "main": {
                "dockerImage": "image",
                "resourcePerInstance": {"cpu": 1, "memoryMB": 2, "gpu": 0},
                "commands": ["echo"],
            }
        },
    }


def test_secrets_are_masked_wherever_yaml_would_let_them_hide() -> None:
    secrets = {"plain": "hunter2", "deep": {"key": ["hunter3"]}, "number": 4711}
    document = job(secrets=secrets)
    document["prerequisites"][0]["auth"] = {"username": "me", "password": "hunter4"}
    text = to_yaml(read_job(text_of(document)).spec)
    assert yaml.safe_load(text)["secrets"] == dict.fromkeys(secrets, "******")
    assert yaml.safe_load(text)["prerequisites"][0]["auth"] == {"username": "me", "password": "******"}
    assert "hunter" not in text
    assert "4711" not in text


def test_a_reference_to_a_secret_is_not_masked() -> None:
    document = job()
    document["prerequisites"][0]["auth"] = {"password": "<% $secrets.token %>"}
    assert "<% $secrets.token %>" in to_yaml(read_job(text_of(document)).spec)


def test_what_was_masked_cannot_be_submitted_by_mistake() -> None:
    assert [fault.path for fault in faults_in(to_yaml(read()))] == ["secrets.token"]


def test_with_secrets_the_file_says_the_same_job() -> None:
    spec = read()
    assert read_job(to_yaml(spec, mask_secrets=False)).spec == spec


def test_the_store_gets_no_secret_and_gives_the_same_job_back() -> None:
    spec = read(secrets={"token": "hunter2"})
    text = dump_spec(spec)
    assert "hunter2" not in text
    assert "secrets" not in json.loads(text)
    assert load_spec(text, {"token": "hunter2"}) == spec
    assert load_spec(text, {}).secrets == {}


@pytest.mark.parametrize(
    "text",
    [
        "on",
        "1e5",
        "007",
        "0x1F",
        "null",
        "~",
        "",
        " a ",
        "a\nb\n",
        "\n",
        "# x",
        "- x",
        "é😀",
        "\x85",
        "\ufeff",
        "a\tb",
        "1:30",
        "<<",
        "=",
        "2024-01-01",
        "x: y",
        "'\"",
        "\u2028",
        "a \nb",
        "\r\n",
    ],
)
def test_every_text_survives_being_written_and_read(text: str) -> None:
    spec = read(parameters={"x": text, "list": [text], text or "empty": 1})
    again = read_job(to_yaml(spec, mask_secrets=False)).spec
    assert again.parameters == {"x": text, "list": [text], text or "empty": 1} == spec.parameters


def test_a_job_that_is_read_back_names_the_default_virtual_cluster() -> None:
    document = json.loads(dump_masked(read(extras={"private": True})))
    assert document["defaults"] == {"virtualCluster": "default"}
    assert list(document)[-2:] == ["defaults", "extras"]
