"""Labels, whose values an enemy may write."""

from __future__ import annotations

import pytest

from openpai.series.labels import LABEL_MAX, NO_LABELS, Labels, accepted, matching


@pytest.mark.parametrize("value", ['a\nb"c\\', "\x00\x1b[31m", "\u2028", "\ud800", "x" * 100_000])
def test_a_value_of_an_enemy_is_made_safe(value: str) -> None:
    (pair,) = Labels.of({"job_name": value}).pairs
    assert len(pair[1]) <= LABEL_MAX
    assert "\n" not in pair[1]
    pair[1].encode()


def test_labels_do_not_depend_on_their_order_and_have_no_empty_values() -> None:
    assert Labels.of({"b": "1", "a": "2", "c": ""}) == Labels.of({"a": "2", "b": "1"})
    assert hash(Labels.of({"b": "1", "a": "2"})) == hash(Labels.of({"a": "2", "b": "1"}))


def test_a_matcher_finds_labels_cut_as_they_are_kept() -> None:
    name = "ann~" + "x" * 1_000
    assert accepted(matching({"job_name": name}), Labels.of({"job_name": name}))
    assert not accepted(matching({"job_name": "other"}), Labels.of({"job_name": name}))
    assert accepted(matching({"job_name": ""}), NO_LABELS)
