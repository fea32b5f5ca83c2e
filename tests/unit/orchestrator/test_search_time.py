"""What the logs of one attempt may take to search, however slow a job makes them."""

from __future__ import annotations

import random
from time import thread_time

from openpai.diagnosis.diagnosing import find
from openpai.diagnosis.evidence import Evidence
from openpai.diagnosis.rules import built_in
from openpai.lifecycle.diagnosis import diagnose
from openpai.lifecycle.model import ExitReport
from openpai.orchestrator.search_time import ATTEMPT_S, LIMIT_OF_MANY_S, LIMIT_S, SearchTime


def hostile() -> str:
    """Return words of all rules in disorder: each line makes the search for all patterns slow."""
    chance = random.Random(1)
    words = [word for rule in built_in().rules for sample in rule.samples for word in sample.split()]
    return "\n".join(" ".join(chance.choices(words, k=100)) for _ in range(150)) + "\n"


def test_one_log_may_use_a_part_of_what_is_left_and_each_a_little() -> None:
    searched = SearchTime(0)
    assert searched.limit_s == ATTEMPT_S / 4
    searched.used_s = ATTEMPT_S
    assert searched.limit_s == LIMIT_OF_MANY_S
    assert SearchTime(0, -10.0).limit_s == LIMIT_S
    assert SearchTime(0).measured(lambda may_go_on: may_go_on())
    assert not SearchTime(0, ATTEMPT_S).measured(lambda may_go_on: sum(range(2_000_000)) and may_go_on())


def test_a_search_is_charged_to_its_attempt() -> None:
    searched = SearchTime(0)
    searched.measured(lambda _: sum(range(20_000)))
    assert searched.used_s > 0


def test_a_log_that_is_slow_to_search_is_left_and_the_diagnosis_says_so() -> None:
    log = hostile() + "Traceback (most recent call last):\n  f()\nKeyError: 'lr'\n"
    began = thread_time()
    found = find(Evidence(1, log), may_go_on=lambda: False)
    # The whole of it takes half a second.
    assert thread_time() - began < 0.2
    assert found.unread >= 150
    assert found.cause is not None
    assert found.cause.name == "type_or_key_error"
    message = diagnose(ExitReport(1), log, may_go_on=lambda: False)
    assert f"{found.unread} lines of the end of its log were not searched" in message.reason
    assert "not searched" not in diagnose(ExitReport(1), "KeyError: 'lr'\n").reason
