"""Writes a job as text: for users as YAML with masked secrets, for the store as compact JSON without secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import yaml

from openpai.protocol.dialect import resolve
from openpai.protocol.documents import document_of, spec_of
from openpai.protocol.job import JobSpec
from openpai.protocol.references import MASK
from openpai.protocol.templates import is_reference

_TEXT_TAG: Final = "tag:yaml.org,2002:str"
_WIDTH: Final = 120
_BASE: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
# PyYAML's own writer, used if libyaml is missing, loses line separators beyond ASCII unless they are escaped.
_IS_FAST: Final = hasattr(yaml, "CSafeDumper")
_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def dump_masked(spec: JobSpec) -> str:
    """Return the job as compact JSON with its secrets masked, for `masked_yaml`."""
    return _json(_masked(spec))


def masked_yaml(text: str) -> str:
    """Return the text of `dump_masked` as YAML for users; only now, since writing YAML is ten times as slow as JSON."""
    return yaml_text(json.loads(text))


def yaml_text(document: Mapping[str, Any]) -> str:
    """Return a document as YAML for people."""
    text: str = yaml.dump(
        document,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=_IS_FAST,
        width=_WIDTH,
    )
    return text


def _masked(spec: JobSpec) -> dict[str, Any]:
    document = document_of(spec)
    # OpenPAI's clients read the virtual cluster there, whether or not the file names it.
    document.setdefault("defaults", {})["virtualCluster"] = spec.virtual_cluster
    if "extras" in document:
        document["extras"] = document.pop("extras")
    if spec.secrets:
        document["secrets"] = dict.fromkeys(spec.secrets, MASK)
    for prerequisite in document.get("prerequisites", ()):
        password = prerequisite.get("auth", {}).get("password", "")
        # A reference to a secret reveals nothing, and shows how to write it.
        if password and not is_reference(password):
            prerequisite["auth"]["password"] = MASK
    return document


def dump_spec(spec: JobSpec) -> str:
    """Return the job as compact JSON without its secrets, for `load_spec`."""
    document = document_of(spec)
    document.pop("secrets", None)
    return _json(document)


def load_spec(text: str, secrets: Mapping[str, Any]) -> JobSpec:
    """Return the job that `dump_spec` wrote, with its secrets put back."""
    return spec_of({**json.loads(text), "secrets": secrets})


class _Dumper(_BASE):  # type: ignore[misc]  # which of the two it is depends on the machine
    """Quotes every text that this or any older reader of YAML would read as another type."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        tag = super().resolve(kind, value, implicit)
        if kind is yaml.ScalarNode and implicit[0] and tag == _TEXT_TAG and not isinstance(resolve(value), str):
            # Any other tag makes the writer quote a text; a number never comes here as text.
            return _TEXT_TAG + "?"
        return tag

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: Any, value: str) -> Any:
    style = "|" if "\n" in value and not value.startswith((" ", "\n")) else None
    return dumper.represent_scalar(_TEXT_TAG, value, style=style)


_Dumper.add_representer(str, _text)
