"""Packs a directory of code for a job into one archive, without ignored files and within limits.

The rules are those of `.gitignore` and, after them, `.paiignore`, in the directory itself, below it, and above it up to
the top of the repository. Directories that no job needs, such as `.git` or a virtual environment, are always ignored,
and well-known files of secrets are unless a rule includes them (`!.env`).
"""

from __future__ import annotations

import gzip
import os
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from openpai.protocol.code import BYTES_MAX, FILES_MAX, too_large
from openpai.protocol.errors import InvalidParameters, Refused, Unavailable

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

RULES_BYTES_MAX: Final = 1 << 20
RULE_FILES: Final = (".gitignore", ".paiignore")
NEVER_NEEDED: Final = (
    ".git", ".hg", ".svn", "__pycache__/", ".venv/", "node_modules/", ".mypy_cache/", ".ruff_cache/",
    ".pytest_cache/", ".ipynb_checkpoints/", ".tox/", ".DS_Store",
)  # fmt: skip
SECRETS: Final = (
    ".env", ".env.*", "!.env.example", "!.env.sample", "!.env.template", "!.env.dist", ".envrc",
    "*.pem", "*.key", "*.p12", "*.pfx", "*.ppk", "*.jks", "*.keystore", "*.kdbx",
    "id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk",
    ".netrc", "_netrc", ".pgpass", ".my.cnf", ".pypirc", ".git-credentials", ".htpasswd", ".vault-token",
    ".s3cfg", ".boto",
    ".aws/", ".ssh/", ".gnupg/", ".kube/", ".azure/", ".docker/config.json", "gcloud/", "*.tfstate",
    "application_default_credentials.json", "*service-account*.json", "*service_account*.json", "kaggle.json",
)  # fmt: skip
"""Files that hold secrets by their names: sent only if a rule includes them."""
LARGEST_TOLD: Final = 3


@dataclass(frozen=True, slots=True)
class File:
    """A file to pack, and its name in the archive."""

    path: str
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Code:
    """The files of a directory to pack."""

    root: Path
    files: tuple[File, ...]
    left_out: tuple[str, ...] = ()
    """Files that cannot be packed although no rule ignores them, with the reason."""
    secrets: tuple[str, ...] = ()
    """Files and directories that are left out only since their names are those of secrets."""

    @property
    def size(self) -> int:
        """Return how many bytes the files have."""
        return sum(file.size for file in self.files)

    def largest(self) -> tuple[File, ...]:
        """Return the largest files, largest first."""
        return tuple(sorted(self.files, key=lambda file: -file.size)[:LARGEST_TOLD])


@dataclass(frozen=True, slots=True)
class _Rules:
    """The rules of one directory; `above` are those of its parent directories."""

    base: str
    spec: GitIgnoreSpec
    above: _Rules | None = None
    is_of_secrets: bool = False

    def against(self, path: str, is_directory: bool) -> _Rules | None:
        """Return the rules that leave a path out, None if it is packed."""
        rules: _Rules | None = self
        while rules is not None:
            name = path[len(rules.base) + 1 :] + "/" * is_directory
            is_excluded = rules.spec.check_file(name).include
            if is_excluded is not None:
                return rules if is_excluded else None
            rules = rules.above
        return None


def code_of(root: Path) -> Code:
    """Return the files of a directory to pack; raise Refused if it is not a directory or is too large."""
    root = root.expanduser().absolute()
    if root in (Path("/"), Path.home()):
        message = f"{root} is no directory of a project"
        raise InvalidParameters(message, "go to the project's directory first, or send no code with --no-code")
    files: list[File] = []
    left_out: list[str] = []
    secrets: list[str] = []
    size = 0
    try:
        for file in _walk(str(root), left_out, secrets):
            files.append(file)
            size += file.size
            if len(files) > FILES_MAX or size > BYTES_MAX:
                raise _too_much(Code(root, tuple(files)))
    except OSError as error:
        message = f"cannot read {error.filename or root}: {error.strerror or error}"
        raise InvalidParameters(message, "name it in .paiignore if the job does not need it") from error
    return Code(root, tuple(sorted(files, key=lambda file: file.name)), tuple(left_out), tuple(sorted(secrets)))


def pack(code: Code, goal: IO[bytes]) -> None:
    """Write the files as a compressed archive; the same files make the same bytes."""
    with (
        gzip.GzipFile(fileobj=goal, mode="wb", mtime=0, filename="") as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for file in code.files:
            try:
                _add(archive, file)
            except (OSError, tarfile.TarError) as error:
                raise Unavailable(f"{file.path} changed or went while it was packed", "run it again") from error


def _add(archive: tarfile.TarFile, file: File) -> None:
    # A file that was replaced by a pipe meanwhile must not block.
    about = archive.gettarinfo(file.path, file.name)
    about.uid = about.gid = 0
    about.uname = about.gname = ""
    if not about.isreg():
        archive.addfile(about)
        return
    with open(os.open(file.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as content:  # noqa: PTH123
        archive.addfile(about, content)


def _too_much(code: Code) -> Refused:
    return too_large(str(code.root), ((file.name, file.size) for file in code.files), FILES_MAX)


def _walk(root: str, left_out: list[str], secrets: list[str]) -> Iterator[File]:
    """Yield the files to pack, at any depth."""
    ahead = [(root, _rules_above(root))]
    while ahead:
        directory, rules = ahead.pop()
        rules = _with_own(directory, rules)
        for entry in os.scandir(directory):
            is_directory = entry.is_dir(follow_symlinks=False)
            name = entry.path[len(root) + 1 :]
            against = rules.against(entry.path, is_directory)
            if against is not None:
                if against.is_of_secrets:
                    secrets.append(name + "/" * is_directory)
                continue
            if is_directory:
                # A virtual environment of any name works nowhere else.
                if not os.path.lexists(f"{entry.path}/pyvenv.cfg"):
                    ahead.append((entry.path, rules))
                continue
            found = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(found.st_mode):
                yield File(entry.path, name, found.st_size)
            elif stat.S_ISLNK(found.st_mode) and _stays_inside(root, entry.path):
                yield File(entry.path, name, 0)
            else:
                what = "a link to a place outside" if stat.S_ISLNK(found.st_mode) else "not a regular file"
                left_out.append(f"{name} is {what}")


def _stays_inside(root: str, link: str) -> bool:
    goal = str(Path(link).readlink())
    if goal.startswith("/"):
        return False
    there = os.path.normpath(os.path.join(os.path.dirname(link), goal))  # noqa: PTH118, PTH120
    return there == root or there.startswith(f"{root}/")


def _rules_above(root: str) -> _Rules:
    """Return the rules of the parents of a directory, up to the top of its repository."""
    from pathspec import GitIgnoreSpec

    secrets = _Rules(root, GitIgnoreSpec.from_lines(SECRETS), is_of_secrets=True)
    rules = _Rules(root, GitIgnoreSpec.from_lines(NEVER_NEEDED), secrets)
    holders = [root, *map(str, Path(root).parents)]
    top = next((number for number, one in enumerate(holders) if os.path.lexists(f"{one}/.git")), 0)
    for holder in reversed(holders[1 : top + 1]):
        rules = _with_own(holder, rules)
    return rules


def _with_own(directory: str, above: _Rules) -> _Rules:
    from pathspec import GitIgnoreSpec

    lines = [line for name in RULE_FILES for line in _lines(f"{directory}/{name}")]
    return _Rules(directory, GitIgnoreSpec.from_lines(lines), above) if lines else above


def _lines(path: str) -> list[str]:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123
            return file.read(RULES_BYTES_MAX).decode("utf-8", "replace").splitlines()
    except (FileNotFoundError, IsADirectoryError):
        return []
