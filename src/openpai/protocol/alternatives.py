"""Makes one error of those that the schema reports for each form that a value may have, such as text or a mapping."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pydantic_core import ErrorDetails

KINDS: Final = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "model_type": "a mapping of keys to values",
}
"""What an error of each type asks for."""
_FORMS: Final = frozenset({"str", "constrained-str", "bool", "int", "constrained-int", "float", "constrained-float"})
"""How the schema names the forms that are no mappings, at the end of a place."""
_OF_FORMS: Final = ("string_", "bool_", "int_", "float_", "finite_", "greater_", "less_")
"""How the types of their errors begin: a key may have the name of a form, too."""
NEITHER: Final = "no_alternative"
"""The type of an error about a value that has none of the forms."""
_Place = tuple[int | str, ...]


def without_alternatives(errors: Iterable[ErrorDetails], sections: frozenset[str]) -> list[ErrorDetails]:
    """Return the errors with one for each value that may have several forms.

    `sections` are the names of the models: a form that is a mapping. A mapping is wrong as that, not as text.
    """
    found: dict[_Place, list[tuple[int | str, ErrorDetails]]] = {}
    for error in errors:
        place, form, rest = _split(error, sections)
        found.setdefault(place if form else error["loc"], []).append((form, {**error, "loc": (*place, *rest)}))
    return [error for group in found.values() for error in _merged(group)]


def _split(error: ErrorDetails, sections: frozenset[str]) -> tuple[_Place, int | str, _Place]:
    """Return the place of the value, the form that it was compared with if there are several, and the rest."""
    loc = error["loc"]
    for at, step in enumerate(loc):
        if step in sections or (step in _FORMS and at == len(loc) - 1 and error["type"].startswith(_OF_FORMS)):
            return loc[:at], step, loc[at + 1 :]
    return loc, "", ()


def _merged(group: list[tuple[int | str, ErrorDetails]]) -> list[ErrorDetails]:
    closer = [error for _, error in group if error["type"] not in KINDS]
    types = {error["type"] for _, error in group}
    asks = dict.fromkeys(
        KINDS[error["type"]]
        for _, error in group
        if error["type"] in KINDS and not (error["type"] == "int_type" and "float_type" in types)
    )
    if closer or len(asks) < 2:
        # It has one of the forms, and something in it is wrong.
        return closer or [group[0][1]]
    return [{**group[0][1], "type": NEITHER, "ctx": {"kinds": list(asks)}}]
