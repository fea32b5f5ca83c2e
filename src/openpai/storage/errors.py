"""Translates errors of storages into the platform's families of errors, without secrets.

The libraries for storages put addresses into their errors, and some addresses contain tokens. So every credential of
the storage is removed from their texts.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, quote_plus

from openpai.protocol.errors import InvalidParameters, PaiError, Refused, Unavailable

MASK: Final = "******"
_TEXT_MAX: Final = 300
_NOT_SO: Final = {
    errno.ENOTDIR: "it is not a directory, or goes through a file",
    errno.EISDIR: "it is a directory",
    errno.EEXIST: "another file is there",
    errno.ENOTEMPTY: "the directory is not empty",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ELOOP: "it goes through a link that leads elsewhere",
    errno.EINVAL: "the storage does not allow such a name",
}
_EMPTY_IT: Final = "remove what is in it first, or all of it at once with `recursive`"
# Libraries raise these without a number.
_ERRNO_OF: Final[Mapping[type[BaseException], int]] = {
    NotADirectoryError: errno.ENOTDIR,
    IsADirectoryError: errno.EISDIR,
    FileExistsError: errno.EEXIST,
}


@dataclass(frozen=True, slots=True)
class ErrorTranslator:
    """Translates errors of one storage."""

    storage: str
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def clean(self, text: str) -> str:
        """Return a library's text on one line, without the credentials of the storage."""
        for secret in _written(self.secrets):
            text = text.replace(secret, MASK)
        text = " ".join(text.split())
        return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}..."

    def error(self, error: BaseException, path: str = "") -> PaiError:
        """Return what to raise for an error at a path; raise it `from None`, because its cause may contain secrets."""
        if isinstance(error, PaiError):
            return error
        at = f"{path or '/'} in storage {self.storage}"
        if isinstance(error, FileNotFoundError):
            return Refused("NoFileError", f"there is no {at}", f"`pai storage ls {self.storage}` shows what there is")
        number = _ERRNO_OF.get(type(error)) or (error.errno if isinstance(error, OSError) else None)
        if isinstance(error, PermissionError) or number == errno.EROFS:
            message = f"the storage {self.storage} denies access to {path or '/'}: {self.text(error)}"
            return Refused("ForbiddenUserError", message, "an administrator can check its credentials and permissions")
        if number in _NOT_SO:
            advice = _EMPTY_IT if number == errno.ENOTEMPTY else "choose another path"
            return InvalidParameters(f"{at}: {_NOT_SO[number]}", advice)
        if number in (errno.ENOSPC, errno.EDQUOT):
            return Unavailable(f"the storage {self.storage} is full", "remove something from it, or ask for more room")
        if isinstance(error, RecursionError):
            message = f"{at}: the directories in it are nested too deeply for a storage of this kind"
            return InvalidParameters(message, "remove the innermost directories first")
        if isinstance(error, TimeoutError):
            return Unavailable(
                f"the storage {self.storage} does not answer", "an administrator can run `pai storage test`"
            )
        return Unavailable(
            f"the storage {self.storage} failed: {self.text(error)}", "an administrator can run `pai storage test`"
        )

    def text(self, error: BaseException) -> str:
        """Return the text of an error, on one line and without secrets."""
        return self.clean(str(getattr(error, "strerror", None) or error) or type(error).__name__)


def _written(secrets: Iterable[str]) -> list[str]:
    """Return secrets in every form they may have in an address, longest first."""
    ways: set[str] = set()
    for secret in filter(None, secrets):
        ways |= {secret, quote(secret), quote(secret, safe=""), quote_plus(secret)}
    return sorted(ways, key=len, reverse=True)
