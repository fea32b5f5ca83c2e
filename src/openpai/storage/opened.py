"""A storage somebody works with: its connection and its threads, let go of when the last of them is done.

A storage that is changed or removed is not closed under those who are in the middle of it. Whoever works with it holds
it, so it ends when nobody does.
"""

from __future__ import annotations

import weakref

from openpai.ports.storages import Storage
from openpai.storage.driver import Connection
from openpai.storage.errors import ErrorTranslator
from openpai.storage.workers import Workers


class Opened:
    """A storage as it was when it was connected. One without a connection can only be mounted."""

    def __init__(
        self, storage: Storage, workers: Workers, errors: ErrorTranslator, connection: Connection | None
    ) -> None:
        self.storage = storage
        self.workers = workers
        self.errors = errors
        self.connection = connection
        self._end = weakref.finalize(self, workers.close, connection.close if connection else None)
        self._end.atexit = False

    def close(self) -> None:
        """End it now, whoever works with it."""
        self._end()
