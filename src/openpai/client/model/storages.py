"""Storages as the server tells of them; their credentials are never told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from openpai.client.model.reading import Document, amount, number, text, texts


@dataclass(frozen=True, slots=True)
class StorageView:
    """A storage; `data` and `groups` are empty in lists."""

    name: str
    type: str
    is_default: bool
    is_read_only: bool
    is_shared: bool
    description: str
    data: Document
    groups: tuple[str, ...]
    has_credentials: bool
    document: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> StorageView:
        """Return a storage."""
        return cls(
            name=text(document.get("name")),
            # OpenPAI has fewer types than there are here.
            type=text(document.get("kind") or document.get("type")),
            is_default=bool(document.get("default")),
            is_read_only=bool(document.get("readOnly")),
            is_shared=document.get("share") is not False,
            description=text(document.get("description")),
            data=document.get("data") or {},
            groups=texts(document.get("groups")),
            has_credentials=bool(document.get("hasCredentials")),
            document=document,
        )


@dataclass(frozen=True, slots=True)
class FileView:
    """A file or directory in a storage."""

    name: str
    is_directory: bool
    size: int
    modified_at_ms: int | None
    document: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> FileView:
        """Return an entry of a directory."""
        return cls(
            name=text(document.get("name")),
            is_directory=document.get("type") == "directory",
            size=amount(document.get("size")),
            modified_at_ms=number(document.get("modifiedTime")),
            document=document,
        )


@dataclass(frozen=True, slots=True)
class FilePage:
    """A part of a directory's list."""

    files: tuple[FileView, ...]
    total: int

    @classmethod
    def read(cls, document: Document) -> FilePage:
        """Return a part of a directory."""
        return cls(tuple(FileView.read(each) for each in document["entries"]), amount(document.get("totalCount")))


@dataclass(frozen=True, slots=True)
class StorageTest:
    """What was tried with a storage, as pairs of a step and why it failed, empty when it did not."""

    is_ok: bool
    steps: tuple[Document, ...]
    document: dict[str, Any] = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> StorageTest:
        """Return the outcome of a test."""
        return cls(bool(document["ok"]), tuple(document["steps"]), dict(document))
