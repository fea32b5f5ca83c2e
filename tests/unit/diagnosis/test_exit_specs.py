"""Exit specs that administrators edit: what is read, what is refused and why, and what an edit changes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from openpai.diagnosis import exit_specs
from openpai.diagnosis.diagnosing import find
from openpai.diagnosis.evidence import Evidence
from openpai.diagnosis.exit_specs import bundled, check, describe, merged, read_spec
from openpai.diagnosis.rules import InvalidRules, built_in

LICENCE: dict[str, Any] = {
    "summary": "The licence server gave no licence.",
    "domain": "platform",
    "retry": "helps",
    "row": 237,
    "rules": [
        {"role": "root", "where": "line", "patterns": ["FlexLM error: -4,"], "samples": ["FlexLM error: -4,132 Users"]}
    ],
}


def cause_of(log: str, edits: dict[str, Any], exit_code: int = 1) -> str:
    found = find(Evidence(exit_code, log), merged({name: read_spec(name, body) for name, body in edits.items()})).cause
    return found.name if found else ""


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return LICENCE with another value at a path."""
    body = json.loads(json.dumps(LICENCE))
    *parents, last = path.split(".")
    at: Any = body
    for key in parents:
        at = at[int(key) if key.isdigit() else key]
    at[int(last) if last.isdigit() else last] = value
    return body


def test_every_bundled_exit_spec_is_read_back_from_its_document_and_accepted() -> None:
    for name, spec in bundled().items():
        read = read_spec(name, json.loads(json.dumps(describe(spec))))
        assert read is not None
        assert read.cause == spec.cause
        assert [replace(rule, is_edited=False) for rule in read.rules] == list(spec.rules)
        assert describe(read) == describe(spec)


@pytest.mark.parametrize("name", ["cuda_oom", "missing_module", "nccl_timeout_root_unknown"])
@pytest.mark.slow
def test_a_bundled_exit_spec_put_back_unchanged_changes_nothing(name: str) -> None:
    edit = read_spec(name, describe(bundled()[name]))
    after, takeovers = check(name, {name: edit}, built_in())
    assert takeovers == ()
    assert [replace(rule, is_edited=False) for rule in after.rules] == list(built_in().rules)


def test_an_added_one_is_found_and_a_disabled_one_is_not() -> None:
    log = "FlexLM error: -4,7 Users reached\n"
    assert cause_of(log, {}) == ""
    assert cause_of(log, {"licence": LICENCE}) == "licence"
    missing = "ModuleNotFoundError: No module named 'x'\n"
    assert cause_of(missing, {}) == "missing_module"
    assert cause_of(missing, {"missing_module": {"disabled": True}}) == ""


def test_an_edit_takes_the_place_of_the_bundled_one() -> None:
    body = describe(bundled()["cuda_oom"]) | {"retry": "helps", "advice": ["Use the large GPUs."]}
    rules = merged({"cuda_oom": read_spec("cuda_oom", body)})
    found = find(Evidence(1, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"), rules).cause
    assert found is not None
    assert (found.name, found.retry, found.advice) == ("cuda_oom", "helps", ("Use the large GPUs.",))


@pytest.mark.parametrize(
    ("name", "body", "message"),
    [
        ("Licence", LICENCE, "'Licence' is no name of an exit spec: use small letters"),
        ("licence", {**LICENCE, "rule": []}, "unknown rule; allowed are action, advice, disabled"),
        ("licence", changed("domain", "users"), "licence.domain: 'users' is not one of user, platform"),
        ("licence", changed("row", 7), "licence.row: 7 is no code of the exit-code table"),
        ("licence", changed("rules", []), "rules: expected a list of 1 to 20 rules"),
        ("licence", changed("rules.0", 3), r"rules\[0\]: expected a mapping"),
        ("licence", changed("rules.0.samples", []), r"rules\[0\].samples: give 1 to 50 lines"),
        ("licence", changed("rules.0.patterns", []), r"rules\[0\].patterns: give one at least"),
        ("licence", changed("rules.0.patterns", ["(?=F)"]), "is not a pattern of RE2: invalid perl operator"),
        ("licence", changed("rules.0.patterns", ["(a{1000}){1000}"]), "is not a pattern of RE2: invalid repetition"),
        ("licence", changed("rules.0.patterns", ["(?:.{0,250}){4}x"]), r"is too costly \(\d+ instructions; at most"),
        ("licence", changed("rules.0.patterns", ["F" * 2001]), "a pattern has 2001 characters"),
        ("licence", changed("rules.0.patterns", ["FlexLN"]), r"patterns\[0\]: it is in none of the samples"),
        ("licence", changed("rules.0.patterns", [".*"]), r"patterns\[0\]: it is in every line"),
        (
            "licence",
            changed("rules.0.patterns", ["(?i)E"]),
            r"patterns\[0\]: it is in ordinary lines too, such as 'epoch",
        ),
        (
            "licence",
            changed("rules.0.samples", ["FlexLM error: -4,", "FlexLM: -4"]),
            r"samples\[1\]: no pattern of the",
        ),
    ],
)
def test_a_wrong_edit_is_refused_with_its_place(name: str, body: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRules, match=message):
        check(name, {name: read_spec(name, body)}, built_in())


@pytest.mark.slow
def test_a_pattern_that_takes_over_others_is_named_with_what_it_takes() -> None:
    body = changed("rules.0.patterns", ["FlexLM error: -4,", "No module named"])
    body["rules"][0]["samples"].append("foo: No module named bar")
    _, takeovers = check("licence", {"licence": read_spec("licence", body)}, built_in())
    assert takeovers
    assert {each.after for each in takeovers} == {"licence"}
    assert "missing_module" in {each.before for each in takeovers}


@pytest.mark.full
def test_no_takeover_is_overlooked(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [
        {"role": "root", "where": where, "general": is_general, "patterns": [pattern], "samples": [pattern]}
        for where, pattern, is_general in (
            ("exception", "Error", True),
            ("line", "not", False),
            ("message", "e", False),
        )
    ]
    edits = {"licence": read_spec("licence", {**LICENCE, "rules": rules}), "cuda_oom": None}
    before, after = built_in(), merged(edits)
    found = list(exit_specs._takeovers("licence", before, after))
    monkeypatch.setattr(exit_specs, "is_concerned", lambda evidence, rules: True)
    assert found == list(exit_specs._takeovers("licence", before, after))
    assert {each.after for each in found} >= {"licence"}
    assert "cuda_oom" in {each.before for each in found}


@pytest.mark.slow
def test_together_edits_may_not_use_up_the_memory_of_a_search() -> None:
    rule = LICENCE["rules"][0]
    patterns = [f"licence {number}.{{0,250}}{number}.{{0,200}}x" for number in range(120)]
    body = {**LICENCE, "rules": [{**rule, "patterns": patterns, "samples": ["licence 1 1 x"]}]}
    with pytest.raises(InvalidRules, match="together the patterns of the rules need too much memory"):
        merged({f"licence_{number}": read_spec(f"licence_{number}", body) for number in range(20)})
