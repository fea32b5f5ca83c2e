"""Copies files to and from running tasks: archives of tar through a command, a single file by cat without tar.

What comes out of a task was written by its program: only regular files, directories and links that stay inside are
written, and no path leads out of the target, also not through a link.
"""

from __future__ import annotations

import io
import posixpath
import shutil
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from openpai.client.client import Client
from openpai.client.shells import PIECE, STDOUT, RemoteShell, TaskPlace, open_shell
from openpai.protocol.errors import InvalidParameters, Refused, Unavailable
from openpai.protocol.wording import harmless_line

_MODE: Final = 0o777
_NO_TAR: Final = 97
_MISSING: Final = 98
_ERRORS_MAX: Final = 500
# The answer begins with a word for what follows: a directory or file as an archive, or the bytes of one file.
_SEND: Final = f"""[ -e "$1" ] || [ -L "$1" ] || exit {_MISSING}
case $1 in ?*/) set -- "${{1%/}}" ;; esac
case $1 in */*) dir=${{1%/*}}/ name=${{1##*/}} ;; *) dir=. name=$1 ;; esac
if [ -d "$1" ]; then dir=$1 name=.; fi
if command -v tar >/dev/null 2>&1; then
    if [ -d "$1" ]; then echo directory; else echo archived; fi
    exec tar -cf - -C "$dir" -- "$name"
fi
[ -f "$1" ] || exit {_NO_TAR}
echo file && exec cat <"$1"
"""
_TAKE_ARCHIVE: Final = f"""command -v tar >/dev/null 2>&1 || exit {_NO_TAR}
mkdir -p -- "$1" && exec tar -xof - -C "$1"
"""
_TAKE_FILE: Final = """target=$1
if [ -d "$target" ]; then target=${target%/}/$2; fi
cat >"$target" || exit
if command -v chmod >/dev/null 2>&1; then chmod "$3" "$target"; fi
"""
_IS_DIRECTORY: Final = '[ -d "$1" ]'


class Readable(Protocol):
    """What can be read piece by piece."""

    def read(self, size: int = ..., /) -> bytes:
        """Return up to `size` bytes."""


@dataclass(slots=True)
class Copied:
    """What was copied."""

    files: int = 0
    bytes: int = 0
    skipped: list[str] = field(default_factory=list)
    """Names of what was left out, with the reason."""


def copy_from(pai: Client, place: TaskPlace, path: str, target: Path) -> Copied:
    """Copy a file or directory of a task; an existing directory as the target gets it inside."""
    name = posixpath.basename(posixpath.normpath(path))
    goal = target / name if target.is_dir() and name not in (".", "..", "") else target
    with open_shell(pai, place, ["sh", "-c", _SEND, "pai-cp", path]) as shell:
        shell.close_stdin()
        stream = _Output(shell)
        form = stream.readline().strip()
        copied = Copied()
        try:
            if form == b"file":
                _write(goal, stream, 0o644, copied)
            elif form:
                with tarfile.open(fileobj=stream, mode="r|") as archive:
                    _extract(archive, goal, copied, is_one=form == b"archived")
        except tarfile.TarError as error:
            stream.drain()
            _check(shell, stream.errors, place, path)
            raise Unavailable(f"{path} did not arrive whole: {error}", "copy it again") from error
        finally:
            stream.drain()
        _check(shell, stream.errors, place, path)
    return copied


def copy_to(pai: Client, place: TaskPlace, source: Path, path: str) -> Copied:
    """Copy a file or directory to a task; an existing directory as the target gets it inside."""
    if not source.exists():
        raise Refused("NoFileError", f"there is no {harmless_line(str(source))}", "check the path")
    if not source.is_dir():
        return _send_file(pai, place, source, path)
    with open_shell(pai, place, ["sh", "-c", _IS_DIRECTORY, "pai-cp", path]) as shell:
        shell.close_stdin()
        list(shell)
        goal = f"{path.rstrip('/')}/{source.resolve().name}" if shell.exit_code == 0 else path
    with open_shell(pai, place, ["sh", "-c", _TAKE_ARCHIVE, "pai-cp", goal]) as shell:
        copied, sender = Copied(), _Input(shell)
        sending = threading.Thread(target=_archive, args=(source, sender, copied), daemon=True)
        sending.start()
        errors = b"".join(data for _, data in shell)
        sending.join()
        if sender.error is not None:
            raise sender.error
        _check(shell, errors, place, path)
    return copied


def _send_file(pai: Client, place: TaskPlace, source: Path, path: str) -> Copied:
    mode = f"{source.stat().st_mode & _MODE:o}"
    with open_shell(pai, place, ["sh", "-c", _TAKE_FILE, "pai-cp", path, source.name, mode]) as shell:
        copied = Copied(files=1)
        with source.open("rb") as file:

            def send() -> None:
                while data := file.read(PIECE):
                    shell.write(data)
                    copied.bytes += len(data)
                shell.close_stdin()

            sending = threading.Thread(target=send, daemon=True)
            sending.start()
            errors = b"".join(data for _, data in shell)
            sending.join()
        _check(shell, errors, place, path)
    return copied


def _archive(source: Path, sender: _Input, copied: Copied) -> None:
    """Send a directory as an archive, without special files and links that lead out of it."""
    top = source.resolve()

    def chosen(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        why = _why_not(member)
        if why:
            copied.skipped.append(f"{harmless_line(member.name)} ({why})")
            return None
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        copied.files += member.isreg()
        copied.bytes += member.size if member.isreg() else 0
        return member

    try:
        with tarfile.open(fileobj=sender, mode="w|", format=tarfile.GNU_FORMAT) as archive:
            archive.add(top, ".", filter=chosen)
    except OSError as error:
        sender.error = error
    finally:
        sender.finish()


def _extract(archive: tarfile.TarFile, goal: Path, copied: Copied, *, is_one: bool) -> None:
    links: list[tuple[Path, str]] = []
    if not is_one:
        goal.mkdir(parents=True, exist_ok=True)
    top = goal.parent.resolve() if is_one else goal.resolve()
    for member in archive:
        why = _why_not(member)
        parts = [part for part in member.name.split("/") if part not in ("", ".")]
        path = goal if is_one else goal.joinpath(*parts)
        if why or not _is_below(path.parent if path != goal else path, top):
            copied.skipped.append(f"{harmless_line(member.name)} ({why or 'it leads out of the target'})")
        elif member.isdir():
            path.mkdir(parents=True, exist_ok=True)
        elif member.issym():
            links.append((path, member.linkname))
        elif member.islnk():
            # A hard link names a member before it, from the top of the archive.
            first = goal.joinpath(*[part for part in member.linkname.split("/") if part not in ("", ".")])
            if first.is_file() and not first.is_symlink() and _is_below(first, top):
                with first.open("rb") as earlier:
                    _write(path, earlier, member.mode, copied)
        elif (content := archive.extractfile(member)) is not None:
            _write(path, content, member.mode, copied)
    # Last, so that nothing was written through one.
    for path, link in links:
        if path.is_symlink() or not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            path.symlink_to(link)


def _why_not(member: tarfile.TarInfo) -> str:
    """Return why a member is left out; empty if it is not."""
    name = member.name
    if name.startswith("/") or ".." in name.split("/") or "\0" in name:
        return "it leads out of the directory"
    if member.issym() or member.islnk():
        start = posixpath.dirname(name) if member.issym() else ""
        at = posixpath.normpath(posixpath.join(start, member.linkname))
        if member.linkname.startswith("/") or at == ".." or at.startswith("../"):
            return "it is a link that leads out of the directory"
        return ""
    return "" if member.isreg() or member.isdir() else "it is no file, directory or link"


def _is_below(path: Path, top: Path) -> bool:
    return path.resolve().is_relative_to(top)


def _write(path: Path, content: Readable, mode: int, copied: Copied) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        # Writing must not follow a link, whether it is from here or from an earlier copy.
        path.unlink()
    with path.open("wb") as file:
        shutil.copyfileobj(content, file)
        copied.bytes += file.tell()
    path.chmod(mode & _MODE)
    copied.files += 1


def _check(shell: RemoteShell, errors: bytes, place: TaskPlace, path: str) -> None:
    code = shell.exit_code
    where = f"task {place.name} of job {place.job}"
    if code == 0:
        return
    if code == _MISSING:
        raise Refused("NoFileError", f"{where} has no {harmless_line(path)}", "paths begin in its working directory")
    if code == _NO_TAR:
        message = f"the image of {where} has no tar, which directories need"
        raise InvalidParameters(message, "copy the files one by one, or use an image with tar")
    reason = harmless_line(errors[-_ERRORS_MAX:].decode(errors="replace").strip())
    raise Refused("NoFileError", f"{where} could not copy {harmless_line(path)}: {reason or f'exit code {code}'}")


class _Output(io.RawIOBase):
    """The standard output of a command as a file; what it writes to standard error is kept apart."""

    def __init__(self, shell: RemoteShell) -> None:
        self._pieces = self._read_all(shell)
        self._rest = b""
        self.errors = b""

    def _read_all(self, shell: RemoteShell) -> Iterator[bytes]:
        for stream, data in shell:
            if stream == STDOUT:
                yield data
            else:
                self.errors = (self.errors + data)[-_ERRORS_MAX:]

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes; fewer only at the end."""
        while size < 0 or len(self._rest) < size:
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._rest += piece
        size = len(self._rest) if size < 0 else size
        found, self._rest = self._rest[:size], self._rest[size:]
        return found

    def readline(self, size: int | None = -1, /) -> bytes:
        """Return the bytes until the end of a line."""
        line = b""
        while not line.endswith(b"\n") and (byte := self.read(1)):
            line += byte
        return line

    def drain(self) -> None:
        """Read what is left, so that the exit code is known."""
        for _ in self._pieces:
            pass


class _Input(io.RawIOBase):
    """The standard input of a command as a file."""

    def __init__(self, shell: RemoteShell) -> None:
        self._shell = shell
        self.error: OSError | None = None

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: object, /) -> int:
        """Send bytes."""
        sent = bytes(data)  # type: ignore[call-overload]
        self._shell.write(sent)
        return len(sent)

    def finish(self) -> None:
        """Send the end."""
        self._shell.close_stdin()
