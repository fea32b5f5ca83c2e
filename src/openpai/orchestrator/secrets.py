"""Takes secrets out of a specification, so that the database holds them encrypted, and puts them back.

Beside the file's `secrets` these are registry passwords that stand in the file themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from openpai.protocol.job import Auth, JobSpec, Prerequisite
from openpai.protocol.templates import is_reference

WITHHELD: Final = "(not shown here: it holds a secret of the job)"
_PREFIX_LENGTH: Final = 12
"""The number of characters to search for of each line of a secret: a stored piece of a log may end inside one."""


def hidden(spec: JobSpec) -> tuple[JobSpec, dict[str, Any]]:
    """Return the specification without secrets, and the secrets (empty if there are none)."""
    passwords = {
        f"{each.type}/{each.name}": each.auth.password
        for each in spec.prerequisites
        if each.auth and each.auth.password and not is_reference(each.auth.password)
    }
    taken: dict[str, Any] = {}
    if spec.secrets:
        taken["secrets"] = dict(spec.secrets)
    if passwords:
        taken["passwords"] = passwords
        bare = tuple(_with_password(each, "") if _name(each) in passwords else each for each in spec.prerequisites)
        spec = replace(spec, prerequisites=bare)
    return replace(spec, secrets={}) if spec.secrets else spec, taken


def restored(spec: JobSpec, taken: Mapping[str, Any]) -> JobSpec:
    """Return the specification with its secrets, as it was before `hidden`."""
    passwords: Mapping[str, str] = taken.get("passwords", {})
    whole = tuple(
        _with_password(each, passwords[_name(each)]) if _name(each) in passwords else each
        for each in spec.prerequisites
    )
    return replace(spec, prerequisites=whole, secrets=taken.get("secrets", {}))


def without_secrets(text: str, taken: Mapping[str, Any]) -> str:
    """Return a text that a task or a node wrote, or `WITHHELD` if it holds a secret.

    Masking only the secret would reveal a short one: it would be missing wherever else it occurs.
    """
    # The public keys among the others are no secrets, and begin like any other public key.
    searched = {name: value["private"] if name == "ssh" else value for name, value in taken.items()}
    return WITHHELD if any(line[:_PREFIX_LENGTH] in text for line in _lines(searched)) else text


def _lines(value: Any) -> Iterator[str]:
    """Yield every line of every text and number in secrets."""
    if isinstance(value, (list, Mapping)):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _lines(each)
    elif value is not None and not isinstance(value, bool):
        yield from filter(None, map(str.strip, str(value).splitlines()))


def _name(prerequisite: Prerequisite) -> str:
    return f"{prerequisite.type}/{prerequisite.name}"


def _with_password(prerequisite: Prerequisite, password: str) -> Prerequisite:
    return replace(prerequisite, auth=replace(prerequisite.auth or Auth(), password=password))
