"""What the chart makes of values, without a cluster: refusals, profiles, distributions, and commands in the pages."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from openpai.app.main import app
from openpai.app.pages.dashboards import DASHBOARDS, dashboard
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
def test_dashboards_are_as_grafana_reads_them_and_on_request() -> None:
    rendered = template("--set", "dashboards.enabled=true,dashboards.labels.team=gpu")
    assert rendered.returncode == 0, rendered.stderr
    maps = [one for one in yaml.safe_load_all(rendered.stdout) if "-dashboard-" in one["metadata"]["name"]]
    found = {name: json.loads(text) for one in maps for name, text in one["data"].items()}
    assert found == {f"openpai-{name}.json": json.loads(dashboard(name)) for name in DASHBOARDS}
    assert all(one["metadata"]["labels"].items() >= {"grafana_dashboard": "1", "team": "gpu"}.items() for one in maps)
    assert "-dashboard-" not in template().stdout


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
        (
            "applications.host=*.a.b,replicas=2,postgresql.enabled=true,storage.accessModes={ReadWriteMany}",
            "applications.host needs replicas=1",
        ),
        ("applications.host=apps.a.b", "applications.host"),
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
def test_rights_on_workloads_of_kueue_come_with_the_setting_that_needs_them() -> None:
    groups = {"kueue.x-k8s.io"}
    assert not _rights(template().stdout, groups)
    rendered = template("--set", "settings.kueue-queues=vision=team-vision")
    assert rendered.returncode == 0, rendered.stderr
    assert _rights(rendered.stdout, groups) == {
        "workloads": ["get", "list", "watch", "create", "patch", "delete"],
        "workloads/status": ["patch"],
    }


def _rights(rendered: str, groups: set[str]) -> dict[str, list[str]]:
    """Return the verbs by resource of some API groups, in the namespace of the tasks only."""
    roles = [one for one in yaml.safe_load_all(rendered) if one["kind"] in ("Role", "ClusterRole")]
    rules = [(role, rule) for role in roles for rule in role["rules"] if groups & set(rule["apiGroups"])]
    assert all(role["metadata"].get("namespace") == "openpai-jobs" for role, _ in rules)
    return {resource: rule["verbs"] for _, rule in rules for resource in rule["resources"]}


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


@needs_helm
def test_applications_have_a_wildcard_host_that_leads_to_a_port_of_their_own(tmp_path: Path) -> None:
    own = "ingress.enabled=true,ingress.host=pai.a.b,ingress.className=nginx"
    applications = "applications.host=*.apps.a.b,applications.tlsSecret=wildcard"
    rendered = template("--set", f"{own},{applications}")
    assert rendered.returncode == 0, rendered.stderr
    found = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(rendered.stdout)}
    spec = found["Ingress", "pai-openpai-applications"]["spec"]
    assert spec["ingressClassName"] == "nginx"
    assert spec["tls"] == [{"hosts": ["*.apps.a.b"], "secretName": "wildcard"}]
    (rule,) = spec["rules"]
    backend = rule["http"]["paths"][0]["backend"]["service"]
    assert (rule["host"], backend["name"]) == ("*.apps.a.b", "pai-openpai-applications")
    # No request for an application reaches the port of the API, and none for the API the port of applications.
    (port,) = found["Service", backend["name"]]["spec"]["ports"]
    (container,) = found["Deployment", "pai-openpai"]["spec"]["template"]["spec"]["containers"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert (port["name"], ports[port["targetPort"]]) == (backend["port"]["name"], 9300)
    assert found["Service", "pai-openpai"]["spec"]["ports"] == [{"name": "http", "port": 80, "targetPort": "http"}]
    (entry,) = found["NetworkPolicy", "pai-openpai"]["spec"]["ingress"]
    assert [one["port"] for one in entry["ports"]] == ["http", "applications"]
    text = found["ConfigMap", "pai-openpai"]["data"]["openpai.yaml"]
    settings = yaml.safe_load(text)
    assert (settings["app-url"], settings["app-ports"]) == ("https://*.apps.a.b", "9300")
    _settings_of(text, tmp_path)
    # Without a host no page could be reached, and none is offered.
    (plain,) = (one for one in yaml.safe_load_all(template().stdout) if one["kind"] == "ConfigMap")
    assert yaml.safe_load(plain["data"]["openpai.yaml"])["app-ports"] == "none"


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
