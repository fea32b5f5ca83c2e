"""The command of a container as lines of shell, in which nothing but what Kubernetes or FrameworkController would
replace is replaced.

Kubernetes replaces `$(NAME)` by variables of the container and reads `$$` as `$`; FrameworkController replaces
`{{FC_NAME}}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from shlex import quote
from typing import Final

_INDEX: Final = '"$PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX"'
_PLACEHOLDER: Final = re.compile(r"\{\{(FC_[A-Z_]+)\}\}")
_PIECE: Final = re.compile(rf"(?P<dollar>\$\$)|\$\((?P<variable>[A-Za-z_]\w*)\)|{_PLACEHOLDER.pattern}", re.ASCII)
PLACEHOLDERS: Final = frozenset(
    {
        "FC_FRAMEWORK_NAMESPACE",
        "FC_FRAMEWORK_NAME",
        "FC_TASKROLE_NAME",
        "FC_TASK_INDEX",
        "FC_CONFIGMAP_NAME",
        "FC_POD_NAME",
    }
)


def constants(namespace: str, framework: str, role: str) -> dict[str, str]:
    """Return FrameworkController's variables that are the same for all tasks of a role."""
    return {
        "FC_FRAMEWORK_NAMESPACE": namespace,
        "FC_FRAMEWORK_NAME": framework,
        "FC_CONFIGMAP_NAME": f"{framework}-attempt",
        "FC_TASKROLE_NAME": role,
    }


def lines(
    fixed: Mapping[str, str], env: Sequence[tuple[str, str]], directory: str, command: Iterable[str]
) -> list[str]:
    """Return the lines that set the variables and run the command."""
    pod = quote(f"{fixed['FC_FRAMEWORK_NAME']}-{fixed['FC_TASKROLE_NAME']}-")
    found = [f"export {name}={quote(value)}" for name, value in fixed.items()]
    found += [
        f"export FC_TASK_INDEX={_INDEX}",
        f"export FC_POD_NAME={pod}{_INDEX}",
        'export FC_FRAMEWORK_ATTEMPT_ID="$PAI_JOB_ATTEMPT_ID"',
        'export FC_TASK_ATTEMPT_ID="$PAI_TASK_ATTEMPT_ID"',
    ]
    known = {*fixed, "FC_TASK_INDEX", "FC_POD_NAME", "FC_FRAMEWORK_ATTEMPT_ID", "FC_TASK_ATTEMPT_ID"}
    for name, value in env:
        found.append(f"export {name}={word(value, known)}")
        known.add(name)
    if directory:
        found.append(f"cd {word(directory, known)}")
    found.append(" ".join(word(part, known) for part in command))
    return found


def word(text: str, variables: Iterable[str]) -> str:
    """Return a text as one word of shell, with the variables in it that are known."""
    known = frozenset(variables)
    parts: list[str] = []
    literal, at = "", 0
    for match in _PIECE.finditer(text):
        literal += text[at : match.start()]
        at = match.end()
        variable = match["variable"] or (match[3] if match[3] in PLACEHOLDERS else None)
        if match["dollar"]:
            literal += "$"
        elif variable in known:
            parts += [_literal(literal), f'"${variable}"']
            literal = ""
        else:
            literal += match.group()
    parts.append(_literal(literal + text[at:]))
    return "".join(parts) or "''"


def placed(text: str, fixed: Mapping[str, str]) -> str:
    """Return a text with the placeholders replaced that are the same for all tasks of a role."""
    return _PLACEHOLDER.sub(lambda match: fixed.get(match[1], match.group()), text)


def _literal(text: str) -> str:
    # References of job files must not be read out of the user's own text.
    return quote(text).replace("<%", "<''%") if text else ""
