"""What the chart makes of values, without a cluster: refusals, profiles, distributions, and commands in the pages."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from openpai.app.main import app
from tests.kube.test_chart import CHART, FRAMEWORKS, ROOT, needs_helm, template


@needs_helm
def test_the_definition_of_frameworks_in_the_chart_is_that_of_the_program() -> None:
    from openpai.frameworks.objects import crd

    assert (CHART / "files/framework-crd.yaml").read_text() == crd()
    rendered = template("--set", FRAMEWORKS.format(place="vision"))
    assert rendered.returncode == 0, rendered.stderr
    found = [one for one in yaml.safe_load_all(rendered.stdout) if one["kind"] == "CustomResourceDefinition"]
    assert found[0]["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert found[0] == yaml.safe_load(crd())


@needs_helm
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("frameworks.enabled=true", "frameworks.enabled needs frameworks.namespaces"),
        (
            "frameworks.enabled=true,frameworks.namespaces.a.users={x}",
            "frameworks.enabled needs frameworks.tokensSecret",
        ),
        ("frameworks.namespaces.a.users={}", "users"),
        ("replicas=2", "2 replicas need PostgreSQL: set database.existingSecret, or postgresql.enabled=true"),
        ("replicas=2,postgresql.enabled=true", "2 replicas share their logs: set storage.accessModes={ReadWriteMany}"),
        ("postgresql.enabled=true,database.existingSecret=x", "either postgresql.enabled or database.existingSecret"),
        ("ingress.enabled=true", "ingress.enabled needs ingress.host"),
        ("replica=2", "Additional property replica is not allowed"),
        ("jobs.namespace=Jobs", "jobs.namespace"),
        ("storage.size=many", "storage.size"),
    ],
)
def test_values_that_cannot_work_are_refused_with_the_way_out(options: str, message: str) -> None:
    refused = template("--set", options)
    assert refused.returncode != 0
    assert message in refused.stderr


@needs_helm
def test_the_profile_of_two_servers_needs_only_the_secret_it_names() -> None:
    rendered = template("-f", str(CHART / "values-ha.yaml"))
    assert rendered.returncode == 0, rendered.stderr
    assert "name: openpai-database" in rendered.stdout
    assert "kind: PodDisruptionBudget" in rendered.stdout


@needs_helm
def test_the_values_of_each_distribution_are_accepted_and_reach_the_objects(tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/distributions.md").read_text(), re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        (tmp_path / "values.yaml").write_text(block)
        rendered = template("-f", str(tmp_path / "values.yaml"))
        assert rendered.returncode == 0, f"{block}: {rendered.stderr}"
        values, found = yaml.safe_load(block), list(yaml.safe_load_all(rendered.stdout))
        by_kind = {one["kind"]: one for one in found if one["metadata"]["name"] == "pai-openpai"}
        assert by_kind["PersistentVolumeClaim"]["spec"]["storageClassName"] == values["storage"]["storageClassName"]
        assert by_kind["Ingress"]["spec"]["ingressClassName"] == values["ingress"]["className"]
        # The server reads it as it reads any configuration: unknown settings would end it.
        _settings_of(by_kind["ConfigMap"]["data"]["openpai.yaml"], tmp_path)


@pytest.mark.parametrize("page", ["distributions.md", "kubernetes.md", "frameworks.md", "../README.md"])
def test_every_command_on_clusters_in_the_pages_can_be_given(page: str) -> None:
    group: Any = typer.main.get_command(app)
    text = (ROOT / "docs" / page).read_text().replace("\\\n", " ")
    for block in re.findall(r"```(?:sh|console)\n(.*?)```", text, re.DOTALL):
        for line in re.findall(r"^(?:\$ )?(pai (?:cluster|up|frameworks) .*?)(?:\s+#.*| \|.*)?$", block, re.MULTILINE):
            _, *words = shlex.split(line)
            command = group
            while hasattr(command, "resolve_command"):
                _, command, words = command.resolve_command(click_context(command), words)
            command.make_context(command.name, list(words), resilient_parsing=False).close()


def click_context(command: Any) -> Any:
    return command.context_class(command, info_name="pai")


def _settings_of(text: str, place: Path) -> None:
    """Parse a configuration as `pai up --config` does."""
    (place / "openpai.yaml").write_text(text)
    group: Any = typer.main.get_command(app)
    up = group.get_command(None, "up")
    up.make_context("up", ["--config", str(place / "openpai.yaml")]).close()
