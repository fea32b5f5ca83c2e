"""What of a specification must not lie in the database in clear, taken out of it and put back.

Secrets are one part; a registry password that was written into the file instead of among the secrets is another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from openpai.protocol.job import Auth, JobSpec, Prerequisite
from openpai.protocol.templates import is_reference

WITHHELD: Final = "(not shown here: it holds a secret of the job)"
_TOLD_APART_BY: Final = 12
"""Characters of a secret's line that are looked for: what is kept of a log may break off in the middle of one."""


def hidden(spec: JobSpec) -> tuple[JobSpec, dict[str, Any]]:
    """Return the specification without anything secret, and what was taken out of it (empty when nothing was)."""
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
    return replace(spec, secrets={}), taken


def restored(spec: JobSpec, taken: Mapping[str, Any]) -> JobSpec:
    """Return the specification as it was before `hidden` took something out of it."""
    passwords: Mapping[str, str] = taken.get("passwords", {})
    whole = tuple(
        _with_password(each, passwords[_name(each)]) if _name(each) in passwords else each
        for each in spec.prerequisites
    )
    return replace(spec, prerequisites=whole, secrets=taken.get("secrets", {}))


def without_secrets(text: str, taken: Mapping[str, Any]) -> str:
    """Return a text that a task or a machine wrote, or `WITHHELD` when it holds something secret.

    Masking only the secret would give away a short one: it would be missing wherever else it stands.
    """
    return WITHHELD if any(line[:_TOLD_APART_BY] in text for line in _lines(taken)) else text


def _lines(value: Any) -> Iterator[str]:
    """Yield every line of every text and number among secrets."""
    if isinstance(value, (list, Mapping)):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _lines(each)
    elif value is not None and not isinstance(value, bool):
        yield from filter(None, map(str.strip, str(value).splitlines()))


def _name(prerequisite: Prerequisite) -> str:
    return f"{prerequisite.type}/{prerequisite.name}"


def _with_password(prerequisite: Prerequisite, password: str) -> Prerequisite:
    return replace(prerequisite, auth=replace(prerequisite.auth or Auth(), password=password))
