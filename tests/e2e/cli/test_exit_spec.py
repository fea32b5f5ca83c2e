"""An administrator changes an exit spec while the server runs: tested on past failures, saved, used, and reverted."""

from __future__ import annotations

import json
import re

JOB = """
protocolVersion: 2
name: NAME
type: job
prerequisites: [{type: dockerimage, name: image, uri: python}]
taskRoles:
  worker:
    instances: 1
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 0}
    commands: ['echo "licence server lic7: no seat left"; exit 9']
"""
SPEC = """
summary: The licence server gave no licence.
domain: platform
retry: no
row: 237
advice: [Ask the licence desk.]
rules:
- role: root
  where: line
  patterns: ['licence server \\S+: no seat left']
  samples: ['licence server lic1: no seat left']
"""


def failed(pai, tmp_path, name):
    """Run a job that fails, and return its cause."""
    (tmp_path / "job.yaml").write_text(JOB.replace("NAME", name))
    assert pai("job", "submit", str(tmp_path / "job.yaml"), "--watch").code == 1
    return json.loads(pai("job", "show", name, "--json").out)["jobStatus"]["appExitCause"]


def test_an_exit_spec_is_tested_saved_used_at_once_and_reverted(pai, tmp_path):
    assert failed(pai, tmp_path, "before")["name"] == "unknown"
    file = tmp_path / "licence.yaml"
    file.write_text(SPEC)
    tested = pai("exit-spec", "test", "licence", "--file", str(file), "--jobs", "10").out
    # Other tests of the same server left failed jobs, too.
    assert re.search(r"1 of the newest \d+ failed jobs? would have another cause:", tested)
    assert "admin~before" in tested
    assert "licence server lic7: no seat left" in " ".join(tested.split())
    assert "No exit spec was ever changed" in pai("exit-spec", "history").out

    saved = pai("exit-spec", "edit", "licence", "--file", str(file), "--reason", "new simulator", "--yes")
    assert "Exit spec licence is saved" in saved.out
    cause = failed(pai, tmp_path, "after")
    assert (cause["name"], cause["domain"], cause["advice"]) == ("licence", "platform", ["Ask the licence desk."])
    assert "Ask the licence desk." in pai("job", "show", "after").out
    # What is printed can be saved again.
    (tmp_path / "again.yaml").write_text(pai("exit-spec", "show", "licence").out)
    assert pai("exit-spec", "edit", "licence", "--file", str(tmp_path / "again.yaml"), "--yes").code == 0
    stale = pai("exit-spec", "edit", "licence", "--file", str(tmp_path / "again.yaml"), "--yes", "--jobs", "0")
    assert "admin added exit spec 'licence' since you read it: it is at revision 2" in " ".join(stale.err.split())
    assert "+summary: The licence server gave no licence." in pai("exit-spec", "show", "licence", "--diff").out

    file.write_text(SPEC.replace("'licence server \\S+: no seat left'", "'(licence', 'x'", 1))
    wrong = pai("exit-spec", "edit", "licence", "--file", str(file), "--yes")
    assert wrong.code != 0
    assert "rules[0].patterns: '(licence' is not a pattern of RE2: missing )" in " ".join(wrong.err.split())
    assert "nothing was changed" in wrong.err

    assert pai("exit-spec", "revert", "licence", "--reason", "moved away").code == 0
    history = json.loads(pai("exit-spec", "history", "licence", "--json").out)
    assert [(one["action"], one["user"]) for one in history] == [
        ("reverted", "admin"), ("added", "admin"), ("added", "admin"),
    ]  # fmt: skip
    assert [one["reason"] for one in history] == ["moved away", "", "new simulator"]
    assert failed(pai, tmp_path, "at-last")["name"] == "unknown"
    assert pai("exit-spec", "revert", "licence", "--to", "1").code == 0
    assert "licence" in pai("exit-spec", "list", "--changed").out
    audit = json.loads(pai("audit", "list", "--json").out)
    assert "exit_spec.change" in json.dumps(audit)


def test_a_bundled_exit_spec_is_disabled_and_tried_on_a_log(pai, tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"\0\xff" * 100 + b"\nTraceback (most recent call last):\nImportError: libfoo.so: no\n")
    message = pai("exit-spec", "test", "--log", str(log)).out
    name = "missing_module"
    assert name in message
    assert pai("exit-spec", "edit", name, "--disable", "--force", "--yes", "--jobs", "0").code == 0
    assert name not in pai("exit-spec", "test", "--log", str(log)).out
    assert pai("exit-spec", "revert", name).code == 0
    assert name in pai("exit-spec", "test", "--log", str(log)).out


def test_an_exit_spec_that_takes_over_samples_of_others_is_a_conflict(pai, tmp_path):
    rule = {"role": "root", "where": "line", "patterns": ["No module named"], "samples": ["foo: No module named bar"]}
    spec = {"summary": "No licence.", "domain": "platform", "retry": "helps", "row": 237, "rules": [rule]}
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    refused = pai("exit-spec", "edit", "taker", "--file", str(tmp_path / "spec.yaml"), "--yes", "--jobs", "0", "--json")
    assert refused.code != 0
    assert "ConflictSettingError" in refused.err + refused.out


def test_a_catastrophic_pattern_is_refused_with_the_reason_or_costs_nothing(pai, tmp_path):
    file, log = tmp_path / "spec.yaml", tmp_path / "log"
    log.write_text("a" * 200_000 + "b\n" + "Traceback (most recent call last):\nRuntimeError: stopped\n")

    def answer_to(pattern, *words):
        # Another test of the same server may have left a rule for the sample of SPEC.
        spec = SPEC.replace("'licence server \\S+: no seat left'", f"'{pattern}'", 1)
        file.write_text(spec.replace("licence server lic1: no seat left", "plotter 7 has no ink"))
        return pai("exit-spec", *words, "licence_cost", "--file", str(file))

    for pattern, why in (
        (r"(.*seat){500}", "is too costly"),
        (r"\pL{1000}", "is too costly"),
        (r"(a{1000}){1000}", "is not a pattern of RE2: invalid repetition size"),
        (r"(?=licence)", "is not a pattern of RE2: invalid perl operator"),
        (r"(licence)\1", "is not a pattern of RE2: invalid escape sequence"),
    ):
        for words in (("test", "--log", str(log)), ("edit", "--yes")):
            refused = answer_to(pattern, *words)
            assert refused.code != 0, (pattern, words)
            assert f"rules[0].patterns: '{pattern}' {why}" in " ".join(refused.err.replace("\\\\", "\\").split())
    # What takes other engines years is a pattern like any other one: the search takes one pass over the line.
    tested = answer_to(r"(p+|l+|plot)+ter (\S+)+ has no ink|^(a+)+$", "test", "--log", str(log))
    assert tested.code == 0
    assert "licence_cost" not in pai("exit-spec", "list", "--changed").out
