"""Editors get a schema in which every key explains itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from openpai.protocol.placement import PRIORITY_OF, priority, priority_class
from openpai.protocol.schema import json_schema
from openpai.protocol.schema_extras import HivedScheduler


def properties() -> Iterator[tuple[str, dict[str, Any]]]:
    schema = json_schema()
    for section, definition in [("", schema), *schema["$defs"].items()]:
        for key, entry in definition.get("properties", {}).items():
            yield f"{section}.{key}", entry


def test_every_key_has_a_description_and_an_example() -> None:
    found = dict(properties())
    assert len(found) > 60
    assert [key for key, entry in found.items() if not entry.get("description", "").endswith(".")] == []
    assert [key for key, entry in found.items() if not entry.get("examples")] == []


def test_the_schema_names_what_is_required_and_allows_nothing_else() -> None:
    schema = json_schema()
    assert schema["required"] == ["protocolVersion", "name", "type", "taskRoles"]
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["ResourcesSection"]["required"] == ["cpu", "memoryMB", "gpu"]
    assert set(schema["properties"]["prerequisites"]["anyOf"][0]["items"]["discriminator"]["mapping"]) == {
        "dockerimage",
        "data",
        "script",
        "output",
    }


def test_priority_classes_map_to_numbers() -> None:
    legal = HivedScheduler.model_json_schema()["properties"]["jobPriorityClass"]["anyOf"][0]["enum"]
    assert set(legal) == set(PRIORITY_OF)
    assert [priority({"hivedScheduler": {"jobPriorityClass": name}}) for name in ("crit", "prod", "test", "oppo")] == [
        120,
        100,
        10,
        -1,
    ]
    assert (
        priority({})
        == priority({"hivedScheduler": None})
        == priority({"hivedScheduler": {"jobPriorityClass": 3}})
        == 10
    )
    assert priority_class({}) == "test"
