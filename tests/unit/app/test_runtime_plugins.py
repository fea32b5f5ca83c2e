"""Runtime plugins of third parties, installed as Python packages with entry points."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from openpai.app.runtime_plugins import installed_plugins
from openpai.protocol.job import PLUGIN_PREFIX, JobSpec, Resources, TaskRole
from openpai.runtime.plugin import ENTRY_POINTS, PluginContext
from openpai.runtime.plugins import plugin_faults, with_plugins

MODULE = """
from openpai.protocol.findings import Finding
from openpai.runtime.plugin import PluginCommands

class Warm:
    def faults(self, parameters):
        if "seconds" not in parameters:
            yield Finding(("seconds",), "is missing", "a number")

    def commands(self, parameters, context):
        return PluginCommands(f"warm up {context.role} for {parameters['seconds']} s", environment={"WARM": "yes"})

not_a_plugin = 3
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a package with three plugins, of which one works."""
    (tmp_path / "warm_plugin_of_tests.py").write_text(MODULE)
    about = tmp_path / "warm_plugin_of_tests-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: warm-plugin-of-tests\nVersion: 1.0\n")
    names = {
        "warm": "warm_plugin_of_tests:Warm",
        "gone": "no_such_module:Plugin",
        "odd": "warm_plugin_of_tests:not_a_plugin",
    }
    lines = [
        f"[{ENTRY_POINTS}]",
        *(f"{name} = {value}" for name, value in names.items()),
        "cmd = no_such_module:Plugin",
    ]
    (about / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("warm_plugin_of_tests", None)


def a_job(name: str, **parameters: object) -> JobSpec:
    role = TaskRole("worker", "image", Resources(1, 1, 0), ("main",))
    return JobSpec("job", (role,), extras={PLUGIN_PREFIX: [{"plugin": name, "parameters": parameters}]})


@pytest.mark.usefixtures("installed")
def test_an_installed_plugin_checks_its_parameters_and_runs() -> None:
    known = installed_plugins()
    assert [fault.message for fault in plugin_faults(a_job("warm"), known)] == ["is missing"]
    text = with_plugins(a_job("warm", seconds=3), PluginContext("ann", "job", "worker"), "main", lambda it: it, known)
    assert "warm up worker for 3 s" in text
    assert text.endswith('export WARM="yes"\nmain')


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("name", "reason"), [("gone", "ModuleNotFoundError"), ("odd", "no attribute 'faults'")])
def test_a_plugin_that_cannot_be_loaded_is_refused_with_the_reason(name: str, reason: str) -> None:
    (fault,) = plugin_faults(a_job(name), installed_plugins())
    assert f"'{name}' is installed but cannot be loaded" in fault.message
    assert reason in fault.message


@pytest.mark.usefixtures("installed")
def test_no_package_replaces_a_built_in_plugin() -> None:
    assert not list(plugin_faults(a_job("cmd", preCommands=["true"]), installed_plugins()))
