"""Copies what a server needs into an empty tree: this Python, its shared libraries, CA certificates, and openpai.

Run `python collect.py DIRECTORY` in a virtual environment with openpai. DIRECTORY/root becomes the root
of the image, DIRECTORY/home the home of its user. Python stays at its path, the packages go to /opt/openpai.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

USER: Final = 10001
PACKAGES: Final = "opt/openpai/lib"
UNUSED_MODULES: Final = (
    "__pycache__",
    "config-3*",
    "distutils",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "pydoc_data",
    "site-packages",
    "test",
    "tkinter",
    "turtle.py",
    "turtledemo",
)
UNUSED_FILES: Final = (
    "*.a",
    "*.c",
    "*.h",
    "*.pxd",
    "*.pyi",
    "*.pyx",
    "*.exe",
    "_test*.so",
    "_tkinter*.so",
    "_dbm*.so",
    "libpython*.so",
    "RECORD",
    "*.cyclonedx.json",
)
UNUSED_PACKAGES: Final = (
    "pip",
    "pip-*",
    "setuptools",
    "setuptools-*",
    "_distutils_hack",
    "pkg_resources",
    "distutils-precedence.pth",
    "__pycache__",
    "testing",
    "tests",
)
KEPT_PARTS: Final = {
    "botocore/data/*/": ("s3", "sts"),
    "fastapi_offline/static/redoc*": (),
    "ldap3/protocol/schemas/*.py": ("__init__.py",),
    "pygments/lexers/*.py": ("__init__.py", "_mapping.py", "python.py", "special.py"),
    "sqlalchemy/dialects/*/": ("postgresql", "sqlite"),
}
"""What is kept of hundreds of services, languages, databases and directories, a fifth of the image."""
ROOMS: Final = (
    "access",
    "api",
    "applications",
    "lifecycle",
    "market",
    "metrics",
    "notify",
    "orchestrator",
    "store",
    "wire",
)
"""The rooms of openpai of which a starting server needs nearly all modules, also those that are looked for by name."""
STARTED: Final = (
    *(
        f"openpai.app.{name}"
        for name in ("main", "up", "serve", "assembly", "entrances", "config_file", "settings_shown")
    ),
    *(f"openpai.{name}" for name in ("api.app", "backends.kubernetes.backend", "simulator.apart", "storage.kinds")),
    *("alembic.config", "httpx", "psycopg", "uvicorn.lifespan.off", "uvicorn.logging", "uvloop"),
    "uvicorn.protocols.http.httptools_impl",
    "websockets.asyncio.client",
)
"""What a starting server imports, itself or by these."""
CERTIFICATES: Final = "etc/ssl/certs/ca-certificates.crt"
_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")


def main(target: Path) -> None:
    """Fill `target`, which must not exist yet."""
    target = target.resolve()
    root = target / "root"
    python = Path(sys.executable).resolve()
    _copy(python, root)
    for kind in ("stdlib", "platstdlib"):
        modules = Path(sysconfig.get_path(kind, vars={"base": sys.base_prefix, "platbase": sys.base_prefix}))
        shutil.copytree(
            modules,
            _below(root, modules),
            ignore=shutil.ignore_patterns(*UNUSED_MODULES, *UNUSED_FILES),
            dirs_exist_ok=True,
        )
    packages = root / PACKAGES
    shutil.copytree(
        sysconfig.get_path("purelib"), packages, ignore=shutil.ignore_patterns(*UNUSED_PACKAGES, *UNUSED_FILES)
    )
    _drop_parts(packages)
    for library in sorted(set(_libraries([python, *root.rglob("*.so*")]))):
        # Not what a package brings itself: that is there already.
        if not library.resolve().is_relative_to(target):
            _copy(library, root)
    _strip(root)
    _copy(Path("/", CERTIFICATES), root)
    _script(root / "opt/openpai/bin/pai", python)
    (root / "etc/passwd").write_text(f"openpai:x:{USER}:{USER}::/var/lib/openpai:/nonexistent\n")
    (root / "etc/group").write_text(f"openpai:x:{USER}:\n")
    (root / "tmp").mkdir(mode=0o1777, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    (target / "home").mkdir(mode=0o700)
    _compile(root, python)


def _drop_parts(packages: Path) -> None:
    """Remove what packages bring for services, languages and databases that a server does not use."""
    for pattern, kept in KEPT_PARTS.items():
        for part in packages.glob(pattern):
            if part.name not in kept and part.is_dir():
                shutil.rmtree(part)
            elif part.name not in kept:
                part.unlink()


def _strip(root: Path) -> None:
    """Remove what only debuggers read from compiled modules, a fifth of the image, where there is a `strip`."""
    if program := shutil.which("strip"):
        files = [str(path) for path in root.rglob("*.so*")]
        subprocess.run([program, "--strip-unneeded", *files], check=True)


def _compile(root: Path, python: Path) -> None:
    """Compile what a starting server imports: the file system of a container may be read-only."""
    code = f"import sys; sys.path.insert(0, '/{PACKAGES}'); import {', '.join(STARTED)}"
    rooms = [f"/{PACKAGES}/openpai/{room}" for room in ROOMS]
    for arguments in (["-c", code], ["-m", "compileall", "-q", *rooms]):
        subprocess.run([python, "-I", *arguments], check=True, preexec_fn=lambda: os.chroot(root), cwd="/")


def _script(path: Path, python: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(
        f"#!{python} -I\nimport sys\n\nsys.path.insert(0, '/{PACKAGES}')\nfrom openpai.app.main import run\n\nrun()\n"
    )
    path.chmod(0o755)


def _libraries(programs: Iterable[Path]) -> Iterator[Path]:
    """Yield each shared library outside of the tree that these programs load."""
    for program in programs:
        found = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
        yield from (
            Path(match) for match in _LIBRARY.findall(found.stdout) if not match.startswith(str(program.parent))
        )


def _copy(path: Path, root: Path) -> None:
    """Copy a file, or what a link leads to, to its own path below `root`."""
    copy = _below(root, path)
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, copy)


def _below(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
