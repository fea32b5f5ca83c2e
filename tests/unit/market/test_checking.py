"""What may be published: no secrets in job files, no harmful texts, no place that leads elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from openpai.market.checking import check_content, check_name, check_protocol
from openpai.market.items import Content, Kind, Visibility
from openpai.protocol.errors import InvalidParameters, InvalidProtocol

FILE = """\
protocolVersion: 2
name: train
type: job
prerequisites:
  - {type: dockerimage, name: image, uri: python}
parameters: {lr: 0.1}
taskRoles:
  worker:
    instances: 1
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 0}
    commands: ["train --lr <% $parameters.lr %>"]
"""
ITEM = Content("Train", protocol=FILE)


def faults(text: str) -> list[tuple[int | None, str]]:
    with pytest.raises(InvalidProtocol) as refused:
        check_protocol(text)
    return [(fault.line, fault.path) for fault in refused.value.faults]


def test_a_job_file_without_secrets_is_accepted() -> None:
    check_content(Kind.TEMPLATE, ITEM)


@pytest.mark.parametrize("section", ["secrets: {token: s3cret}", "---\ntoken: s3cret", "secrets:\n  token: s3cret"])
def test_a_secret_is_refused_with_its_line_and_is_not_repeated(section: str) -> None:
    with pytest.raises(InvalidProtocol) as refused:
        check_protocol(FILE + section)
    [fault] = refused.value.faults
    assert fault.path == "secrets.token"
    assert fault.line in (13, 14)
    assert "s3cret" not in str(refused.value.as_dict())


@pytest.mark.parametrize("masked", ['"******"', '""', "null"])
def test_a_masked_secret_is_one_that_each_user_gives(masked: str) -> None:
    text = FILE.replace("train --lr", "echo '<% $secrets.token %>';")
    check_protocol(f"{text}secrets:\n  token: {masked}\n")


def test_a_registry_password_is_refused_unless_it_is_a_reference() -> None:
    with_auth = FILE.replace("uri: python}", "uri: python, auth: {username: me, password: hunter2}}")
    assert faults(with_auth) == [(5, "prerequisites[0].auth.password")]
    check_protocol(with_auth.replace("hunter2", '"<% $secrets.pw %>"') + 'secrets: {pw: "******"}')


@pytest.mark.parametrize(
    "key",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_" + "a1B2" * 9,
        "hf_" + "abCD" * 9,
        "glpat-" + "a1_B" * 5,
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "https://me:hunter2@example.org/repo.git",
    ],
)
def test_a_well_known_key_in_a_command_is_refused_with_its_line(key: str) -> None:
    assert faults(FILE.replace("train --lr", f"login {key};")) == [(12, "")]


def test_an_address_without_a_password_is_no_secret() -> None:
    check_protocol(FILE.replace("train --lr", "git clone https://git@example.org:8443/repo.git;"))
    check_protocol(FILE.replace("train --lr", "git clone https://me:${TOKEN}@example.org/repo.git;"))


def test_code_that_was_sent_along_belongs_to_its_sender() -> None:
    assert faults(FILE + f"extras: {{code: {'a' * 64}}}") == [(13, "extras.code")]


def test_faults_of_the_job_file_are_reported_with_their_lines() -> None:
    assert (9, "taskRoles.worker.instances") in faults(FILE.replace("instances: 1", "instances: none"))
    assert faults("jobName: old\ntaskRoles: []")[0][0] == 1
    assert faults(FILE + "extras: {sweep: {matrix: {lr: [1, 2]}}}")[0][1] == "extras.sweep.matrix"
    assert faults(FILE + "# " + "x" * (256 << 10))[0][0] is None


def test_ten_thousand_tasks_are_as_many_as_a_job_may_have() -> None:
    check_protocol(FILE.replace("instances: 1", "instances: 10000"))
    assert faults(FILE.replace("instances: 1", "instances: 10001")) == [(9, "taskRoles.worker.instances")]


@pytest.mark.parametrize(
    "change",
    [
        {"title": ""},
        {"title": "a\u202eb"},
        {"title": "a\x1b[2Jb"},
        {"title": "a\nb"},
        {"title": "x" * 101},
        {"summary": "x" * 301},
        {"description": "x" * 65537},
        {"description": "\x1b]0;owned\x07"},
        {"description": "a\u2066b"},
        {"categories": ("a", "a")},
        {"tags": tuple(map(str, range(21)))},
        {"tags": ("a,b",)},
        {"tags": (" ",)},
        {"protocol": ""},
        {"visibility": Visibility.SHARED},
        {"visibility": Visibility.SHARED, "virtual_clusters": ("a/b",)},
        {"groups": tuple(map(str, range(51)))},
    ],
)
def test_a_text_that_is_not_fit_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameters):
        check_content(Kind.TEMPLATE, replace(ITEM, **change))


@pytest.mark.parametrize(
    "place",
    [
        {},
        {"storage": "data", "address": "https://example.org/x"},
        {"address": "javascript:alert(1)"},
        {"address": "file:///etc/passwd"},
        {"address": "https://me:pw@example.org/x"},
        {"address": "https://[broken/x"},
        {"storage": "data", "path": "../secret"},
        {"path": "/imagenet"},
    ],
)
def test_a_data_set_is_in_one_place_that_jobs_can_reach(place: dict[str, str]) -> None:
    with pytest.raises(InvalidParameters):
        check_content(Kind.DATASET, Content("Data", **place))


@pytest.mark.parametrize("place", [{"storage": "data", "path": "/a/b"}, {"address": "s3://bucket/imagenet"}])
def test_a_data_set_needs_no_job_file(place: dict[str, str]) -> None:
    check_content(Kind.DATASET, Content("Data", **place))


@pytest.mark.parametrize("name", ["", "A", "a b", "-a", "a-", "a\u202eb", "é", "x" * 65, "a/b", ".."])
def test_a_name_is_fit_for_paths_and_commands(name: str) -> None:
    with pytest.raises(InvalidParameters):
        check_name(name)
    check_name("fine-tune_2.0")
