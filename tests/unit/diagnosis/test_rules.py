"""The rules of the failure analysis: what is read, what a message leads to, and what leads to nothing."""

from __future__ import annotations

import pytest
import re2

from openpai.diagnosis.diagnosing import find
from openpai.diagnosis.evidence import Evidence
from openpai.diagnosis.rules import PROGRAM_MAX, InvalidRules, Role, Rule, RuleSet, Where, built_in, read_rules
from openpai.protocol.exit_codes import EXIT_SPECS
from tests.costs import assert_linear

TRACEBACK = 'Traceback (most recent call last):\n  File "main.py", line 3, in <module>\n    work()\n'


def code_for(tail: str, exit_code: int = 1) -> int | None:
    found = find(Evidence(exit_code, tail))
    return found.rule.row if found.rule else None


def of_sample(rule: Rule, sample: str) -> Evidence:
    """Return evidence with a sample as the program that wrote it leaves it."""
    code = 1 if rule.applies_to(1) else min(rule.exits or {1})
    if rule.where is Where.MESSAGE:
        return Evidence(code, message=sample)
    return Evidence(code, "epoch 1\n" + (TRACEBACK if rule.where is Where.EXCEPTION else "") + sample + "\n")


@pytest.mark.parametrize("rule", built_in().rules, ids=lambda rule: f"{rule.cause.name}-{rule.where}")
def test_each_sample_shows_its_cause(rule: Rule) -> None:
    assert len(rule.samples) >= 3
    for sample in rule.samples:
        found = find(of_sample(rule, sample))
        if rule.role is Role.CONFIRMATION:
            assert rule in built_in().observe(sample)
            assert found.cause is None
        else:
            assert found.cause == rule.cause, sample
            assert found.line


def test_every_pattern_is_in_a_sample() -> None:
    for rule in built_in().rules:
        (alone,) = [RuleSet((rule,), built_in().causes)]
        assert all(alone.observe(sample) for sample in rule.samples), rule.patterns


def test_every_cause_has_a_rule_and_advice() -> None:
    rules = built_in()
    assert {rule.cause.name for rule in rules.rules} == set(rules.causes)
    for cause in rules.causes.values():
        assert cause.advice or EXIT_SPECS[cause.row].solution, cause.name
        assert cause.summary.endswith(".")


@pytest.mark.parametrize(
    ("exit_code", "tail", "code"),
    [
        (2, "python: can't open file '/x/train.py': [Errno 2] No such file or directory\n", 238),
        (2, "python: can't open file '/x/train.py': [Errno 13] Permission denied\n", 220),
        (1, "/usr/bin/python3: can't find '__main__' module in '/x/code'\n", 238),
        (127, "bash: train.sh: No such file or directory\n", 238),
        (127, "user.sh: line 4: ./train: No such file or directory\n", 220),
        (127, "/bin/sh: 3: pythn: not found\n", 220),
        (127, "bash: line 1: pythn: command not found\n", 220),
        (126, "sh: 1: ./run.sh: Permission denied\n", 220),
        (127, "user.sh: line 4: ./run: cannot execute: required file not found\n", 220),
        (126, "user.sh: ./run: /bin/zsh: bad interpreter: No such file or directory\n", 220),
        (126, "user.sh: line 4: /bin/true: Argument list too long\n", 220),
        (2, "user.sh: line 4: syntax error near unexpected token `then'\nuser.sh: line 4: `if then fi'\n", 231),
        (2, "user.sh: line 4: unexpected EOF while looking for matching `\"'\n", 231),
        (2, '/data/user.sh: 4: Syntax error: "then" unexpected\n', 231),
        (2, 'user.sh: line 4: syntax error: unexpected "then"\n', 231),
        (1, "RuntimeError: cuda runtime error (2) : out of memory at /pytorch/aten/src/THC.cu:58\n", 226),
        (1, TRACEBACK + "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n", 226),
        (1, "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB\n", 226),
        (134, "terminate called\n  what():  CUDA error: out of memory\n", 226),
        (1, "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor\n", 221),
        (139, "[node:00123] Signal code: Address not mapped (1)\n", 222),
        (1, "failed to memcpy: CUDA_ERROR_ECC_UNCORRECTABLE\n", 223),
        (1, "RuntimeError: CUDA driver version is insufficient for CUDA runtime version\n", 224),
        (1, "RuntimeError: cuDNN version incompatibility: PyTorch was compiled against 8.9\n", 225),
        (2, "usage: main.py [-h]\nmain.py: error: unrecognized arguments: --lr 3\n", 228),
        (1, TRACEBACK + "TypeError: dynamic_rnn() got multiple values for argument 'dtype'\n", 228),
        (1, TRACEBACK + "FileNotFoundError: [Errno 2] No such file or directory: 'x'\n", 229),
        (1, TRACEBACK + "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff\n", 229),
        (1, TRACEBACK + "EOFError: Ran out of input\n", 229),
        (1, TRACEBACK + "ValueError: Restore called with invalid save path: 'x'\n", 230),
        (1, '  File "main.py", line 1\n    x = = 1\nSyntaxError: invalid syntax\n', 231),
        (1, TRACEBACK + "_pickle.UnpicklingError: invalid load key\n", 231),
        (1, TRACEBACK + "NameError: name 'x' is not defined\n", 231),
        (1, TRACEBACK + "AttributeError: 'NoneType' object has no attribute 'x'\n", 231),
        (1, TRACEBACK + "ModuleNotFoundError: No module named 'x'\n", 232),
        (1, "[1,0]<stderr>:ImportError: libcudart.so.11.0: cannot open shared object file\n", 232),
        (1, TRACEBACK + "IndexError: list index out of range\n", 233),
        (1, "run.sh: line 4:    77 Segmentation fault      ./work\n", 234),
        (1, "run.sh: line 4:    77 Aborted                 (core dumped) ./work\n", 235),
        (2, 'Can\'t open perl script "train.pl": No such file or directory\n', 238),
        (1, "Error: Could not find or load main class Train\n", 220),
        (1, "InvalidArgumentError (see above): Assign requires shapes of both tensors to match. lhs shape= [9]\n", 231),
        (1, "/usr/bin/python3: No module named train\n", 232),
        (1, "unknown label header name in part 3\n", 229),
        (1, "cp: failed to close '/data/model.pt': Input/output error\n", 229),
        (1, "error opening file model.t7\n", 229),
        (2, "grep: unrecognized option '--lr'\n", 228),
        (1, "train.lua:7: bad argument #2 to 'narrow' (out of range)\n", 228),
        (10, "SSH barrier reaches max retry count\n", 249),
    ],
)
def test_a_message_leads_to_its_row(exit_code: int, tail: str, code: int) -> None:
    assert code_for(tail, exit_code) == code


@pytest.mark.parametrize(
    ("exit_code", "tail"),
    [
        (1, ""),
        (0, TRACEBACK + "ImportError: x\n"),
        (1, "warning: optional module missing (ImportError: no module named apex), going on\n"),
        (1, "INFO the server said: unknown option, ignored\n"),
        (1, "retrying after invalid argument: x\n"),
        (1, "earlier runs core dumped, see the wiki\n"),
        (137, TRACEBACK + "SyntaxError: invalid syntax\n"),
        (143, "torch.cuda.OutOfMemoryError: CUDA out of memory\n"),
        (1, "bash: pythn: command not found\n"),
        (1, "user.sh: line 4: syntax error near unexpected token `then'\nRuntimeError: strange\n"),
        (2, "make: *** [all] Error 2, see the page on a syntax error\n"),
        (1, "ImportError: handled long ago\n" + "step\n" * 500),
    ],
)
def test_a_word_somewhere_in_the_log_decides_nothing(exit_code: int, tail: str) -> None:
    assert code_for(tail, exit_code) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("role: root", "role: rot"), r"rules\[0\].role: 'rot' is not one of root, cascade, confirmation"),
        (("cause: full", "cause: empty"), r"rules\[0\].cause: no cause 'empty' is listed under causes"),
        (
            ("'full'", "'(?=full)'"),
            r"rules\[0\].patterns: '\(\?=full\)' is not a pattern of RE2: invalid perl operator",
        ),
        (("'full'", "'" + "x" * 3000 + "'"), r"rules\[0\].patterns: a pattern has 3000 characters; at most 2000"),
        (("row: 242", "row: 7"), "causes.full.row: 7 is no code of the exit-code table"),
        (("retry: no", "retry: maybe"), "causes.full.retry: 'maybe' is not one of helps, no, unknown"),
        (("domain: user", "domian: user"), "causes.full: domain missing"),
        (("exits: any", "exits: [x]"), r"rules\[0\].exits: expected any, own, failure, or a list of exit codes"),
        (("exits: any", "exit: any"), r"rules\[0\]: unknown exit; allowed are cause, certain, exits"),
        (("samples: [a, b]", "samples: a"), r"rules\[0\].samples: expected a list of texts"),
        (("causes:", "causes: ["), "the rules are not YAML: "),
        (("causes:", "cause:"), "the rules: causes missing"),
    ],
)
def test_a_fault_in_the_rules_is_named_with_its_place(change: tuple[str, str], message: str) -> None:
    with pytest.raises(InvalidRules, match=message):
        read_rules(SMALL.replace(*change, 1))


SMALL = """
causes:
  full: {summary: The disk is full., domain: user, retry: no, row: 242}
rules:
  - {cause: full, role: root, where: line, patterns: ['full'], exits: any, samples: [a, b]}
"""


def test_own_rules_are_used() -> None:
    found = find(Evidence(1, "the disk is full\n"), read_rules(SMALL))
    assert found.cause is not None
    assert (found.cause.name, found.cause.retry, found.line) == ("full", "no", "the disk is full")


def test_the_quoted_line_is_bounded() -> None:
    assert find(Evidence(1, TRACEBACK + "[rank0]: ImportError: no x\nlast words\n")).line == "ImportError: no x"
    assert len(find(Evidence(1, "ImportError: " + "x" * 5000)).line) == 400


def test_a_hostile_log_costs_as_much_as_it_is_long() -> None:
    assert code_for("[" * 60_000 + "\n" + "[]" * 30_000 + "\n" + "a" * 60_000) is None
    assert_linear(lambda lines: lambda: find(Evidence(1, "NVRM: Xid (" * 40 + "\n" * 1 * lines)), 500)


def test_the_search_for_built_in_rules_is_in_small_parts_that_find_what_each_pattern_finds() -> None:
    # One search for all of them forgets more than it remembers: it took 1.1 ms for each of these lines.
    rules = built_in()
    parts = rules._searches
    assert len(parts) > 10
    for part in parts:
        patterns = [pattern for number in set(part._owners) for pattern in rules.rules[number].patterns]
        size = sum(re2.compile(pattern).programsize for pattern in patterns)
        assert size <= PROGRAM_MAX or len(set(part._owners)) == 1
    for rule in rules.rules[::7]:
        for line in rule.samples[:1]:
            alone = [each for each in rules.rules if any(re2.search(pattern, line) for pattern in each.patterns)]
            assert rules.observe(line) == alone
