"""Values of the scheduler's interface as plain data."""

from __future__ import annotations

from dataclasses import asdict

from openpai.scheduler.cells.model import Code, Wait
from openpai.scheduler.model import Ask, Gang, Group, Limit, Node, Topology, plain


def test_it_is_what_asdict_makes_of_it() -> None:
    gang = Gang(
        "g1",
        (Ask(1, 2, 4), Ask(0, 0, 1)),
        "a",
        groups=(Group((0, 1), "V100", cell_types=("RACK", None)),),
        topology=Topology("NODE", is_required=True),
        excluded_nodes=("n1",),
    )
    for value in (gang, Limit(3, user="ann"), Node("n", 1, 2, 3), Wait("g", Code.TOO_LARGE, "no", "ask", {"gpus": 1})):
        assert plain(value) == asdict(value)
