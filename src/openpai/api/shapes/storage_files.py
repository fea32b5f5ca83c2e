"""Documents of the files in storages."""

from __future__ import annotations

from openpai.ports.storages import Entry
from openpai.wire import storage_files


def entry(found: Entry) -> storage_files.FileEntry:
    """Return a file or directory."""
    return {
        "name": found.name,
        "type": "directory" if found.is_directory else "file",
        "size": found.size,
        "modifiedTime": found.modified_at_ms,
    }
