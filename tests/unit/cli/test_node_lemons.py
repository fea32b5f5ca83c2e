"""What `pai node lemons` prints."""

from __future__ import annotations


def test_nodes_that_failed_jobs_are_listed_and_the_score_is_set_and_switched_off(pai, platform):
    platform.on("GET", "/lemons", {"threshold": 2.5})
    platform.on("PUT", "/lemons", {"threshold": 4.0}, {"threshold": 0})
    platform.on("GET", "/nodes", [])
    assert "drained at a score of 2.5" in pai("node", "lemons").out
    assert "drained at a score of 4." in pai("node", "lemons", "4").out
    assert "Off" in pai("node", "lemons", "off").out
    assert pai("node", "lemons", "many").code == 2
    assert pai("node", "lemons", "--json").json() == {"threshold": 2.5, "nodes": []}
