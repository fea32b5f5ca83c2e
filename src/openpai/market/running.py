"""Makes a job file of an item's: with the parameters, secrets, name and virtual cluster of the user who runs it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from openpai.market.checking import secret_names
from openpai.protocol.errors import InvalidParameters
from openpai.protocol.parsing import parse
from openpai.protocol.references import mapping
from openpai.protocol.spelling import nearest
from openpai.protocol.wording import listed

NAME_LONGEST: Final = 200


def parameters_of(text: str) -> Mapping[str, Any]:
    """Return the parameters of a job file with their defaults; none of a file that cannot be read."""
    return mapping(_documents(text)[0].get("parameters"))


def secrets_of(text: str) -> tuple[str, ...]:
    """Return the names of the secrets that whoever runs a job file must give."""
    first, more = _documents(text)
    return secret_names(first, more)


def job_file(
    text: str,
    *,
    name: str,
    suffix: str,
    virtual_cluster: str = "",
    parameters: Mapping[str, Any] | None = None,
    secrets: Mapping[str, str] | None = None,
) -> bytes:
    """Return the job file of an item as a user runs it; raise InvalidParameters for values that it has no place for.

    Without a name it has its own, followed by `suffix` if there is one, since a name is of one job only.
    """
    found, more = _documents(text)
    document = dict(found)
    given, needed = dict(secrets or {}), secret_names(document, more)
    if missing := [one for one in needed if not given.get(one)]:
        raise InvalidParameters(f"it needs the secrets {listed(missing)}", "give each a value of your own")
    if strange := sorted(given.keys() - set(needed)):
        raise InvalidParameters(f"it has no secret {strange[0]!r}", f"it has: {listed(needed)}")
    if needed:
        document["secrets"] = {**mapping(document.get("secrets")), **given}
    own = dict(mapping(document.get("parameters")))
    for key, value in (parameters or {}).items():
        if key not in own:
            meant = nearest(key, own)
            advice = f"did you mean {meant!r}?" if meant else f"it has: {listed(own)}"
            raise InvalidParameters(f"it has no parameter {key[:80]!r}", advice)
        own[key] = value
    if own:
        document["parameters"] = own
    if name or suffix:
        document["name"] = name or f"{str(document.get('name', 'job'))[:NAME_LONGEST]}-{suffix}"
    if virtual_cluster:
        document["defaults"] = {**mapping(document.get("defaults")), "virtualCluster": virtual_cluster}
    return json.dumps(document, ensure_ascii=False, indent=1).encode()


def _documents(text: str) -> tuple[Mapping[str, Any], tuple[Any, ...]]:
    parsed = parse(text)
    return mapping(parsed.documents[0] if parsed.documents else None), parsed.documents[1:]
