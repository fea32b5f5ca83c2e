"""Long answers equal short ones, and yield to other requests while they are encoded."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from openpai.api.answers import LongReply, encoded, encoded_list, parts_with
from openpai.lifecycle.model import TaskPhase


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


class Name(str):
    """A kind of text."""

    __slots__ = ()


@pytest.mark.parametrize(
    "document",
    [
        {"text": 'a"\\b/\x00\x1f\x7f\u2028é😀<>&', "state": TaskPhase.RUNNING, "number": 2**63, "share": 0.1},
        {"large": 1e22, "small": -1e-7, "none": None, "yes": True, "list": [(), {}, (1, "2")], "": {7: "index"}},
        {None: Name("kind"), True: [Name("")]},
    ],
    ids=["texts", "numbers", "slow"],
)
def test_an_answer_says_what_the_json_module_would_say(document: Any) -> None:
    assert json.loads(encoded(document)) == json.loads(json.dumps(document))


def test_half_of_a_pair_of_surrogates_becomes_a_question_mark() -> None:
    assert encoded({"name": "a\ud800b"}) == b'{"name":"a?b"}'


def test_a_document_gets_one_more_key() -> None:
    whole = {"name": 'a"b', "roles": {"w": [1, None]}}
    parts = parts_with({"name": 'a"b'}, "roles", [encoded({"w": [1, None]})])
    assert json.loads(b"".join(parts)) == whole


@pytest.mark.parametrize("size", [10, 1_000_000])
async def test_a_long_answer_is_sent_as_its_parts_without_a_copy(size: int) -> None:
    large = b"x" * size
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("an answer reads nothing")

    await LongReply((b"[", memoryview(large)[1:], large, b"]"))({"type": "http", "method": "GET"}, receive, send)
    assert dict(sent[0]["headers"])[b"content-length"] == b"%d" % (2 * size + 1)
    assert b"".join(message["body"] for message in sent[1:]) == b"[" + large[1:] + large + b"]"
    assert [message.get("more_body", False) for message in sent[1:]] == [True] * (len(sent) - 2) + [False]
    assert any(message["body"] is large for message in sent[1:]) is (size > 100_000)
