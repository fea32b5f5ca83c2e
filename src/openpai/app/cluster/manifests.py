"""What an upgrade changes: the objects of two revisions, compared field by field. Values of secrets are never shown."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import yaml

SHOWN_FIELDS: Final = 6
_VALUE_MAX: Final = 60
_NOISE: Final = ("metadata.labels.helm.sh/chart", "metadata.labels.app.kubernetes.io/version")


_What = Literal["create", "change", "remove", "keep"]


class Key(NamedTuple):
    """The name of an object."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        place = f" in {self.namespace}" if self.namespace else ""
        return f"{self.kind} {self.name}{place}"


@dataclass(frozen=True)
class Change:
    """What happens to one object."""

    what: _What
    key: Key
    fields: tuple[str, ...] = ()
    """Each field that changes, with its old and new value."""


def objects(manifest: str) -> dict[Key, dict[str, Any]]:
    """Return the objects of a manifest by their names."""
    found = {}
    for document in yaml.safe_load_all(manifest):
        if isinstance(document, dict) and "kind" in document:
            about = document["metadata"]
            found[Key(document["kind"], about.get("namespace", ""), about["name"])] = document
    return found


def changes(old: str, new: str) -> list[Change]:
    """Return what turns the objects of one manifest into those of another; labels of the version do not count."""
    before, after = objects(old), objects(new)
    found = [Change("create", key) for key in after.keys() - before.keys()]
    for key in before.keys() - after.keys():
        kept = (before[key]["metadata"].get("annotations") or {}).get("helm.sh/resource-policy") == "keep"
        found.append(Change("keep" if kept else "remove", key))
    for key in before.keys() & after.keys():
        fields = tuple(_differing(key.kind == "Secret", before[key], after[key], ""))
        if fields:
            found.append(Change("change", key, fields))
    return sorted(found, key=lambda change: (change.what, change.key))


def lines(found: Sequence[Change]) -> Iterator[str]:
    """Yield what changes, for people."""
    for change in found:
        yield f"{change.what:8}{change.key}"
        yield from (f"          {field}" for field in change.fields[:SHOWN_FIELDS])
        if len(change.fields) > SHOWN_FIELDS:
            yield f"          and {len(change.fields) - SHOWN_FIELDS} more fields"


def summary(found: Sequence[Change]) -> str:
    """Return how many objects change, in a sentence."""
    counts = Counter(change.what for change in found)
    words: dict[_What, str] = {
        "create": "created",
        "change": "changed",
        "remove": "removed",
        "keep": "kept, but managed no more",
    }
    named = [f"{counts[what]} {word}" for what, word in words.items() if counts[what]]
    return f"objects: {', '.join(named)}" if named else "no object changes"


def _differing(is_secret: bool, old: Any, new: Any, path: str) -> Iterator[str]:
    if old == new or path in _NOISE:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in sorted({*old, *new}):
            below = f"{path}.{name}" if path else str(name)
            yield from _differing(is_secret, old.get(name), new.get(name), below)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for at, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _differing(is_secret, one, other, f"{path}[{at}]")
    elif is_secret:
        yield f"{path}: a new value"
    else:
        yield f"{path}: {_shown(old)} -> {_shown(new)}"


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    text = " ".join(text.split())
    return text if len(text) <= _VALUE_MAX else f"{text[: _VALUE_MAX - 3]}..."
