"""Documents of the code that is sent along with jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from openpai.wire.doc import Doc, Document

_HASH: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


class MissingCode(Document):
    """The contents that the server lacks."""

    missing: Annotated[Sequence[str], Doc("SHA-256 of each", example=[_HASH])]


class KeptCode(Document):
    """A code that is complete on the server."""

    digest: Annotated[str, Doc("its name in `extras.code`", example=_HASH)]
    files: Annotated[int, Doc("number of files and links", example=12)]
    bytes: Annotated[int, Doc("size of the files together", example=48_213)]
