"""The file server of the gateway uses no file of this machine."""

from __future__ import annotations

import subprocess

import asyncssh
import pytest

from openpai.ssh.files import TaskFileServer
from openpai.ssh.task_shell import failure, plain_word, quoted

# They say what the connection is, or use only what is replaced.
HARMLESS = {"channel", "connection", "env", "logger", "convert_attrs", "format_longname"}


def test_every_method_of_asyncsshs_file_server_is_replaced() -> None:
    theirs = {name for name in vars(asyncssh.SFTPServer) if not name.startswith("_")}
    assert theirs - set(vars(TaskFileServer)) == HARMLESS
    assert "__init__" in vars(TaskFileServer)


@pytest.mark.parametrize("path", [b"a", b"-rf", b"'; touch hurt; '", b"$(touch hurt)`x`\\\n\n", bytes(range(1, 256))])
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_path_is_one_word_of_a_shell(path: bytes, shell: str) -> None:
    message = subprocess.run([shell], input=b"printf %s " + quoted(path), capture_output=True, check=True)
    assert message.stdout == b"./" + path
    message = subprocess.run([shell, "-c", plain_word(path) + 'printf %s "$path"'], capture_output=True, check=True)
    assert message.stdout == b"./" + path
    assert plain_word(path).isascii()


@pytest.mark.parametrize("path", [b"a\0b", b"x" * 5000])
def test_a_path_that_no_file_has_is_refused(path: bytes) -> None:
    with pytest.raises(asyncssh.SFTPFailure):
        quoted(path)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b"cat: can't open 'x': No such file or directory", asyncssh.SFTPNoSuchFile),
        (b"sh: 1: cannot create x: Permission denied", asyncssh.SFTPPermissionDenied),
        (b"\x1b[2J", asyncssh.SFTPFailure),
        (b"", asyncssh.SFTPFailure),
    ],
)
def test_a_failure_has_its_kind_and_no_control_sequences(text: bytes, kind: type[asyncssh.SFTPError]) -> None:
    error = failure(text)
    assert type(error) is kind
    assert "\x1b" not in error.reason
