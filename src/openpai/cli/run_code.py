"""How the code of `pai run` reaches the job: inside the job file, through a storage, or not at all."""

from __future__ import annotations

import base64
import re
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from openpai.cli import formatting, output
from openpai.protocol.errors import InvalidParameters, PaiError, Refused

if TYPE_CHECKING:
    from openpai.client import Client
    from openpai.client.code import Code

IN_JOB_BYTES: Final = 640 << 10
"""The most packed code that a job file carries."""
FOLDER: Final = ".pai-code"
LEFT_OUT_SHOWN: Final = 5
_HERE: Final = frozenset({"localhost", "127.0.0.1", "::1"})
# What is written below PAI_WORK_DIR can be fetched, but an image may not let its user write there.
_CODE: Final = '"${PAI_WORK_DIR:-.}/code"'
_ENTER: Final = f'{{ mkdir -p {_CODE} 2>/dev/null && cd {_CODE}; }} || cd "$(mktemp -d)"\n'


@dataclass(frozen=True, slots=True)
class CodeTransfer:
    """How the code reaches the job: commands before the job's own, and the storage they need."""

    message: str
    commands: tuple[str, ...] = ()
    storage: str = ""
    path: str = ""
    """Path of the code in the storage; empty if nothing was sent."""


NONE: Final = CodeTransfer("not sent (--no-code)")


def in_place(url: str, directory: Path) -> CodeTransfer:
    """Run in the directory itself; raise Refused for a server on another machine."""
    if urlsplit(url).hostname not in _HERE:
        message = f"the server {url} is not on this machine, so its tasks cannot reach this directory"
        raise InvalidParameters(message, "leave out --in-place, and the code is sent with the job")
    where = directory.expanduser().absolute()
    failed = shlex.quote(f"{where} cannot be entered where the task runs; run it without --in-place")
    return CodeTransfer(f"{where}, in place", (f"cd {shlex.quote(str(where))} || {{ echo {failed} >&2; exit 1; }}",))


def warn_of_secrets(code: Code) -> None:
    """Say which files stay here since their names are those of secrets, and how to send them all the same."""
    if not code.secrets:
        return
    more = f" and {len(code.secrets) - LEFT_OUT_SHOWN} more" if len(code.secrets) > LEFT_OUT_SHOWN else ""
    shown = f"{', '.join(code.secrets[:LEFT_OUT_SHOWN])}{more}"
    output.warn(
        f"not sent, since secrets are kept in such files: {shown}; to send one, add !{code.secrets[0]} to .paiignore"
    )


def send(pai: Client, code: Code, name: str, storage: str | None, *, is_dry: bool) -> CodeTransfer:
    """Pack code and send it in the job, or through a storage if it is large or a storage is named."""
    from openpai.client.code import pack

    for one in code.left_out[:LEFT_OUT_SHOWN]:
        output.warn(f"left out: {one}")
    warn_of_secrets(code)
    if not code.files:
        return CodeTransfer(f"none: {code.root} has no files to send")
    with tempfile.NamedTemporaryFile(suffix=".tar.gz") as packed:
        pack(code, packed)
        packed.flush()
        size = packed.tell()
        what = f"{formatting.plural(len(code.files), 'file')} of {code.root}, {kilobytes(size)} packed"
        if storage is None and size <= IN_JOB_BYTES:
            packed.seek(0)
            return CodeTransfer(f"{what}, in the job", (_unpacked(packed.read()),))
        chosen = storage or _default_storage(pai, code, size)
        path = f"{FOLDER}/{name}.tar.gz"
        if not is_dry:
            pai.files(chosen).upload(Path(packed.name), path)
    variable = re.sub(r"[^A-Z0-9_]", "_", chosen.upper())
    unpack = f'{_ENTER}tar -xzf "$PAI_STORAGE_{variable}/{path}"'
    return CodeTransfer(f"{what}, in storage {chosen} as {path}", (unpack,), chosen, "" if is_dry else path)


def remove(pai: Client, transfer: CodeTransfer) -> None:
    """Remove the code of a refused job from the storage."""
    if not transfer.path:
        return
    try:
        pai.remove_file(transfer.storage, transfer.path)
    except PaiError as error:
        output.warn(f"the code stays in storage {transfer.storage} as {transfer.path}: {error.message}")


def kilobytes(size: int) -> str:
    """Return a size for people."""
    return f"{max(1, round(size / 1024))} KB" if size < 1 << 20 else f"{size / (1 << 20):.1f} MB"


def _unpacked(packed: bytes) -> str:
    text = base64.encodebytes(packed).decode()
    return f"{_ENTER}base64 -d <<'END-OF-CODE' | tar -xzf -\n{text}END-OF-CODE"


def _default_storage(pai: Client, code: Code, size: int) -> str:
    found = next((one.name for one in pai.storages(default=True) if not one.is_read_only), None)
    if found is not None:
        return found
    few = ", ".join(f"{file.name} ({kilobytes(file.size)})" for file in code.largest())
    raise Refused(
        "RequestTooLargeError",
        f"the code is {kilobytes(size)} packed, and a job file carries {kilobytes(IN_JOB_BYTES)}; largest: {few}",
        "list files that the job does not need in .paiignore, or send the code through a storage: --storage NAME",
    )
