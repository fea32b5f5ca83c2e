"""Applications in a job file: what is legal, and what each fault says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openpai.protocol.applications import Application, Kind
from openpai.protocol.errors import InvalidProtocol
from openpai.protocol.reading import read_job
from openpai.runtime.applications import applications_of

FILE = """
protocolVersion: 2
name: t
type: job
prerequisites:
  - {type: dockerimage, name: image, uri: python}
taskRoles:
  web:
    instances: 2
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 0, ports: {ui: 1}}
    commands: ["true"]
"""


def file(*applications: dict[str, Any], more: str = "") -> str:
    """Return a job file with applications."""
    return f"{FILE}{more}\nextras: {json.dumps({'applications': list(applications)})}"


def test_an_application_has_defaults() -> None:
    spec = read_job(file({"name": "lab"}, {"name": "b", "port": 80, "taskIndex": 1, "kind": "jupyter"})).spec
    assert applications_of(spec) == (
        Application("lab", "web", 0, "http", "lab"),
        Application("b", "web", 1, 80, "b", kind=Kind.JUPYTER),
    )


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"name": "Lab"}, "name: must not be the text"),
        ({"name": "a" * 21}, "name: must not be the text"),
        ({"name": "a-"}, "name: must not be the text"),
        ({}, "name"),
        ({"name": "a", "taskRole": "wbe"}, "did you mean 'web'"),
        ({"name": "a", "taskIndex": 2}, "is 2, and the task role has 2 tasks"),
        ({"name": "a", "port": "iu"}, "there is no port labelled 'iu'"),
        ({"name": "a", "port": 0}, "port"),
        ({"name": "a", "path": "//evil"}, "a path that begins with one /"),
        ({"name": "a", "path": "a b"}, "a path that begins with one /"),
        ({"name": "a", "idleSeconds": -1}, "idleSeconds"),
        ({"name": "a", "kind": "vnc"}, "kind"),
    ],
)
def test_each_fault_of_an_application_is_named(given: dict[str, Any], fault: str) -> None:
    with pytest.raises(InvalidProtocol) as refused:
        read_job(file(given))
    assert any(fault in one.describe() for one in refused.value.faults), refused.value.faults


def test_names_are_used_once_and_several_roles_need_one_named() -> None:
    with pytest.raises(InvalidProtocol, match="already an application called 'a'"):
        read_job(file({"name": "a"}, {"name": "a"}))
    role = "  other: {dockerImage: image, resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 0}, commands: [x]}"
    with pytest.raises(InvalidProtocol, match="several task roles"):
        read_job(file({"name": "a"}, more=role))


def test_the_tensorboard_of_the_plugin_is_an_application() -> None:
    plugin = {"plugin": "tensorboard", "parameters": {"port": 7001, "logdir": {"a": "/logs"}}}
    text = f"{FILE}\nextras: {json.dumps({'com.microsoft.pai.runtimeplugin': [plugin]})}"
    assert applications_of(read_job(text).spec) == (Application("tensorboard", "web", 0, 7001, "TensorBoard"),)
