"""Storages, without their credentials."""

from __future__ import annotations

from dataclasses import dataclass

from openpai.client.model.reading import (
    Answer,
    Document,
    amount,
    flag,
    mapping,
    needed,
    number,
    parts,
    text,
    texts,
    value,
    whole,
)


@dataclass(frozen=True, slots=True)
class StorageView(Answer):
    """A storage; `data` and `groups` are empty in lists."""

    name: str = text("name")
    type: str = text("kind", "type")
    is_default: bool = flag("default")
    is_read_only: bool = flag("readOnly")
    is_shared: bool = value("share", convert=lambda share: share is not False)
    description: str = text("description")
    data: Document = mapping("data")
    groups: tuple[str, ...] = texts("groups")
    has_credentials: bool = flag("hasCredentials")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class FileView(Answer):
    """A file or directory in a storage."""

    name: str = text("name")
    is_directory: bool = value("type", convert=lambda kind: kind == "directory")
    size: int = amount("size")
    modified_at_ms: int | None = number("modifiedTime")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class FilePage(Answer):
    """A page of the entries of a directory."""

    files: tuple[FileView, ...] = parts(FileView, "entries", is_needed=True)
    total: int = amount("totalCount")


@dataclass(frozen=True, slots=True)
class StorageTest(Answer):
    """The result of a test of a storage, with its steps."""

    is_ok: bool = needed("ok", bool)
    steps: tuple[Document, ...] = needed("steps", tuple)
    document: Document = whole()
