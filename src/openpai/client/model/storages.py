"""Storages, without their credentials."""

from __future__ import annotations

from dataclasses import dataclass

from openpai.client.model import reading as field
from openpai.client.model.reading import Answer, Document


@dataclass(frozen=True, slots=True)
class StorageView(Answer):
    """A storage; `data` and `groups` are empty in lists."""

    name: str = field.text("name")
    type: str = field.text("kind", "type")
    is_default: bool = field.flag("default")
    is_read_only: bool = field.flag("readOnly")
    is_shared: bool = field.value("share", convert=lambda share: share is not False)
    description: str = field.text("description")
    data: Document = field.mapping("data")
    groups: tuple[str, ...] = field.texts("groups")
    has_credentials: bool = field.flag("hasCredentials")
    document: Document = field.whole()


@dataclass(frozen=True, slots=True)
class FileView(Answer):
    """A file or directory in a storage."""

    name: str = field.text("name")
    is_directory: bool = field.value("type", convert=lambda kind: kind == "directory")
    size: int = field.amount("size")
    modified_at_ms: int | None = field.number("modifiedTime")
    document: Document = field.whole()


@dataclass(frozen=True, slots=True)
class FilePage(Answer):
    """A page of the entries of a directory."""

    files: tuple[FileView, ...] = field.parts(FileView, "entries", is_needed=True)
    total: int = field.amount("totalCount")


@dataclass(frozen=True, slots=True)
class StorageTest(Answer):
    """The result of a test of a storage, with its steps."""

    is_ok: bool = field.needed("ok", bool)
    steps: tuple[Document, ...] = field.needed("steps", tuple)
    document: Document = field.whole()
