"""Nothing secret stays in what is stored in clear, and everything comes back for the task."""

from __future__ import annotations

import pytest

from openpai.orchestrator.secrets import WITHHELD, hidden, restored, without_secrets
from openpai.protocol.reading import read_job
from openpai.protocol.writing import dump_spec

JOB = """
protocolVersion: 2
name: train
type: job
secrets: {token: t0ken, nested: {a: [1, deep]}}
prerequisites:
  - {type: dockerimage, name: literal, uri: a/b, auth: {username: me, password: l1teral, registryuri: r.example}}
  - {type: dockerimage, name: referring, uri: a/c, auth: {username: me, password: <% $secrets.token %>}}
taskRoles:
  one: {dockerImage: literal, resourcePerInstance: {cpu: 1, memoryMB: 1, gpu: 0}, commands: [echo <% $secrets.token %>]}
"""


def test_secrets_and_literal_passwords_are_taken_out_and_put_back() -> None:
    spec = read_job(JOB).spec
    bare, taken = hidden(spec)
    stored = dump_spec(bare)
    assert not any(word in stored for word in ("t0ken", "l1teral", "deep"))
    assert "$secrets.token" in stored
    assert restored(bare, taken) == spec


def test_a_job_without_secrets_has_nothing_to_seal() -> None:
    spec = read_job(
        JOB.replace("password: l1teral, ", "").replace("secrets: {token: t0ken, nested: {a: [1, deep]}}", "")
    ).spec
    assert hidden(spec)[1] == {}


@pytest.mark.parametrize(
    "text",
    [
        "sh: s3cret: not found",
        "sh: deep: not found",
        "sh: second line: not found",
        "the PIN is 4711",
        "curl -u l1teral",
        "it breaks off in a long: " + "k" * 20,
    ],
)
def test_a_text_that_holds_a_secret_is_not_shown(text: str) -> None:
    secrets = {"t": "s3cret", "n": {"a": [True, None, {"b": "deep"}]}, "m": "first\n  second line\n", "p": 4711}
    taken = {"secrets": {**secrets, "k": "k" * 500}, "passwords": {"dockerimage/x": "l1teral"}}
    assert without_secrets(text, taken) == WITHHELD
    assert without_secrets("True or None, and s3cre", taken) == "True or None, and s3cre"
