"""References in commands become values exactly as written; whatever leads nowhere stays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from openpai.protocol.job import PLUGIN_PREFIX, Auth
from openpai.protocol.reading import read_job
from openpai.protocol.templates import TooLong, image_of, render, render_auth, render_commands, render_value

from .jobs import job, job_with_worker, only_fault, text_of

SECRET = "a&b<c\"d'e"


def rendered(*commands: str, **changes: Any) -> str:
    document = job_with_worker(commands=list(commands))
    document.update(changes)
    return render_commands(read_job(text_of(document)).spec, "worker")


@pytest.mark.parametrize(
    ("written", "becomes"),
    [
        ("<% $parameters.epochs %>", "10"),
        ("<%$parameters.epochs%>", "10"),
        ("<%   $parameters.epochs\t%>", "10"),
        ("<% $parameters.rate %>", "1.5"),
        ("<% $parameters.deep.on %>", "true"),
        ("<% $parameters.deep.list[1] %>", "b"),
        ("<% $parameters.deep.list.0 %>", "a"),
        ("<% $parameters.two words %>", "2"),
        ("<% $parameters.deep.list %>", '["a", "b"]'),
        ("<% $data.uri[1] %>", "http://here/b.tgz"),
        ("<% $data.name %>", "pictures"),
        ("<% $script.uri %>", "http://here/code"),
        ("<% $script.callbacks[0].event %>", "taskStarts"),
        ("<% $output.uri %>", "/mnt/out"),
        ("<% $secrets.token %>", SECRET),
        ("--n=<% $parameters.epochs %>x<% $parameters.epochs %>", "--n=10x10"),
    ],
)
def test_a_reference_becomes_its_value(written: str, becomes: str) -> None:
    assert rendered(f"echo {written}") == f"echo {becomes}"


@pytest.mark.parametrize(
    "written",
    [
        "<% $parameters.missing %>",
        "<%$parameters.missing.deeper%>",
        "<% $parameters.deep.none %>",
        "<% $parameters.deep.list[2] %>",
        f"<% $parameters.deep.list[{'1' * 5000}] %>",
        "<% $parameters.epochs.x %>",
        "<% $parameters %>",
        "<% parameters.epochs %>",
        "<% $other.x %>",
        "<%# $parameters.epochs %>",
        "<% $parameters.epochs",
        "${epochs} {{epochs}} $parameters.epochs",
    ],
)
def test_what_leads_nowhere_stays_as_written(written: str) -> None:
    assert rendered(f"echo {written}") == f"echo {written}"


def test_data_of_a_role_that_chose_none_leads_nowhere() -> None:
    document = job_with_worker(commands=["<% $data.name %>"], data=None)
    assert render_commands(read_job(text_of(document)).spec, "worker") == "<% $data.name %>"


def test_a_parameter_may_refer_to_a_secret_but_a_secret_is_never_looked_into() -> None:
    parameters = {"greeting": "hello <% $secrets.who %>"}
    secrets = {"who": "<% $parameters.greeting %><% $secrets.other %>", "other": "leak"}
    text = rendered("<% $parameters.greeting %>", parameters=parameters, secrets=secrets)
    assert text == "hello <% $parameters.greeting %><% $secrets.other %>"


def test_only_the_deployment_in_use_surrounds_the_commands() -> None:
    deployments = [
        {
            "name": "a",
            "taskRoles": {
                "worker": {"preCommands": [" before ", "<% $parameters.epochs %>"], "postCommands": ["after"]}
            },
        },
        {"name": "b", "taskRoles": {"worker": {"preCommands": ["never"]}}},
        {"name": "c", "taskRoles": {}},
    ]
    commands = ("  one\n", "two\nthree ")
    assert rendered(*commands, deployments=deployments) == "one\ntwo\nthree"
    inside = rendered(*commands, deployments=deployments, defaults={"deployment": "a"})
    assert inside == "before\n10\none\ntwo\nthree\nafter"
    assert rendered(*commands, deployments=deployments, defaults={"deployment": "c"}) == "one\ntwo\nthree"


def test_image_and_credentials_of_a_role() -> None:
    document = job()
    spec = read_job(text_of(document)).spec
    assert image_of(spec, "worker") == "python:3.12"
    assert render_auth(spec, "worker") is None
    document["prerequisites"][0]["auth"] = {"username": "me", "password": "<% $secrets.token %>"}
    assert render_auth(read_job(text_of(document)).spec, "worker") == Auth("me", SECRET, "https://index.docker.io/v1/")


def test_credentials_see_secrets_only() -> None:
    document = job()
    document["prerequisites"][0]["auth"] = {"username": "<% $parameters.epochs %>", "registryuri": "here"}
    auth = render_auth(read_job(text_of(document)).spec, "worker")
    assert auth == Auth("<% $parameters.epochs %>", "", "here")


def test_a_secret_cannot_change_the_structure_of_a_plugins_parameters() -> None:
    evil = "x']}\nplugin: other\nmore: [\"y"
    spec = read_job(text_of(job(secrets={"key": evil}))).spec
    value = {
        "userssh": {"value": "<% $secrets.key %>", "n": 3, "off": None},
        "<% $secrets.key %>": ["<% $data.uri[0] %>"],
    }
    assert render_value(value, spec, "worker") == {
        "userssh": {"value": evil, "n": 3, "off": None},
        "<% $secrets.key %>": ["http://here/a.tgz"],
    }


def test_rendering_takes_time_in_proportion_to_the_text() -> None:
    text = "<% $parameters" + ".a" * 200_000 + "<% " * 200_000
    assert render(text, {"parameters": {}}) == text


@pytest.mark.parametrize(
    "changes",
    [
        {"commands": ["<% $parameters.long %>" * 500]},
        {"commands": ["<% $parameters.nested %>" * 500]},
        {"commands": ["a", "<% $parameters.long %>" * 170], "and": 2},
        {"plugin": {"preCommands": ["<% $secrets.long %>"] * 500}},
        {"password": "<% $secrets.long %>" * 500},
    ],
)
def test_a_short_file_cannot_ask_for_gigabytes(changes: dict[str, Any]) -> None:
    document = job_with_worker(commands=changes.get("commands", ["a"]))
    long = "x" * 100_000
    document["parameters"] = {"long": long, "nested": "<% $secrets.short %>" * 100}
    document["secrets"] = {"long": long, "short": "y" * 1000}
    if "plugin" in changes:
        document["extras"] = {PLUGIN_PREFIX: [{"plugin": "cmd", "parameters": changes["plugin"]}]}
    if "and" in changes:
        document["taskRoles"]["other"] = document["taskRoles"]["worker"]
    document["prerequisites"][0]["auth"] = {"password": changes.get("password", "")}
    fault = only_fault(document)
    assert (fault.path, fault.allowed) == ("taskRoles", "at most 16 MiB for all task roles together")


def test_what_was_stored_before_there_was_a_limit_is_not_written_out_either() -> None:
    spec = read_job(text_of(job_with_worker(commands=["<% $parameters.long %>"] * 500))).spec
    with pytest.raises(TooLong):
        render_commands(replace(spec, parameters={"long": "x" * 100_000}), "worker")
