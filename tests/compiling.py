"""Compiles test modules once for all processes of a run: in a fresh clone each of them would compile all of them.

All processes collect all tests, in the same order and at the same speed, so that none finds what another has compiled.
Here each compiles its share first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest


def compile_share(config: pytest.Config, share: int, shares: int) -> None:
    """Compile every so many of the test modules that are collected, unless they are."""
    hook = config.pluginmanager.rewrite_hook
    for path in [*_modules(config.args)][share::shares]:
        spec = None if _is_compiled(path) else hook.find_spec(path.stem, [str(path.parent)])  # type: ignore[attr-defined]
        if spec is not None:
            module = ModuleType(path.stem)
            # pytest compiles what is imported. Here the import ends with the first line, for lack of any function.
            module.__dict__.update(__spec__=spec, __builtins__={})
            with suppress(ImportError, KeyError):
                spec.loader.exec_module(module)


def _modules(args: list[str]) -> Iterator[Path]:
    for arg in args:
        place = Path(arg.partition("::")[0])
        yield from sorted(place.rglob("test_*.py")) if place.is_dir() else [place]


def _is_compiled(path: Path) -> bool:
    name = f"{path.stem}.{sys.implementation.cache_tag}-pytest-{pytest.__version__}.pyc"
    compiled = path.parent / "__pycache__" / name
    return compiled.exists() and compiled.stat().st_mtime_ns >= path.stat().st_mtime_ns
