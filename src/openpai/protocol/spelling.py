"""Spellings of words: the legal one that was probably meant by an unknown one, and camelCase."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import islice
from operator import itemgetter
from typing import Any, Final

from openpai.protocol.wording import WORD_MAX

LIKENESS_MIN: Final = 0.6
MISSPELT_MIN: Final = 0.7
PART_WEIGHT: Final = 0.9
PART_MIN: Final = 4
# A hostile file must not cause hours of comparisons with a megabyte of names.
LEGAL_MAX: Final = 200
_CAMEL_PARTS: Final = re.compile(r"[A-Z]?[a-z]+")


def camel_case(name: str) -> str:
    """Return a name such as `gpus_per_job` as `gpusPerJob`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def nearest(word: Any, legal: Iterable[str]) -> str:
    """Return the legal word most similar to this one, or an empty text if none is similar enough."""
    meant = str(word)[:WORD_MAX].casefold()
    scored = [(_likeness(meant, one), one) for one in islice(legal, LEGAL_MAX)]
    score, best = max(scored, key=itemgetter(0), default=(0.0, ""))
    return best if score >= LIKENESS_MIN else ""


def misspelt(word: str, legal: Iterable[str]) -> str:
    """Return the legal word that this one misspells, or an empty text. For places where any word is legal."""
    meant = word[:WORD_MAX].casefold()
    scored = [(SequenceMatcher(None, one.casefold(), meant, autojunk=False).ratio(), one) for one in legal]
    score, best = max(scored, default=(0.0, ""))
    return best if score >= MISSPELT_MIN else ""


def _likeness(meant: str, legal: str) -> float:
    """Return the similarity of two words, 0 to 1; a part of a camelCase key counts nearly as much as the whole key."""
    matcher = SequenceMatcher(None, b=meant, autojunk=False)
    matcher.set_seq1(legal[:WORD_MAX].casefold())
    best = matcher.ratio()
    for part in _CAMEL_PARTS.findall(legal[:WORD_MAX]):
        if len(part) >= PART_MIN:
            matcher.set_seq1(part.casefold())
            best = max(best, PART_WEIGHT * matcher.ratio())
    return best
