"""Reads promises as administrators write them: `vision: 3 nodes, speech: 8 GPUs of V100, default: rest`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from openpai.protocol.errors import Refused
from openpai.protocol.wording import cut, plural

SHOWN_MAX: Final = 200

_PROMISE = re.compile(
    r"(?P<name>[^:,]+):\s*(?:(?P<rest>(?:the\s+)?rest)|(?P<number>[0-9]{1,9})\s*(?P<unit>nodes?|gpus?|cpus?))"
    r"(?:\s*of\s+(?P<kind>\S+))?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Promise:
    """The promise to one virtual cluster: nodes, GPUs, CPUs of nodes without GPUs, or the rest."""

    virtual_cluster: str
    nodes: int = 0
    gpus: int = 0
    kind: str | None = None
    """The node type; None for any type, or for several types if no single one has enough."""
    cpus: int = 0
    is_rest: bool = False

    def describe(self) -> str:
        """Return the amount for messages, such as `3 nodes`."""
        named = ((self.nodes, "node"), (self.cpus, "CPU"), (self.gpus, "GPU"))
        return next((plural(count, noun) for count, noun in named if count), "nothing")


def read_promises(text: str) -> tuple[Promise, ...]:
    """Return the promises in a text such as `vision: 3 nodes, speech: 8 GPUs of V100`.

    Raises Refused BadConfigurationError.
    """
    promises = []
    for piece in text.split(","):
        match = _PROMISE.fullmatch(piece.strip())
        name = match["name"].strip() if match else ""
        if match is None or not name:
            message = f"{cut(piece.strip(), SHOWN_MAX)!r} cannot be understood"
            raise Refused(
                "BadConfigurationError",
                message,
                "write it as `NAME: 3 nodes`, `NAME: 8 GPUs of V100`, `NAME: 16 CPUs` or `NAME: rest`",
            )
        number, unit = int(match["number"] or 0), (match["unit"] or "").lower()[:1]
        if not number and not match["rest"]:
            message = f"{cut(piece.strip(), SHOWN_MAX)!r} promises nothing"
            raise Refused("BadConfigurationError", message, "promise at least 1; `pai vc remove` withdraws a promise")
        amounts = [number if unit == letter else 0 for letter in "ngc"]
        promises.append(Promise(name, amounts[0], amounts[1], match["kind"], amounts[2], bool(match["rest"])))
    return tuple(promises)


def promises_in(text: str | None) -> tuple[Promise, ...]:
    """Return the promises of a text, none for an empty one. Raises Refused BadConfigurationError."""
    return read_promises(text) if text and text.strip(" ,") else ()
