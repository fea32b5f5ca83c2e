"""Documents of the files in storages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from openpai.wire.answers import Ms, StorageName
from openpai.wire.doc import Doc, Document


class FileEntry(Document):
    """A file or a directory."""

    name: Annotated[str, Doc(example="train.tar")]
    type: Literal["file", "directory"]
    size: Annotated[int, Doc("bytes", example=1_048_576)]
    modifiedTime: Ms | None


class FileList(Document):
    """The entries of a directory."""

    storage: StorageName
    path: Annotated[str, Doc(example="pictures")]
    totalCount: Annotated[int, Doc(example=1, minimum=0)]
    entries: Sequence[FileEntry]


class UploadedFile(Document):
    """A file that was uploaded."""

    storage: StorageName
    path: Annotated[str, Doc(example="pictures/train.tar")]
    size: Annotated[int, Doc("bytes", example=1_048_576)]
