"""Code that is sent along with jobs. The contents are streamed by `client.sending`."""

from __future__ import annotations

from collections.abc import Sequence

from openpai.client.calls_core import Call, asks, whole


class Code:
    """The code of jobs."""

    @asks
    def missing_code(self, hashes: Sequence[str]) -> Call[tuple[str, ...]]:
        """Return which of these contents the server lacks."""
        read = whole(lambda document: tuple(map(str, document["missing"])))
        return Call("POST", "/code/missing", read, json={"hashes": list(hashes)}, is_repeatable=True)


def code_path(digest: str) -> str:
    """Return the path in the API of a code."""
    return f"/code/{digest}"
