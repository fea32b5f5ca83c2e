"""Which plugins a role has, in which order, and what of them is refused."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from openpai.protocol.errors import Refused
from openpai.protocol.findings import Finding
from openpai.protocol.job import PLUGIN_PREFIX, JobSpec, Prerequisite, Resources, TaskRole
from openpai.runtime.builtin_plugins import BUILT_IN
from openpai.runtime.plugin import PluginCommands, PluginContext, PluginKeys
from openpai.runtime.plugins import offline_check, plugin_faults, plugin_warnings, uses, with_plugins

KEYS = PluginKeys("-----BEGIN\nprivate\n-----END", "ssh-ed25519 AAAAjob pai-job", ("ssh-ed25519 AAAAowner ann",))
CONTEXT = PluginContext("ann", "job", "worker", {"master": 1, "worker": 2}, True, KEYS)
BARRIER = {"jobssh": True, "sshbarrier": True}


def a_spec(extras: list[Any] | None = None, prerequisites: tuple[Prerequisite, ...] = ()) -> JobSpec:
    names = tuple(each.name for each in prerequisites)
    role = TaskRole("worker", "image", Resources(1, 1, 0), ("main",), prerequisites=names)
    return JobSpec("job", (role,), prerequisites, extras={PLUGIN_PREFIX: extras} if extras is not None else {})


def script(spec: JobSpec, context: PluginContext = CONTEXT, **known: Any) -> str:
    def render(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace("<% $data.name %>", "digits")
        if isinstance(value, dict):
            return {key: render(one) for key, one in value.items()}
        return [render(one) for one in value] if isinstance(value, list) else value

    return with_plugins(spec, context, "main", render, {**BUILT_IN, **known})


def lines(spec: JobSpec) -> list[str]:
    return script(spec).splitlines()


def faults(name: str, parameters: Any) -> list[str]:
    found = plugin_faults(a_spec([{"plugin": name, "parameters": parameters}]))
    return [f"{'.'.join(map(str, fault.path[4:]))} {fault.message}" for fault in found]


def test_commands_without_plugins_are_left_alone() -> None:
    assert with_plugins(a_spec(), CONTEXT, "main\n", str) == "main\n"


def test_commands_go_before_and_after_in_opposite_order() -> None:
    spec = a_spec(
        [
            {"plugin": "cmd", "parameters": {"preCommands": ["pre 1"], "postCommands": ["post 1"]}},
            {"plugin": "cmd", "parameters": {"preCommands": ["pre 2 <% $data.name %>"], "postCommands": ["post 2"]}},
        ],
        (
            Prerequisite(
                "script",
                "load",
                plugin=f"{PLUGIN_PREFIX}.cmd",
                extra={
                    "callbacks": [
                        {"event": "taskStarts", "commands": ["pre 0"]},
                        {"event": "taskSucceeds", "commands": ["post 0"]},
                    ]
                },
            ),
        ),
    )
    wanted = ["pre 0", "pre 1", "pre 2 digits", "main", "post 2", "post 1", "post 0"]
    assert [line for line in lines(spec) if line in wanted] == wanted


def test_an_ignored_failure_does_not_end_the_task() -> None:
    spec = a_spec([{"plugin": "cmd", "failurePolicy": "ignore", "parameters": {"preCommands": ["pre"]}}])
    begin, term, policy, message, *rest = lines(spec)
    assert [begin, term, policy, *rest] == ["(", "trap 'exit 143' TERM", "set +e", "pre", ") || true", "main"]
    assert "which the job ignores" in message


@pytest.mark.parametrize("policy", ["fail", "ignore"])
@pytest.mark.parametrize(("commands", "code"), [(["false", "true"], 1), (["exit 3"], 3), (["true"], 0)])
def test_a_plugin_that_fails_is_named(policy: str, commands: list[str], code: int) -> None:
    spec = a_spec([{"plugin": "cmd", "failurePolicy": policy, "parameters": {"preCommands": commands}}])
    text = "set -e\n" + script(spec).replace("main", "echo main")
    done = subprocess.run(["/bin/sh", "-c", text], check=False, capture_output=True, text=True)
    if policy == "ignore" and commands[-1] == "true":
        code = 0
    end = ", which the job ignores" if policy == "ignore" else ""
    assert done.stderr == (f"runtime plugin cmd failed with exit code {code}{end}\n" if code else "")
    assert (done.returncode, done.stdout) == ((code, "") if code and policy == "fail" else (0, "main\n"))


def test_a_plugin_for_other_roles_is_left_out() -> None:
    spec = a_spec([{"plugin": "cmd", "taskroles": ["ps"], "parameters": {"preCommands": ["pre"]}}])
    assert lines(spec) == ["main"]
    assert not list(plugin_faults(a_spec([{"plugin": "none", "taskroles": ["ps"]}])))


@pytest.mark.parametrize(
    "entry",
    [
        {"plugin": "cmd", "parameters": {"preCommands": 3, "callbacks": ["x"]}},
        {"plugin": "cmd", "parameters": {"callbacks": 3}},
        {"plugin": "cmd", "parameters": "preCommands"},
        {"plugin": "cmd", "parameters": {"preCommands": ["no"]}, "taskroles": 3},
        "nonsense",
    ],
)
def test_parameters_of_a_wrong_shape_are_passed_over(entry: Any) -> None:
    assert lines(a_spec([entry])) == ["main"]


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("cmd", {"preCommands": ["prepare"]}),
        ("git", {"repo_uri": "https://host/code.git"}),
        ("ssh", BARRIER),
        ("tensorboard", {"port": 6006, "logdir": {"all": "/logs"}}),
    ],
)
def test_each_built_in_plugin_runs_something(name: str, parameters: dict[str, Any]) -> None:
    spec = a_spec([{"plugin": name, "parameters": parameters}])
    context = PluginContext("ann", "job", "worker", {"worker": 2}, True, KEYS)
    assert faults(name, parameters) == []
    assert script(spec, context) != "main"


def test_an_unknown_plugin_is_refused_with_the_name_that_was_meant() -> None:
    (fault,) = plugin_faults(a_spec([{"plugin": "gti"}]))
    assert fault.path == ("extras", PLUGIN_PREFIX, 0, "plugin")
    assert (fault.message, fault.suggestion) == ("there is no runtime plugin called 'gti'", "git")
    with pytest.raises(Refused, match="there is no runtime plugin called 'gti'"):
        script(a_spec([{"plugin": "gti"}]))
    # Where the server's own plugins are not known, it may well exist.
    found, (warning,) = offline_check(a_spec([{"plugin": "gti"}]))
    assert not found
    assert warning.message.endswith("here; the server may have it")


def test_an_unknown_plugin_with_ignored_failures_is_left_out_with_a_warning() -> None:
    spec = a_spec([{"plugin": "gti", "failurePolicy": "ignore"}])
    assert not list(plugin_faults(spec))
    assert "it is left out" in next(iter(plugin_warnings(spec))).message
    assert lines(spec) == ["main"]


class Failing:
    """A third party's plugin with a bug."""

    def faults(self, parameters: Mapping[str, Any]) -> Iterable[Finding]:
        raise KeyError("token-of-ann")

    def commands(self, parameters: Mapping[str, Any], context: PluginContext) -> PluginCommands:
        raise KeyError("token-of-ann")


def test_a_plugin_that_fails_on_the_server_fails_its_own_jobs_only() -> None:
    strict, lenient = ([{"plugin": "bad", **more}] for more in ({}, {"failurePolicy": "ignore"}))
    (fault,) = plugin_faults(a_spec(strict), {"bad": Failing()})
    assert "KeyError" in fault.message
    assert "token-of-ann" not in fault.message
    with pytest.raises(Refused, match="'bad' failed on the server: KeyError"):
        script(a_spec(strict), bad=Failing())
    assert script(a_spec(lenient), bad=Failing()) == "main"


@pytest.mark.parametrize(
    ("name", "parameters", "expected"),
    [
        ("git", {}, ["repo_uri is missing"]),
        ("git", {"repo_uri": 3}, ["repo_uri must be text"]),
        ("git", {"repo_uri": "https://ann:hunter2@host/x"}, ["repo_uri has a password in it"]),
        ("git", {"repo_uri": "x", "password": "hunter2"}, ["password is written out"]),
        ("git", {"repo_uri": "x", "options": ["--b 'x"]}, ["options.0 has a quote that does not end"]),
        ("git", {"repo_uri": "x", "branch": "y"}, ["branch is not a parameter of this plugin"]),
        ("ssh", {"jobssh": "yes"}, ["jobssh must be true or false"]),
        ("ssh", {"sshbarrierTimeout": -1}, ["sshbarrierTimeout is not a time limit"]),
        ("ssh", {"userssh": {"value": "hunter2"}}, ["userssh.value is not a public key"]),
        ("ssh", {"userssh": []}, ["userssh must be a mapping of keys to values"]),
        ("tensorboard", {"logdir": {}}, ["logdir must name at least one directory"]),
        ("tensorboard", {"logdir": {"a": 3}, "port": 70000}, ["port is not a port", "logdir.a is not a directory"]),
        ("teamwise_storage", {"storageConfigNames": 3}, ["storageConfigNames must be a list of names"]),
    ],
)
def test_broken_parameters_are_faults(name: str, parameters: dict[str, Any], expected: list[str]) -> None:
    assert faults(name, parameters) == expected


def test_what_parameters_say_reaches_the_shell_as_data() -> None:
    evil = "$(touch /tmp/evil)'; touch /tmp/evil #"
    spec = a_spec([{"plugin": "git", "parameters": {"repo_uri": evil, "ref": "@REPO@"}}])
    text = script(spec)
    word, inside = shlex.split(text.split(" EXIT\n", 1)[1].rpartition("\n)")[0])
    assert word == "eval"
    assert f"repo={shlex.quote(evil)} ref=@REPO@ goal=code" in inside


def test_the_owners_keys_are_let_in_only_if_the_job_asks() -> None:
    asked = {"userssh": {"type": "custom", "value": "ssh-rsa AAAAmine me"}}
    text = script(a_spec([{"plugin": "ssh", "parameters": asked}]))
    assert "AAAAowner" in text
    assert "AAAAmine" in text
    assert "AAAAjob" not in text
    assert "AAAAowner" not in script(a_spec([{"plugin": "ssh", "parameters": {"jobssh": True}}]))


def test_the_barrier_waits_for_the_roles_with_the_plugin() -> None:
    text = script(a_spec([{"plugin": "ssh", "parameters": BARRIER}]))
    assert "for peer in worker-0 worker-1; do" in text
    apart = PluginContext("ann", "job", "worker", {"worker": 2}, False, KEYS)
    assert "for peer in" not in script(a_spec([{"plugin": "ssh", "parameters": BARRIER}]), apart)


def test_tensorboard_is_for_the_first_role_only() -> None:
    spec = a_spec([{"plugin": "tensorboard", "parameters": {"logdir": {"a": "/a", "b": "/b/$PAI_JOB_NAME"}}}])
    assert script(spec) == "main"
    text = script(spec, PluginContext("ann", "job", "worker", {"worker": 1}))
    assert '--logdir_spec="a:/a,b:/b/$PAI_JOB_NAME"' in text


def test_a_plugin_is_used_once_for_each_time_it_is_named() -> None:
    spec = a_spec([{"plugin": "cmd"}, {"plugin": "cmd"}])
    assert [use.name for use in uses(spec)] == ["cmd", "cmd"]
