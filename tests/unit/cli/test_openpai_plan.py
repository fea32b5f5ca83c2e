"""What an import from an OpenPAI would do, for answers of any shape."""

from __future__ import annotations

import json
import random
from typing import Any, Self

import pytest

from openpai.cli import openpai_source
from openpai.cli.openpai_plan import Action, Present, plan
from openpai.cli.openpai_source import read_rest
from openpai.protocol.errors import Refused
from tests.integration.fake_openpai import answers

NOTHING = Present({}, {}, {}, frozenset({"default"}), frozenset(), "")
ODD = [None, [], {}, 0, "x", True, [1], {"a": 1}, [None], "\x00", "[" * 1000]
CELLS = {
    "cellTypes": {"NODE": {"childCellType": "GPU", "childCellNumber": 2, "isNodeLevel": True}},
    "physicalCells": [{"cellType": "NODE", "cellAddress": "n1", "cellChildren": [{"cellAddress": "0"}]}],
}


def changed(chance: random.Random, value: Any) -> Any:
    """Return a document with some of its parts missing or of another type."""
    if chance.random() < 0.04:
        return chance.choice(ODD)
    if isinstance(value, dict):
        return {key: changed(chance, one) for key, one in value.items() if chance.random() > 0.01}
    return [changed(chance, one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_odd_answers_of_another_server_are_listed_and_break_nothing(
    monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    for seed in range(first, first + 50):
        chance = random.Random(seed)
        found = changed(chance, answers())
        found = found if isinstance(found, dict) else {}

        class Answers:
            def __init__(self, *_: str, found: dict[str, Any] = found) -> None:
                self.found = found

            def __enter__(self) -> Self:
                return self

            def __exit__(self, *_: object) -> None:
                pass

            def get(self, path: str) -> Any:
                if path not in self.found:
                    raise Refused("InvalidParametersError", f"{path} answers HTTP 404")
                return self.found[path]

        monkeypatch.setattr(openpai_source, "OpenPai", Answers)
        try:
            source = read_rest("http://old", "token")
        except Refused:
            continue
        source.hived = json.dumps(changed(chance, {"physicalCluster": CELLS, "virtualClusters": {"a": {}}}))
        steps = plan(source, NOTHING, {})
        assert all(step.detail for step in steps if step.action is Action.SKIP)
