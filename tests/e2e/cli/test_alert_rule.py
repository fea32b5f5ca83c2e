"""An administrator changes an alert rule while the server runs: tested, saved, refused when stale, reverted."""

from __future__ import annotations

import json

RULE = """
alert: NAME
expr: pai_node_cpus < 0
notify: [admins]
"""


def test_an_alert_rule_is_tested_saved_refused_when_stale_and_reverted(pai, tmp_path):
    file = tmp_path / "rule.yaml"
    file.write_text(RULE.replace("NAME", "NoCpus"))
    assert "It would have fired 0 times" in pai("alert", "test", "--file", str(file)).out
    saved = pai("alert", "edit", "NoCpus", "--file", str(file), "--reason", "new nodes", "--yes")
    assert "Alert rule NoCpus is saved" in saved.out
    # What is printed can be saved again, and only once.
    file.write_text(pai("alert", "rules", "NoCpus").out)
    again = ("alert", "edit", "NoCpus", "--file", str(file), "--since", "0s", "--yes")
    assert pai(*again).code == 0
    stale = pai(*again)
    assert stale.code != 0
    assert "admin added alert rule 'NoCpus' since you read it" in " ".join(stale.err.split())

    unknown = pai("alert", "revert", "NoCpus", "--to", "999999")
    assert "has no revision 999999" in " ".join(unknown.err.split())
    assert pai("alert", "revert", "NoCpus", "--reason", "no use").code == 0
    assert "there is no alert rule 'NoCpus'" in " ".join(pai("alert", "rules", "NoCpus").err.split())
    history = json.loads(pai("alert", "history", "NoCpus", "--json").out)
    assert [(one["action"], one["reason"]) for one in history] == [
        ("reverted", "no use"), ("added", ""), ("added", "new nodes"),
    ]  # fmt: skip
    assert pai("alert", "revert", "NoCpus", "--to", str(history[-1]["revision"])).code == 0
    assert "NoCpus" in pai("alert", "rules", "--changed").out
    # A revision that reverted is reverted to as well.
    assert pai("alert", "revert", "NoCpus", "--to", str(history[0]["revision"])).code == 0
    assert "NoCpus" not in pai("alert", "rules").out


def test_a_channel_is_set_from_a_file_that_says_its_kind(pai, tmp_path):
    file = tmp_path / "channel.yaml"
    file.write_text("url: https://hooks.example.org/1\n")
    without = pai("alert", "channel", "lab", "--file", str(file))
    assert (without.code, "the channel has no kind" in without.err) == (2, True)
    file.write_text("kind: slack\nurl: https://hooks.example.org/1\n")
    differs = pai("alert", "channel", "lab", "--kind", "teams", "--file", str(file))
    assert (differs.code, "kind differ" in differs.err) == (2, True)
    assert pai("alert", "channel", "lab", "--file", str(file)).code == 0
    (found,) = json.loads(pai("alert", "channels", "--json").out)
    assert (found["name"], found["kind"]) == ("lab", "slack")
    assert "hooks.example.org/1" not in json.dumps(found)
    assert pai("alert", "channel", "lab", "--remove").code == 0
