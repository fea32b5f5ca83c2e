"""The exit-code table is whole, and the log rules lead to its rows and nowhere else."""

from __future__ import annotations

from collections import Counter

import pytest

from openpai.protocol.exit_codes import EXIT_SPECS, spec_for
from openpai.protocol.log_rules import LOG_RULES

OWN_ROWS = {236, 237, 238, -1206}
"""Codes that OpenPAI does not have."""
TRACEBACK = 'Traceback (most recent call last):\n  File "main.py", line 3, in <module>\n    work()\n'


def code_for(tail: str, exit_code: int = 1) -> int | None:
    return next((rule.code for rule in LOG_RULES if rule.match(exit_code, tail) is not None), None)


def test_the_table_has_every_row() -> None:
    of_openpai = [spec for code, spec in EXIT_SPECS.items() if code not in OWN_ROWS]
    behaviors = Counter(spec.behavior for spec in of_openpai)
    assert behaviors == {"PERMANENT": 31, "TRANSIENT": 19, "UNKNOWN": 11, "TRANSIENT_CONFLICT": 1}
    assert len(of_openpai) == 62
    assert len({spec.phrase for spec in EXIT_SPECS.values()}) == len(EXIT_SPECS) == 62 + len(OWN_ROWS)


def test_rows_speak_the_fields_words() -> None:
    for code, spec in EXIT_SPECS.items():
        assert spec.code == code
        assert spec.type in {
            "USER_SUCCESS",
            "USER_STOP",
            "USER_FAILURE",
            "PLATFORM_FAILURE",
            "RESOURCE_ALLOCATION_TIMEOUT",
            "UNKNOWN_FAILURE",
        }
        assert spec.stage in {"SUBMISSION", "ALLOCATION", "LAUNCHING", "RUNNING", "COMPLETING", "UNKNOWN"}
        assert spec.reason.endswith(".")
        assert all(line.endswith(".") for line in (spec.repro, *spec.solution))
        assert spec.solution or spec.type in {"USER_SUCCESS", "USER_STOP"}


@pytest.mark.parametrize(
    ("code", "phrase", "behavior", "reaction"),
    [
        (0, "Succeeded", "UNKNOWN", "NEVER_RETRY"),
        (-210, "StopFrameworkRequested", "PERMANENT", "NEVER_RETRY"),
        (-1200, "UserContainerDockerOOMKilled", "PERMANENT", "NEVER_RETRY"),
        (137, "ContainerSigKillReceived", "TRANSIENT", "ALWAYS_RETRY"),
        (251, "JobGangAllocationTimeout", "TRANSIENT_CONFLICT", "ALWAYS_BACKOFF_RETRY"),
        (255, "PAIRuntimeUnknownFailed", "UNKNOWN", "RETRY_TO_MAX"),
    ],
)
def test_well_known_rows(code: int, phrase: str, behavior: str, reaction: str) -> None:
    spec = spec_for(code)
    assert (spec.phrase, spec.behavior, spec.reaction) == (phrase, behavior, reaction)


@pytest.mark.parametrize(
    ("code", "phrase"), [(1, "PAIRuntimeExitAbnormally"), (-7, "ContainerUndefinedNegativeExitCode")]
)
def test_an_unlisted_code_keeps_its_number(code: int, phrase: str) -> None:
    assert (spec_for(code).code, spec_for(code).phrase) == (code, phrase)


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
        (1, "user.sh: line 4: syntax error near unexpected token `then'\n"),
        (2, "make: *** [all] Error 2, see the page on a syntax error\n"),
        (1, "ImportError: handled long ago\n" + "step\n" * 500),
    ],
)
def test_a_word_somewhere_in_the_log_decides_nothing(exit_code: int, tail: str) -> None:
    assert code_for(tail, exit_code) is None


def test_a_match_returns_the_line_that_gave_it_away() -> None:
    (rule, *_) = (rule for rule in LOG_RULES if rule.code == 232)
    tail = TRACEBACK + "[rank0]: ImportError: no x\nlast words\n"
    assert rule.match(1, tail) == "[rank0]: ImportError: no x"
    assert rule.match(1, "ImportError: no x") == "ImportError: no x"
    assert len(rule.match(1, "ImportError: " + "x" * 5000) or "") == 300


def test_only_exits_that_are_retried_without_asking_advise_to_wait() -> None:
    message = {
        code for code, spec in EXIT_SPECS.items() if any("tries again by itself" in line for line in spec.solution)
    }
    assert message <= {code for code, spec in EXIT_SPECS.items() if spec.behavior.startswith("TRANSIENT")}


def test_every_rule_leads_to_a_row() -> None:
    assert {rule.code for rule in LOG_RULES} <= EXIT_SPECS.keys()


def test_every_rule_is_tried_with_a_message() -> None:
    (mark,) = test_a_message_leads_to_its_row.pytestmark  # type: ignore[attr-defined]
    tried = {rule.pattern for exit_code, tail, _ in mark.args[1] for rule in LOG_RULES if rule.match(exit_code, tail)}
    assert [rule for rule in LOG_RULES if rule.pattern not in tried] == []


def test_a_hostile_log_costs_no_more_than_its_length() -> None:
    assert code_for("[" * 60_000 + "\n" + "[]" * 30_000 + "\n" + "a" * 60_000) is None
