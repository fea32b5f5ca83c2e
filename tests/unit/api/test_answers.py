"""Long answers equal short ones, and yield to other requests while they are encoded."""

from __future__ import annotations

import asyncio
import json

import pytest

from openpai.api.answers import encoded, encoded_list, encoded_with


@pytest.mark.parametrize("count", [0, 1, 249, 250, 251, 1_000])
async def test_a_long_list_is_what_a_list_would_be(count: int) -> None:
    rows = list(range(count))
    assert json.loads(await encoded_list(rows, lambda row: {"row": row})) == [{"row": row} for row in rows]


async def test_rows_without_a_shape_are_left_out_even_where_many_follow_each_other() -> None:
    rows = list(range(2_000))
    found = await encoded_list(rows, lambda row: row if row < 10 or row > 1_500 else None)
    assert json.loads(found) == [row for row in rows if row < 10 or row > 1_500]
    assert await encoded_list(rows, lambda _row: None) == b"[]"


async def test_other_requests_run_while_a_long_list_is_encoded() -> None:
    turns = 0
    shaped_at: list[int] = []

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def shape(row: int) -> int:
        shaped_at.append(turns)
        return row

    task = asyncio.create_task(other())
    await encoded_list(range(5_000), shape)
    task.cancel()
    assert max(shaped_at.count(turn) for turn in set(shaped_at)) <= 500


def test_a_document_gets_one_more_key() -> None:
    whole = {"name": 'a"b', "roles": {"w": [1, None]}}
    assert json.loads(encoded_with({"name": 'a"b'}, "roles", encoded({"w": [1, None]}))) == whole
