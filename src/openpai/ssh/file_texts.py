"""Shell texts for requests about files of a task, and the answers of `stat`."""

from __future__ import annotations

import stat as modes
from typing import Final

import asyncssh
from asyncssh import (
    FILEXFER_TYPE_BLOCK_DEVICE,
    FILEXFER_TYPE_CHAR_DEVICE,
    FILEXFER_TYPE_DIRECTORY,
    FILEXFER_TYPE_FIFO,
    FILEXFER_TYPE_REGULAR,
    FILEXFER_TYPE_SOCKET,
    FILEXFER_TYPE_SYMLINK,
    FILEXFER_TYPE_UNKNOWN,
    FXF_CREAT,
    FXF_EXCL,
    FXF_TRUNC,
    SFTPAttrs,
    SFTPVFSAttrs,
)

from openpai.ssh.task_shell import quoted

FORMAT: Final = b"%f %u %g %s %X %Y"
VFS: Final = b"%S %b %f %a %c %d %l"
_TYPES: Final = {
    modes.S_IFREG: FILEXFER_TYPE_REGULAR,
    modes.S_IFDIR: FILEXFER_TYPE_DIRECTORY,
    modes.S_IFLNK: FILEXFER_TYPE_SYMLINK,
    modes.S_IFSOCK: FILEXFER_TYPE_SOCKET,
    modes.S_IFCHR: FILEXFER_TYPE_CHAR_DEVICE,
    modes.S_IFBLK: FILEXFER_TYPE_BLOCK_DEVICE,
    modes.S_IFIFO: FILEXFER_TYPE_FIFO,
}
MODE: Final = 0o7777


def listing(path: bytes, mark: bytes) -> bytes:
    """Return the text that prints the names in a directory with what they are, each after a mark."""
    entry = b"-c '" + mark + b" " + FORMAT + b" %n'"
    return (
        b"ls -- " + quoted(path) + b"/. >/dev/null && cd -- " + quoted(path) + b" || exit 1\n"
        b"if command -v find >/dev/null 2>&1; then find . -maxdepth 1 -exec stat " + entry + b" -- {} + ; "
        b"else stat " + entry + b" -- ./* ./.[!.]* ./..?* . ; fi 2>/dev/null\ntrue"
    )


def creating(word: bytes, pflags: int, attrs: SFTPAttrs) -> list[bytes]:
    """Return the shell text that creates or empties a file as its flags say."""
    lines = [b"new=; [ -e %b ] || new=1" % word]
    if pflags & FXF_CREAT and pflags & FXF_EXCL:
        lines.append(b"set -C; : >%b || exit 1" % word)
    elif pflags & FXF_TRUNC:
        condition = (
            b"" if pflags & FXF_CREAT else b'if [ -n "$new" ]; then echo No such file or directory; exit 1; fi\n'
        )
        lines.append(b"%b: >%b || exit 1" % (condition, word))
    elif pflags & FXF_CREAT:
        lines.append(b": >>%b || exit 1" % word)
    else:
        lines.append(b"[ -e %b ] || { echo No such file or directory; exit 1; }" % word)
        lines.append(b": >>%b || exit 1" % word)
    if attrs.permissions is not None:
        lines.append(b'if [ -n "$new" ]; then chmod %o -- %b; fi' % (attrs.permissions & MODE, word))
    return lines


def free(word: bytes) -> bytes:
    """Return the shell text that fails if a path exists."""
    return b"if [ -e %b ] || [ -L %b ]; then echo File exists; exit 1; fi\n" % (word, word)


def attributes(fields: list[bytes]) -> SFTPAttrs:
    try:
        mode = int(fields[0], 16) & 0xFFFF
        uid, gid, size, atime, mtime = (max(int(each), 0) for each in fields[1:6])
    except (ValueError, IndexError) as error:
        raise asyncssh.SFTPFailure("the task gave no numbers") from error
    return SFTPAttrs(
        type=_TYPES.get(modes.S_IFMT(mode), FILEXFER_TYPE_UNKNOWN),
        permissions=mode,
        uid=min(uid, 2**32 - 1),
        gid=min(gid, 2**32 - 1),
        size=min(size, 2**63 - 1),
        atime=min(atime, 2**32 - 1),
        mtime=min(mtime, 2**32 - 1),
    )


def vfs_attributes(line: bytes) -> SFTPVFSAttrs:
    """Return what `stat -f` says of a file system."""
    try:
        block, blocks, free_, available, files, free_files, longest = (int(each) for each in line.split())
    except ValueError as error:
        raise asyncssh.SFTPFailure("the task gave no numbers") from error
    return SFTPVFSAttrs(block, block, blocks, free_, available, files, free_files, free_files, 0, 0, min(longest, 255))
