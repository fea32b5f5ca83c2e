"""What `docs/adding.md` asks for is there: nothing that has several places is forgotten at one of them."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import pytest

from openpai.api.app import OPERATIONS, ROUTERS
from openpai.api.routes.alert_channels import ChannelBody
from openpai.app.pages.__main__ import PAGES
from openpai.app.settings import BackendName
from openpai.cli.main import COMMANDS
from openpai.client.calls_core import _Mark
from openpai.client.client import Client
from openpai.notify.channels import KINDS as CHANNEL_KINDS
from openpai.notify.webhooks import body_of
from openpai.orchestrator.alert_facts import NAMES as RECORDED
from openpai.ports.alerts import Message
from openpai.protocol.applications import Kind as ApplicationKind
from openpai.protocol.schema_extras import ApplicationRequest
from openpai.runtime.builtin_plugins import BUILT_IN
from openpai.series.catalogue import METRICS
from openpai.wire.alert_channels import AlertChannel
from tests.architecture.places import DOCS, ROOT, SOURCE
from tests.command_tree import LEAVES
from tests.contracts.harness import HARNESSES

_PAGE: Final = (DOCS / "adding.md").read_text("utf-8")
_NAMED: Final = re.compile(r"`((?:src|tests|docs|bench)/[\w./*-]+|pyproject\.toml|README\.md|Makefile)(?:::(\w+))?`")
# Routes that OpenPAI's own clients and Prometheus ask; ours has a newer one for the same.
_NOT_IN_THE_CLIENT: Final = frozenset(
    {"extension", "virtualcluster", "admin", "email", "description", "externalname", "job-attempts", "affinitygroups"}
    | {"pods", "server", "query", "query_range", "readyz", "healthz", "v1", "return", "config"}
    | {"browser", "", "clusterstatus", "physicalcluster", "virtualclusters"}
)

# Streams and sockets, which are no calls, and pages for browsers.
_ASKED_OTHERWISE: Final = {
    "GET /api/v2/authn/oidc/login",
    "GET /api/v2/authn/oidc/logout",
    "GET /api/v2/jobs/{job}/work/archive",
    "POST /api/v2/jobs/{job}/attempts/{number}/taskRoles/{role}/taskIndex/{index}/attempts/{attempt}/exec",
    "PUT /api/v2/code/{digest}",
    "PUT /api/v2/storages/{name}/files/{path}",
}

# Files that hold no noun of their own; every other file is named as the file of its routes.
_OF_NO_NOUN: Final[dict[str, set[str]]] = {
    "wire": {"answers", "doc", "exits", "revisions", "states"},
    "api/shapes": {"exits", "job_lists", "revisions"},
    "client/calls": {"naming"},
}

# Programs over several nouns, and `vc`, which is short for virtual clusters.
_COMMANDS_OF_NO_NOUN: Final = {"lab", "login", "openpai_import", "protocol", "run", "tensorboard", "vc"}


def names(pattern: str) -> list[str]:
    """Return the modules below `src/openpai` that match a pattern, as Python imports them."""
    return sorted(
        "openpai." + str(path.relative_to(SOURCE).with_suffix("")).replace("/", ".")
        for path in SOURCE.glob(pattern)
        if not path.stem.startswith("__")
    )


@pytest.mark.parametrize(("path", "test"), sorted(set(_NAMED.findall(_PAGE))))
def test_every_file_and_test_that_the_page_names_exists(path: str, test: str) -> None:
    found = list(ROOT.glob(path))
    assert found, path
    assert not test or f"def {test}(" in found[0].read_text("utf-8")


def test_each_section_of_the_page_names_its_files_and_the_tests() -> None:
    sections = _PAGE.split("\n## ")[1:]
    assert len(sections) >= 7
    for section in sections:
        found = _NAMED.findall(section)
        assert any(path.startswith("src/") for path, _ in found), section.splitlines()[0]
        assert any(test for _, test in found), section.splitlines()[0]


def test_every_file_of_routes_is_served() -> None:
    with_routes = {name for name in names("api/routes/*.py") if hasattr(import_module(name), "router")}
    assert with_routes == {module.__name__ for module in ROUTERS}


@pytest.mark.parametrize("floor", _OF_NO_NOUN)
def test_a_noun_has_one_file_name_on_every_floor(floor: str) -> None:
    nouns = {path.stem for path in (SOURCE / "api/routes").glob("*.py")}
    files = {path.stem for path in (SOURCE / floor).glob("*.py")}
    assert files >= _OF_NO_NOUN[floor]
    assert files - _OF_NO_NOUN[floor] - nouns == set()


def test_a_command_is_named_like_the_noun_of_its_routes() -> None:
    nouns = {path.stem for path in (SOURCE / "api/routes").glob("*.py")}
    modules = {place.partition(":")[0].rpartition(".")[2] for place, _ in COMMANDS.values()}
    assert {name for name in modules if not {name, f"{name}s"} & nouns} == _COMMANDS_OF_NO_NOUN


def _words(node: ast.AST) -> set[str]:
    """Return the methods and the words of paths in the texts of some code."""
    texts = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return {word for text in texts for word in (*re.findall(r"/([\w-]+)", text), text)}


def _asked(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each method that a function of the client names, with the words of paths in it and in what it uses."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    parts = {node.name: _words(node) for node in functions} | {"path": {"jobs"}}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                parts[ast.unparse(target)] = _words(node.value)
    for function in functions:
        used = {ast.unparse(node).rpartition(".")[2] for node in ast.walk(function)
                if isinstance(node, ast.Name | ast.Attribute)}  # fmt: skip
        own = _words(function)
        words = own.union(*(parts.get(name, set()) for name in used))
        yield from ((method, word) for method in own & {"GET", "PUT", "POST", "DELETE"} for word in words)


def test_the_client_can_ask_every_operation_of_its_own() -> None:
    asked = {each for path in (SOURCE / "client").rglob("*.py") for each in _asked(ast.parse(path.read_text("utf-8")))}
    missing = set()
    for operation in OPERATIONS:
        method, _, path = operation.partition(" ")
        word = re.sub(r"/\{[^}]*\}", "", path).strip("/").rpartition("/")[2]
        if word not in _NOT_IN_THE_CLIENT and (method, word) not in asked:
            missing.add(operation)
    assert missing == _ASKED_OTHERWISE


def test_every_class_of_calls_is_part_of_the_client() -> None:
    classes = {
        found
        for name in names("client/calls/*.py")
        for found in vars(import_module(name)).values()
        if inspect.isclass(found) and any(isinstance(each, _Mark) for each in vars(found).values())
    }
    assert {one.__name__ for one in classes - set(Client.__mro__)} == set()


def _tables() -> list[dict[str, tuple[str, str]]]:
    modules = [import_module(place.partition(":")[0]) for place, _ in COMMANDS.values()]
    return [COMMANDS, *(module.COMMANDS for module in modules if hasattr(module, "COMMANDS"))]


def test_every_command_is_in_a_table() -> None:
    places = {place for table in _tables() for place, _ in table.values()}
    commands = {
        f"{name}:{function.__name__}"
        for name in names("cli/*.py")
        for function in vars(import_module(name)).values()
        if inspect.isfunction(function)
        and function.__module__ == name
        and not function.__name__.startswith("_")
        and function.__annotations__.get("json") == "output.Json"
    }
    assert commands - places == set()


@pytest.mark.parametrize("path", [("pai", *path) for path, _ in LEAVES])
def test_each_command_is_named_on_a_page_that_a_person_wrote(path: tuple[str, ...]) -> None:
    pages = [page for page in DOCS.glob("*.md") if page.name not in PAGES]
    text = "\n".join(page.read_text("utf-8") for page in pages)
    assert re.search(rf"\b{' '.join(path)}\b", text), f"name `{' '.join(path)}` in docs/guide.md or docs/admin.md"


def test_every_backend_takes_the_exam_and_is_chosen_described_and_kept_apart() -> None:
    there = {path.parent.name for path in (SOURCE / "backends").glob("*/backend.py")}
    contracts: list[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"][
        "importlinter"
    ]["contracts"]
    (apart,) = (set(one["modules"]) for one in contracts if one["name"] == "A backend never knows another backend")
    described = (ROOT / "README.md").read_text("utf-8").partition("## Backends")[2].partition("\n## ")[0]
    # A backend may take the exam in several worlds: `kubernetes on a node`.
    assert there == {name.partition(" ")[0] for name in HARNESSES}
    assert there == set(get_args(BackendName))
    assert there == {name.rpartition(".")[2] for name in apart}
    assert there == set(re.findall(r"^\| `(\w+)`", described, re.MULTILINE))


def test_every_kind_of_channel_is_sent_accepted_offered_and_described() -> None:
    message = Message("k/1", "subject", "text", "firing")
    assert [kind for kind in CHANNEL_KINDS if kind != "mail" and not body_of(kind, message)] == []
    assert get_args(ChannelBody.model_fields["kind"].annotation) == CHANNEL_KINDS
    written = get_type_hints(AlertChannel, include_extras=False)["kind"]
    assert get_args(written) == CHANNEL_KINDS
    offered = (SOURCE / "cli/alert_channel.py").read_text("utf-8").partition('"--kind KIND"')[2].partition(")")[0]
    described = (DOCS / "alerts.md").read_text("utf-8").partition("Kinds are")[2].partition("\n\n")[0]
    assert set(CHANNEL_KINDS) <= set(re.findall(r"\w+", offered))
    assert set(CHANNEL_KINDS) <= set(re.findall(r"`(\w+)`", described))


def test_every_kind_of_application_may_be_asked_for_and_is_described() -> None:
    kinds = {kind.value for kind in ApplicationKind}
    accepted = get_args(ApplicationRequest.model_fields["kind"].annotation)[0]
    assert set(get_args(accepted)) == kinds
    described = (
        (DOCS / "applications.md").read_text("utf-8").partition("## When it is not used")[2].partition("\n## ")[0]
    )
    assert kinds <= set(re.findall(r"`(\w+)`", described))


def test_every_metric_that_is_measured_is_in_the_catalogue_and_the_other_way_round() -> None:
    measured = {
        name
        for room in ("api", "app", "metrics", "orchestrator")
        for path in (SOURCE / room).rglob("*.py")
        for name in re.findall(r'"(pai_[a-z0-9_]*[a-z0-9])"', path.read_text("utf-8"))
    }
    # A histogram for Prometheus alone, and cookies.
    others = {"pai_api_request_duration_seconds", "pai_session", "pai_sign_on"}
    assert measured - METRICS.keys() - RECORDED.keys() == others
    assert {name for name in METRICS if name.startswith("pai_")} <= measured


def test_every_class_of_a_runtime_plugin_is_built_in() -> None:
    classes = {
        found
        for name in names("runtime/*_plugin*.py")
        for found in vars(import_module(name)).values()
        if inspect.isclass(found)
        and found.__module__ == name
        and hasattr(found, "faults")
        and hasattr(found, "commands")
    }
    assert len(classes) > 3
    assert {one.__name__ for one in classes - set(map(type, BUILT_IN.values()))} == set()


def test_the_walk_looks_where_the_code_is() -> None:
    assert Path(names("cli/*.py")[0].replace(".", "/")).parts[0] == "openpai"
    assert len(names("api/routes/*.py")) > 10
