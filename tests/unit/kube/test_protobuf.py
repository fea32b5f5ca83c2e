"""Protobuf: whatever bytes come, the watch reads what it can and goes on, or says what is wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from openpai.kube.errors import KubeError, error_of
from openpai.kube.objects import PODS
from openpai.kube.objects.meta import PROTOBUF_MARK
from openpai.kube.objects.pods import Pod
from openpai.kube.objects.protobuf import pod_of
from openpai.kube.watch_stream import EVENT_MAX, WatchEvent, _event, frames_of


def number(value: int) -> bytes:
    """Return a number as protobuf writes it; a negative one as one of 64 bits."""
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def field(place: int, content: bytes | int) -> bytes:
    if isinstance(content, int):
        return number(place << 3) + number(content)
    return number(place << 3 | 2) + number(len(content)) + content


def an_object(content: bytes) -> bytes:
    return (
        PROTOBUF_MARK + field(1, field(1, b"v1") + field(2, b"Pod")) + field(2, content) + field(3, b"") + field(4, b"")
    )


def an_event(kind: bytes, content: bytes) -> bytes:
    return field(1, kind) + field(2, field(1, an_object(content)))


def read(frame: bytes) -> WatchEvent[Pod]:
    return _event(PODS, frame, "watch pods", read=pod_of)


async def streamed(content: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 100, 1 << 20])
async def test_a_stream_is_cut_where_the_lengths_say(size: int) -> None:
    frames = [b"", b"a", b"\n" * 300, b"x" * 5000, b"", b"end"]
    sent = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    # What is cut off at the end is a part of an event.
    for lost in (b"", b"\0", b"\0\0\0\x09half"):
        assert [frame async for frame in frames_of(streamed(sent + lost, size), "watch pods")] == frames


async def test_a_length_that_no_event_has_ends_the_stream() -> None:
    with pytest.raises(KubeError, match="larger than"):
        [frame async for frame in frames_of(streamed((EVENT_MAX + 1).to_bytes(4, "big"), 4), "watch pods")]


def test_text_that_is_no_text_and_times_that_no_clock_shows_leave_the_pod_where_it_is() -> None:
    metadata = (
        field(1, b"a") + field(9, field(1, 1 << 62)) + field(8, field(1, -(1 << 62))) + field(12, b"\x0a\x01\xff")
    )
    status = field(1, b"Running") + field(3, b"\xff\xfe!")
    pod = pod_of(an_object(field(1, metadata) + field(2, field(10, b"n1")) + field(3, status)))
    assert (pod.name, pod.spec.node_name, pod.status.phase, pod.status.message) == (
        "a",
        "n1",
        "Running",
        "\ufffd\ufffd!",
    )
    # A deletion at an unreadable time is still a deletion.
    assert pod.is_deleting
    assert pod.metadata.creation_timestamp == datetime.min.replace(tzinfo=UTC)
    assert pod.metadata.annotations == {"\ufffd": ""}


def test_what_a_field_is_not_known_for_is_skipped() -> None:
    strange = field(500, b"new") + field(501, 7) + number(502 << 3 | 5) + b"1234" + number(503 << 3 | 1) + b"12345678"
    # A name that is a number, and one that comes twice: the last one counts.
    pod = pod_of(
        an_object(strange + field(1, field(1, 3) + strange + field(1, b"a") + field(1, b"b")) + field(2, strange))
    )
    assert pod == PODS.type(metadata=type(pod.metadata)(name="b"))


def test_negative_numbers_keep_their_sign() -> None:
    ended = field(3, field(1, -1) + field(2, 9))
    pod = pod_of(an_object(field(2, field(25, -10)) + field(3, field(8, field(1, b"task") + field(2, ended)))))
    state = pod.status.container_statuses[0].state
    assert state.terminated is not None
    assert (pod.spec.priority, state.terminated.exit_code, state.terminated.signal) == (-10, -1, 9)


@pytest.mark.parametrize("cut", [b"", b"\x0a", b"\x0a\x05AD", an_event(b"ADDED", b"\x0a\x7fa"), b"\x12\x03\x0a\x01x"])
def test_what_is_no_event_is_an_error_that_may_pass(cut: bytes) -> None:
    with pytest.raises(KubeError, match="cannot be read") as raised:
        read(cut)
    assert raised.value.http == 500


def test_a_bookmark_carries_only_a_version() -> None:
    entry = field(1, b"k8s.io/initial-events-end") + field(2, b"true")
    event = read(an_event(b"BOOKMARK", field(1, field(6, b"42") + field(12, entry))))
    assert (event.type, event.object, event.metadata.resource_version) == ("BOOKMARK", None, "42")
    assert event.ends_the_beginning


GONE = field(2, b"Failure") + field(3, b"too old") + field(4, b"Expired") + field(6, 410)


def test_an_error_in_the_stream_is_the_one_that_json_would_be() -> None:
    with pytest.raises(KubeError, match="too old") as raised:
        read(an_event(b"ERROR", GONE))
    assert (raised.value.http, raised.value.is_expired) == (410, True)


def test_a_refused_watch_says_why() -> None:
    details = field(5, field(4, field(1, b"FieldValueInvalid") + field(2, b"no") + field(3, b"x")) + field(5, 7))
    error = error_of("watch pods", 429, an_object(GONE + details))
    assert "too old" in error.message
    assert (error.reason, error.retry_after_s) == ("Expired", 7.0)
    assert error.causes == [{"reason": "FieldValueInvalid", "message": "no", "field": "x"}]
    assert error_of("watch pods", 500, PROTOBUF_MARK + b"\x0a").reason == ""
