"""Turns errors of the schema into findings that users understand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from itertools import islice
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from openpai.protocol import schema
from openpai.protocol.alternatives import KINDS, NEITHER, without_alternatives
from openpai.protocol.applications import NAME_PATTERN, PATH_PATTERN
from openpai.protocol.code import DIGEST
from openpai.protocol.findings import FAULTS_MAX, REPLACED_IN, Finding
from openpai.protocol.parsing import Path
from openpai.protocol.schema_extras import Extras, OpenSection
from openpai.protocol.spelling import nearest
from openpai.protocol.templates import is_reference
from openpai.protocol.wording import WORD_MAX, cut, joined, listed

SHOWN_MAX: Final = 40
_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([MGT])i?B?", re.IGNORECASE)
_MIB_OF: Final = {"M": 1, "G": 1024, "T": 1024 * 1024}
_TYPES: Final = ("dockerimage", "data", "script", "output")
PATTERNS: Final = {
    schema.NAME_PATTERN: "letters, digits, _ and -",
    schema.WORD_PATTERN: "letters, digits and _, not beginning with a digit",
    schema.IMAGE_PATTERN: "text without blanks",
    DIGEST: "64 hexadecimal digits, a to f in lower case",
    NAME_PATTERN: "lower case letters, digits and -, at most 20, beginning with a letter",
    PATH_PATTERN: "a path that begins with one /",
}
_KINDS: Final = {
    **KINDS,
    "list_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
    "text_or_number": "text or a number",
}


def findings_of(error: ValidationError) -> list[Finding]:
    """Return errors of the schema as findings, no more than a user would read."""
    errors = without_alternatives(error.errors(include_url=False), _section_names())
    return [_finding_of(one) for one in islice(errors, FAULTS_MAX + 1)]


def _finding_of(error: ErrorDetails) -> Finding:
    finding = _worded(error)
    if not isinstance(error["input"], str) or not is_reference(error["input"]):
        return finding
    return finding._replace(allowed=f"{finding.allowed}; references are replaced in {REPLACED_IN} only", suggestion="")


def _worded(error: ErrorDetails) -> Finding:
    kind, context, value = error["type"], error.get("ctx", {}), error["input"]
    path = _path(error["loc"])
    if kind == "missing":
        return Finding(path, "is missing", _description(path))
    if kind == "extra_forbidden":
        keys = keys_of(_section(path[:-1]))
        is_extra = len(path) == 1 and path[0] in keys_of(Extras)
        meant = f"extras.{path[0]}" if is_extra else nearest(path[-1], keys)
        return Finding(path, "is not a key that is known here", listed(keys), meant)
    if kind == NEITHER:
        allowed = joined(context["kinds"], "or")
        return Finding(path, f"must be {allowed}, not {_shown(value, path)}", allowed)
    if kind in _KINDS:
        meant = "" if _is_secret(path) else _retyped(kind, value) or _in_mb(path, value)
        allowed = _KINDS[kind]
        if kind == "string_type" and isinstance(value, (dict, list)) and isinstance(path[-1], int):
            allowed += ', in quotes where it holds ": " or begins with { or ['
        return Finding(path, f"must be {_KINDS[kind]}, not {_shown(value, path)}", allowed, meant)
    if kind in ("greater_than_equal", "less_than_equal"):
        return Finding(path, f"must not be {_shown(value, path)}", _bounds(path, context))
    if kind == "string_pattern_mismatch":
        return Finding(
            path,
            f"must not be {_shown(value, path)}",
            PATTERNS[context["pattern"]],
            _tidied(value, context["pattern"]),
        )
    return _finding_of_choice(kind, context, value, path) or Finding(path, error["msg"])


def _finding_of_choice(kind: str, context: Mapping[str, Any], value: Any, path: Path) -> Finding | None:
    if kind == "union_tag_invalid":
        tag = context["tag"]
        return Finding((*path, "type"), f"must not be {_shown(tag, path)}", listed(_TYPES), nearest(tag, _TYPES))
    if kind == "union_tag_not_found":
        return Finding((*path, "type"), "is missing", listed(_TYPES))
    if kind == "literal_error":
        legal = context["expected"].replace("'", "").replace(" or ", ", ").split(", ")
        return Finding(path, f"must not be {_shown(value, path)}", listed(dict.fromkeys(legal)), nearest(value, legal))
    if kind == "string_too_long":
        return Finding(path, "is too long", f"at most {context['max_length']} characters")
    if kind == "too_long":
        return Finding(path, "has too many entries", f"at most {context['max_length']}")
    if kind in ("too_short", "string_too_short"):
        return Finding(path, "must not be empty", "at least one")
    return None


def _path(loc: tuple[str | int, ...]) -> Path:
    """Return the place in the file; the schema also names the kind of a prerequisite and marks keys."""
    path = [step for step in loc if step != "[key]"]
    if len(path) > 2 and path[0] == "prerequisites" and path[2] in _TYPES:
        del path[2]
    return tuple(path)


def _bounds(path: Path, context: Mapping[str, Any]) -> str:
    if "le" in context:
        return f"a whole number, at most {context['le']}"
    if context["ge"] == -1:
        return "-1 for never, or a whole number, at least 1"
    return f"a whole number, at least {context['ge']}"


def _shown(value: Any, path: Path) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "null"
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    if _is_secret(path):
        return "text" if isinstance(value, str) else "a number"
    text = cut(str(value), SHOWN_MAX)
    return f'the text "{text}"' if isinstance(value, str) else f"the number {text}"


def _is_secret(path: Path) -> bool:
    # Do not repeat a possible password in an answer, which may be logged.
    return path[:1] == ("secrets",) or "auth" in path


def _retyped(kind: str, value: Any) -> str:
    if kind == "int_type" and isinstance(value, (str, float)):
        try:
            number = float(value)
        except ValueError:
            return ""
        return str(int(number)) if number.is_integer() and abs(number) < schema.COUNT_MAX else ""
    if kind == "string_type" and isinstance(value, (bool, int)):
        return f'"{str(value).lower()}"'
    if kind == "bool_type" and isinstance(value, str):
        return {"true": "true", "yes": "true", "on": "true", "false": "false", "no": "false", "off": "false"}.get(
            value.lower(), ""
        )
    return ""


def _in_mb(path: Path, value: Any) -> str:
    """Return a size with a unit, such as `8Gi`, as the number of MiB that the key needs."""
    if not path or path[-1] not in ("memoryMB", "shmMB") or not isinstance(value, str):
        return ""
    size = _SIZE.fullmatch(value.strip()[:WORD_MAX])
    mib = float(size[1]) * _MIB_OF[size[2].upper()] if size else 0.5
    return str(int(mib)) if mib.is_integer() else ""


def _tidied(value: Any, pattern: str) -> str:
    if pattern in (schema.IMAGE_PATTERN, DIGEST, NAME_PATTERN, PATH_PATTERN):
        tidy = str(value).strip()
        tidy = tidy.lower() if pattern in (DIGEST, NAME_PATTERN) else tidy
        return tidy if re.fullmatch(pattern, tidy) else ""
    kept = "_-" if pattern == schema.NAME_PATTERN else "_"
    tidy = "".join(c if c.isascii() and (c.isalnum() or c in kept) else "_" for c in str(value)[: schema.WORD_MAX])
    return tidy if re.fullmatch(pattern, tidy) else f"_{tidy}" if tidy else ""


def _section(path: Path) -> type[BaseModel]:
    """Return the model of the mapping at `path`; only mappings that refuse unknown keys need one."""
    match path:
        case ("prerequisites", _, "auth"):
            return schema.AuthSection
        case ("prerequisites", *_):
            return schema.DockerImageSection
        case ("taskRoles", _, "completion"):
            return schema.CompletionSection
        case ("taskRoles", _, "resourcePerInstance"):
            return schema.ResourcesSection
        case ("taskRoles", _, "extraContainerOptions"):
            return schema.ContainerOptionsSection
        case ("taskRoles", _):
            return schema.TaskRoleSection
        case ("deployments", _, "taskRoles", _):
            return schema.RoleCommandsSection
        case ("deployments", _):
            return schema.DeploymentSection
        case _:
            return schema.JobSection


@cache
def _section_names() -> frozenset[str]:
    """Return the names of the sections of `extras`: elsewhere no value may be a section or something else."""
    return frozenset(each.__name__ for each in OpenSection.__subclasses__())


@cache
def keys_of(section: type[BaseModel]) -> tuple[str, ...]:
    """Return the known keys of a section of the file."""
    return tuple(field.alias or name for name, field in section.model_fields.items())


def _description(path: Path) -> str:
    """Return the description of a missing key in the schema."""
    for name, field in _section(path[:-1]).model_fields.items():
        if (field.alias or name) == path[-1]:
            return (field.description or "").rstrip(".")
    return ""
