"""Exit specs: a cause with its rules as one document, which administrators may change while the servers run.

An edit replaces a bundled exit spec, adds one, or disables one. It is kept apart from the bundled ones, so that a newer
version of the platform brings newer bundled specs and loses no edit.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from openpai.diagnosis.diagnosing import find, is_concerned
from openpai.diagnosis.evidence import Evidence
from openpai.diagnosis.rules import (
    FAILURES,
    OWN_SIGNALS,
    Cause,
    InvalidRules,
    Role,
    Rule,
    RuleSet,
    Where,
    built_in,
    read_cause,
    read_rule,
)

Body = Mapping[str, Any]
RULES_MAX: Final = 20
SAMPLES_MAX: Final = 50
SPECS_MAX: Final = 200
"""Edits at a time."""
LINE_MAX: Final = 2000
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_OF_CAUSE: Final = ("summary", "domain", "retry", "row", "action", "advice")
_KEYS: Final = frozenset({*_OF_CAUSE, "rules", "disabled"})
_ORDINARY: Final = (
    "",
    "epoch 1 loss 0.25",
    "Epoch 3/10:  45%|####5     | 45/100 [00:12<00:15,  3.6it/s]",
    "2026-01-01 12:00:00 INFO trainer: saved a checkpoint to /data/model.pt",
    "{'loss': 1.25, 'learning_rate': 5e-05, 'epoch': 0.5}",
    "Traceback (most recent call last):",
    '  File "train.py", line 12, in <module>',
)
"""Lines of healthy programs, and those that every traceback has: a pattern that is in one says nothing."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A cause with its rules."""

    cause: Cause
    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class Takeover:
    """A sample of another exit spec that shows another cause after an edit than before."""

    sample: str
    before: str
    after: str


def bundled() -> dict[str, Spec]:
    """Return the exit specs that the platform comes with, by name."""
    rules = built_in()
    return {
        name: Spec(cause, tuple([rule for rule in rules.rules if rule.cause.name == name]))
        for name, cause in rules.causes.items()
    }


def describe(spec: Spec) -> dict[str, Any]:
    """Return an exit spec as the document that `read_spec` reads."""
    cause = spec.cause
    return {
        "summary": cause.summary,
        "domain": cause.domain.value,
        "retry": cause.retry.value,
        "action": "exclude_node" if cause.excludes_node else "none",
        "row": cause.row,
        "advice": list(cause.advice),
        "rules": [_described(rule) for rule in spec.rules],
    }


def _described(rule: Rule) -> dict[str, Any]:
    words = {FAILURES | OWN_SIGNALS: "own", FAILURES: "failure"}
    exits: Any = "any" if rule.exits is None else words.get(rule.exits) or sorted(rule.exits)
    return {
        "role": rule.role.value,
        "where": rule.where.value,
        "exits": exits,
        **({"row": rule.row} if rule.row != rule.cause.row else {}),
        **({"certain": True} if rule.is_certain else {}),
        **({"general": True} if rule.is_general else {}),
        "patterns": list(rule.patterns),
        "samples": list(rule.samples),
    }


def read_spec(name: str, body: Body) -> Spec | None:
    """Return the exit spec of an edit, None if the edit disables it; raise InvalidRules."""
    if not _NAME.fullmatch(name):
        raise InvalidRules(f"{name[:80]!r} is no name of an exit spec: use small letters, digits and _, at most 64")
    if unknown := sorted(map(str, body.keys() - _KEYS)):
        raise InvalidRules(f"unknown {', '.join(unknown)}; allowed are {', '.join(sorted(_KEYS))}")
    if body.get("disabled", False) is True:
        return None
    cause = read_cause(name, {key: body[key] for key in _OF_CAUSE if key in body}, name)
    listed = body.get("rules")
    if not isinstance(listed, list) or not 1 <= len(listed) <= RULES_MAX:
        raise InvalidRules(f"rules: expected a list of 1 to {RULES_MAX} rules")
    rules = tuple([_read_rule(each, f"rules[{at}]", cause) for at, each in enumerate(listed)])
    return Spec(cause, rules)


def _read_rule(body: object, where: str, cause: Cause) -> Rule:
    if not isinstance(body, Mapping):
        raise InvalidRules(f"{where}: expected a mapping")
    rule = read_rule({"cause": cause.name, **body}, where, {cause.name: cause})
    if not rule.patterns:
        raise InvalidRules(f"{where}.patterns: give one at least")
    if not 1 <= len(rule.samples) <= SAMPLES_MAX:
        raise InvalidRules(f"{where}.samples: give 1 to {SAMPLES_MAX} lines that the rule should match")
    if any(len(sample) > LINE_MAX for sample in rule.samples):
        raise InvalidRules(f"{where}.samples: a sample is longer than {LINE_MAX} characters")
    return replace(rule, is_edited=True)


def merged(edits: Mapping[str, Spec | None]) -> RuleSet:
    """Return the bundled rules with edits in place of those that they replace; rules without a place go first."""
    if len(edits) > SPECS_MAX:
        raise InvalidRules(f"{len(edits)} exit specs would be edited; at most {SPECS_MAX} are allowed")
    base = built_in()
    waiting = {name: list(spec.rules) if spec else [] for name, spec in edits.items()}
    placed: list[Rule] = []
    for rule in base.rules:
        name = rule.cause.name
        if name not in waiting:
            placed.append(rule)
        elif waiting[name]:
            placed.append(waiting[name].pop(0))
    first = [rule for name in sorted(waiting) for rule in waiting[name]]
    causes = {name: cause for name, cause in base.causes.items() if name not in edits}
    return RuleSet((*first, *placed), causes | {name: spec.cause for name, spec in edits.items() if spec})


def check(name: str, edits: Mapping[str, Spec | None], before: RuleSet) -> tuple[RuleSet, tuple[Takeover, ...]]:
    """Return the rules with the edit of `name`, and the samples of other exit specs that show another cause then.

    Raises InvalidRules for a pattern that is in none of its samples or in ordinary lines, and for a sample that does
    not show the cause.
    """
    spec = edits.get(name)
    after = merged(edits)
    known = {pattern for rule in built_in().rules if rule.cause.name == name for pattern in rule.patterns}
    for at, rule in enumerate(spec.rules if spec else ()):
        _check_patterns(rule, f"rules[{at}]", known)
        _check_samples(rule, f"rules[{at}]", after)
    return after, tuple(_takeovers(name, before, after))


def _check_patterns(rule: Rule, where: str, known: Collection[str]) -> None:
    for at, pattern in enumerate(rule.patterns):
        if pattern in known:
            continue
        alone = RuleSet((replace(rule, patterns=(pattern,)),), {})
        if not any(alone.observe(line) for sample in rule.samples for line in _lines(sample)):
            raise InvalidRules(f"{where}.patterns[{at}]: it is in none of the samples; add a line that it should match")
        if any(alone.observe(line) for line in _ORDINARY):
            line = next(line for line in _ORDINARY if alone.observe(line))
            message = f"it is in ordinary lines too, such as {line!r}" if line else "it is in every line"
            raise InvalidRules(f"{where}.patterns[{at}]: {message}; make it say more")


def _check_samples(rule: Rule, where: str, after: RuleSet) -> None:
    alone = RuleSet((rule,), {})
    for at, sample in enumerate(rule.samples):
        if not any(alone.observe(line) for line in _lines(sample)):
            raise InvalidRules(f"{where}.samples[{at}]: no pattern of the rule is in it")
        found = find(evidence_of(rule, sample), after).cause
        if rule.role is not Role.CONFIRMATION and (found is None or found.name != rule.cause.name):
            shows = (
                f"it shows {found.name}, whose rule goes before"
                if found
                else f"no rule with where: {rule.where} finds it"
            )
            raise InvalidRules(f"{where}.samples[{at}]: {shows}; change the pattern, `where` or `exits`")


def _takeovers(name: str, before: RuleSet, after: RuleSet) -> Iterator[Takeover]:
    differing = {*before.rules} ^ {*after.rules}
    # Most samples have nothing to do with the rules that differ, and a search for these few is quick.
    changed = RuleSet(tuple([rule for rule in (*before.rules, *after.rules) if rule in differing]), {})
    for rule in before.rules:
        for sample in rule.samples if rule.cause.name != name else ():
            evidence = evidence_of(rule, sample)
            if not is_concerned(evidence, changed):
                continue
            was, now = find(evidence, before).cause, find(evidence, after).cause
            if (was and was.name) != (now and now.name):
                yield Takeover(sample, was.name if was else "", now.name if now else "")


def evidence_of(rule: Rule, sample: str) -> Evidence:
    """Return evidence with a sample of a rule as the program that wrote it leaves it."""
    code = 1 if rule.applies_to(1) else min(rule.exits or {1})
    if rule.where is Where.MESSAGE:
        return Evidence(code, message=sample)
    traceback = 'Traceback (most recent call last):\n  File "main.py", line 3, in <module>\n    work()\n'
    return Evidence(code, "epoch 1\n" + (traceback if rule.where is Where.EXCEPTION else "") + sample + "\n")


def _lines(sample: str) -> list[str]:
    return sample.splitlines()
