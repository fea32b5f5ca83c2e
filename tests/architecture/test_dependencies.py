"""What `pip install openpai` brings is enough for everything but the parts that need an extra."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, requires
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.places import ROOT, SOURCE

# Only functions import these, once the backend, storage or command that needs the extra is asked for.
_OF_EXTRAS: Final = (
    "openpai.app.extender",
    "openpai.app.frameworks",
    "openpai.backends.docker",
    "openpai.backends.kubernetes",
    "openpai.extender",
    "openpai.frameworks",
    "openpai.kube",
    "openpai.storage.azure",
    "openpai.storage.smb",
    "openpai.storage.webhdfs",
)
# What is imported under another name than it is installed under.
_INSTALLED_AS: Final = {"re2": "google-re2", "yaml": "pyyaml"}
# A text that runs in a task.
_IN_TASKS: Final = frozenset({"tensorboard"})
# An import at the start of a line is carried out when its module is loaded.
_IMPORT: Final = re.compile(r"^(?:from ([\w.]+) import (?:\(([^)]*)\)|(.*))|import ([\w.]+).*)$", re.MULTILINE)


def _brought() -> set[str]:
    """Return the distributions that the dependencies without extras bring."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found: set[str] = set()
    more = [Requirement(text) for text in project["dependencies"]]
    while more:
        name = canonicalize_name(more.pop().name)
        if name in found:
            continue
        found.add(name)
        try:
            needed = [Requirement(text) for text in requires(name) or ()]
        except PackageNotFoundError:  # one of another system or another Python
            continue
        more += [one for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]
    return found


def _imported(text: str) -> set[str]:
    found = set()
    for module, some, one, plain in _IMPORT.findall(text):
        found |= {module or plain, *(f"{module}.{name}" for name in re.findall(r"\w+", some or one) if module)}
    return found


def lacking(texts: Mapping[str, str], brought: Iterable[str]) -> dict[str, set[str]]:
    """Return, for each module that cannot be loaded with what was brought, the packages that it lacks."""
    there = {*brought, *map(canonicalize_name, sys.stdlib_module_names), *_IN_TASKS, "openpai"}
    imports = {module: _imported(text) for module, text in texts.items()}
    tops = {module: {name.partition(".")[0] for name in names} for module, names in imports.items()}
    lacks = {
        module: {each for each in names if canonicalize_name(_INSTALLED_AS.get(each, each)) not in there}
        for module, names in tops.items()
    }
    lacks = {module: names for module, names in lacks.items() if names}
    while more := {
        module: set().union(*(lacks[name] for name in names if name in lacks))
        for module, names in imports.items()
        if module not in lacks and not names.isdisjoint(lacks)
    }:
        lacks |= more
    return lacks


def test_a_module_that_is_always_there_needs_no_extra() -> None:
    texts = {
        "openpai." + str(path.relative_to(SOURCE).with_suffix("")).replace("/", "."): path.read_text("utf-8")
        for path in SOURCE.rglob("*.py")
    }
    found = lacking(texts, _brought())
    assert found.keys() >= {"openpai.kube.connection", "openpai.backends.docker.engine"}
    assert {module: names for module, names in found.items() if not module.startswith(_OF_EXTRAS)} == {}


def test_a_package_that_is_lacking_is_found_through_other_modules() -> None:
    texts = {
        "openpai.a": "import os.path\nfrom openpai import (\n    b,\n)\n",
        "openpai.b": "from openpai.c import f\nimport yaml\n",
        "openpai.c": "if TYPE_CHECKING:\n    import numpy\nfrom aiodocker.stream import Stream\n",
        "openpai.d": "def f():\n    import openpai.c\n",
    }
    found = lacking(texts, {"pyyaml"})
    assert found == {module: {"aiodocker"} for module in ("openpai.a", "openpai.b", "openpai.c")}
