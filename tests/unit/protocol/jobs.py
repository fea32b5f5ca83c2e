"""An ordinary job file that tests change one thing of, and how they read the answer."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import yaml

from openpai.protocol.errors import Fault, InvalidProtocol
from openpai.protocol.reading import read_job

ORDINARY: dict[str, Any] = {
    "protocolVersion": 2,
    "name": "ordinary",
    "type": "job",
    "prerequisites": [
        {"type": "dockerimage", "name": "image", "uri": "python:3.12"},
        {"type": "data", "name": "pictures", "uri": ["http://here/a.tgz", "http://here/b.tgz"]},
        {"type": "script", "name": "trainer", "uri": "http://here/code", "callbacks": [{"event": "taskStarts"}]},
        {"type": "output", "name": "results", "uri": "/mnt/out"},
    ],
    "parameters": {"epochs": 10, "rate": 1.5, "two words": 2, "deep": {"on": True, "none": None, "list": ["a", "b"]}},
    "secrets": {"token": "a&b<c\"d'e"},
    "taskRoles": {
        "worker": {
            "instances": 4,
            "dockerImage": "image",
            "data": "pictures",
            "script": "trainer",
            "output": "results",
            "resourcePerInstance": {"cpu": 2, "memoryMB": 1024, "gpu": 1},
            "commands": ["python train.py"],
        }
    },
}


def job(**changes: Any) -> dict[str, Any]:
    """The ordinary job with top-level keys replaced, or taken out where None is given."""
    document = {**deepcopy(ORDINARY), **changes}
    return {key: value for key, value in document.items() if value is not None}


def job_with_worker(**changes: Any) -> dict[str, Any]:
    """The ordinary job with keys of its only task role replaced, or taken out where None is given."""
    document = deepcopy(ORDINARY)
    worker = {**document["taskRoles"]["worker"], **changes}
    document["taskRoles"]["worker"] = {key: value for key, value in worker.items() if value is not None}
    return document


def text_of(document: dict[str, Any]) -> str:
    text: str = yaml.dump(document, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False)
    return text


def faults_in(text: str | bytes | dict[str, Any]) -> tuple[Fault, ...]:
    """What is wrong with a file that must not be accepted."""
    with pytest.raises(InvalidProtocol) as caught:
        read_job(text_of(text) if isinstance(text, dict) else text)
    return caught.value.faults


def only_fault(text: str | bytes | dict[str, Any]) -> Fault:
    faults = faults_in(text)
    assert len(faults) == 1, [fault.describe() for fault in faults]
    return faults[0]


def warnings_of(document: dict[str, Any]) -> tuple[str, ...]:
    return read_job(text_of(document)).warnings
