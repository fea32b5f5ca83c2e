"""Drives SMB shares through smbprotocol.

fsspec's own file system for SMB keeps one login per server for the whole process, so two storages on one server would
share the first login. Here each storage has its own.
"""

from __future__ import annotations

import contextlib
import errno
import secrets
import stat
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from openpai.ports.storages import Entry
from openpai.storage.driver import PART_PREFIX, Names
from openpai.storage.remote import RemoteReader

RENAMES_MAX: Final = 10
RENAME_AGAIN_S: Final = 0.2
# Errors that the library does not know, by their numbers in [MS-ERREF].
_ERRNO_OF: Final[Mapping[int, tuple[int, str]]] = {
    0xC0000022: (errno.EACCES, "access denied"),
    0xC0000033: (errno.EINVAL, "no such name"),
    0xC0000043: (errno.EBUSY, "another program has it open"),
    0xC0000044: (errno.EDQUOT, "quota exceeded"),
    0xC000006D: (errno.EACCES, "the server does not accept this user name and password"),
    0xC000007F: (errno.ENOSPC, "the disk is full"),
}


class SmbConnection:
    """`driver.Connection` over a share."""

    def __init__(self, share: str, base: str, **login: Any) -> None:
        self._share = share
        self._base = base
        self._login = {**login, "connection_cache": {}}

    def driver(self, folder: str) -> SmbDriver:
        base = [part for part in (*self._base.split("/"), folder) if part]
        return SmbDriver(self._share, tuple(base), self._login)

    def probe(self) -> None:
        try:
            _look(self.driver(""))
        except FileNotFoundError:
            try:
                _look(SmbDriver(self._share, (), self._login))
            except FileNotFoundError:
                raise FileNotFoundError(errno.ENOENT, f"there is no share {self._share}") from None
            raise FileNotFoundError(errno.ENOENT, f"the share has no directory {self._base}") from None

    def close(self) -> None:
        """Log out."""
        from smbclient import reset_connection_cache  # type: ignore[import-untyped]

        with contextlib.suppress(Exception):
            reset_connection_cache(fail_on_error=False, connection_cache=self._login["connection_cache"])


class SmbDriver:
    """One folder of a share."""

    def __init__(self, share: str, base: tuple[str, ...], login: dict[str, Any]) -> None:
        import smbclient

        self._smb = smbclient
        self._share = share
        self._base = base
        self._login = login

    def _path(self, names: Names) -> str:
        if not self._login.get("require_signing", True):
            self._enter_as_guest()
        return "\\".join((self._share, *self._base, *names))

    def _enter_as_guest(self) -> None:
        """Connect to the share without the check that needs a key to sign with, which guests lack."""
        from smbprotocol.tree import TreeConnect  # type: ignore[import-untyped]

        session = self._smb.register_session(self._share.split("\\")[2], **self._login)
        if not any(tree.share_name == self._share for tree in session.tree_connect_table.values()):
            TreeConnect(session, self._share).connect(require_secure_negotiate=False)

    def list(self, names: Names) -> Iterator[Entry]:
        """Yield the entries of a directory."""
        with _as_usual():
            for found in self._smb.scandir(self._path(names), **self._login):
                known = found.smb_info
                is_directory = found.is_dir(follow_symlinks=False)
                modified_at_ms = int(known.last_write_time.timestamp() * 1000)
                yield Entry(found.name, is_directory, 0 if is_directory else known.end_of_file, modified_at_ms)

    def entry(self, names: Names) -> Entry:
        """Return the entry of a file or directory."""
        with _as_usual():
            return _entry(names[-1], self._smb.stat(self._path(names), **self._login))

    def reader(self, names: Names) -> SmbReader:
        """Open a file."""
        if self._is_directory(self._path(names)):
            raise IsADirectoryError
        with _as_usual():
            return SmbReader(
                self._smb.open_file(self._path(names), "rb", buffering=0, share_access="rw", **self._login)
            )

    def writer(self, names: Names) -> SmbWriter:
        """Begin a file."""
        path = self._path(names)
        with contextlib.suppress(FileNotFoundError):
            if self._is_directory(path):
                raise IsADirectoryError
        with _as_usual():
            # The share exists; missing directories below it are created.
            for depth in range(1, len(self._base) + len(names)):
                with contextlib.suppress(FileExistsError), _as_usual():
                    self._smb.mkdir("\\".join((self._share, *(*self._base, *names)[:depth])), **self._login)
            part = self._path((*names[:-1], f"{PART_PREFIX}{secrets.token_hex(8)}"))
            return SmbWriter(self._smb, path, part, self._login)

    def remove(self, names: Names, *, recursive: bool) -> None:
        """Remove a file or directory."""
        path = self._path(names)
        if not self._is_directory(path, follows=False):
            with _as_usual():
                self._smb.remove(path, **self._login)
            return
        if recursive:
            self._remove_below(names)
        with _as_usual():
            self._smb.rmdir(path, **self._login)

    def _remove_below(self, names: Names) -> None:
        """Remove the contents of a directory of any depth, without recursion."""
        emptied: list[tuple[str, ...]] = []
        waiting = [tuple(names)]
        while waiting:
            above = waiting.pop()
            emptied.append(above)
            with _as_usual():
                for found in self._smb.scandir(self._path(above), **self._login):
                    inside = (*above, found.name)
                    if self._is_directory(self._path(inside), follows=False):
                        waiting.append(inside)
                    else:
                        self._smb.remove(self._path(inside), **self._login)
        # Each directory comes after its parent.
        for inside in reversed(emptied[1:]):
            with _as_usual():
                self._smb.rmdir(self._path(inside), **self._login)

    def _is_directory(self, path: str, *, follows: bool = True) -> bool:
        with _as_usual():
            return stat.S_ISDIR(self._smb.stat(path, follow_symlinks=follows, **self._login).st_mode)


def _look(driver: SmbDriver) -> None:
    for _ in driver.list(()):
        return


@contextlib.contextmanager
def _as_usual() -> Iterator[None]:
    """Raise the library's errors, which have only a number, as the usual OSErrors for that number."""
    try:
        yield
    except OSError as error:
        if error.errno is None or type(error).__module__ == "builtins":
            raise
        if known := _ERRNO_OF.get(getattr(error, "ntstatus", 0)):
            raise OSError(*known) from None
        raise OSError(error.errno, error.strerror or str(error)) from None


class SmbReader(RemoteReader):
    """`driver.Reader` over a file of a share."""

    def read(self, start: int, size: int) -> bytes:
        with _as_usual():
            return super().read(start, size)


class SmbWriter:
    """An incomplete file next to the one it will replace."""

    def __init__(self, smb: Any, path: str, part: str, login: dict[str, Any]) -> None:
        self._smb = smb
        self._path = path
        self._part = part
        self._login = login
        self._file = smb.open_file(part, "xb", **login)

    def write(self, data: bytes) -> None:
        """Append to it."""
        with _as_usual():
            self._file.write(data)

    def commit(self) -> None:
        """Move it to its place."""
        with _as_usual():
            self._file.close()
        for tries in range(1, RENAMES_MAX + 1):
            try:
                with _as_usual():
                    self._smb.replace(self._part, self._path, **self._login)
                return
            except OSError as error:
                # Servers do not replace a file that is open, as it is while another upload is being renamed.
                if error.errno not in (errno.EACCES, errno.EBUSY):
                    raise
                if tries == RENAMES_MAX:
                    raise OSError(error.errno, f"{error.strerror}; perhaps the file there is being read") from None
            time.sleep(RENAME_AGAIN_S)

    def discard(self) -> None:
        """Remove it."""
        with contextlib.suppress(Exception):
            self._file.close()
        with contextlib.suppress(Exception):
            self._smb.remove(self._part, **self._login)


def _entry(name: str, found: Any) -> Entry:
    is_directory = stat.S_ISDIR(found.st_mode)
    return Entry(name, is_directory, 0 if is_directory else found.st_size, int(found.st_mtime * 1000))
