"""Runs a measurement as `python -m bench.NAME OPTIONS` does, in a process that has imported the platform already."""

from __future__ import annotations

import runpy
import sys


def main() -> None:
    """Run the measurement that the first word names; the others are its options."""
    runpy.run_module(f"bench.{sys.argv.pop(1)}", run_name="__main__", alter_sys=True)
