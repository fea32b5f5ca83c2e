"""Nothing secret stays in what is stored in clear, and everything comes back for the task."""

from __future__ import annotations

from openpai.orchestrator.hiding import hidden, restored
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
