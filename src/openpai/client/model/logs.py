"""Pieces of logs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogPiece:
    """A piece of one stream of a task's log, beginning at byte `offset` of it."""

    stream: str
    offset: int
    text: str
