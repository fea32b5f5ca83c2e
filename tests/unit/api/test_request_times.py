from __future__ import annotations

from openpai.api.request_times import RequestTimes


class _Route:
    def __init__(self, path: str) -> None:
        self.path = path


def _add(times: RequestTimes, path: str) -> None:
    times.add({"route": _Route(path), "method": "GET"}, 200, 0.5)


def test_requests_may_come_while_the_counts_are_read() -> None:
    times = RequestTimes()
    for path in ("/a", "/b"):
        _add(times, path)
    found = []
    for number, reading in enumerate(times.readings()):
        _add(times, f"/new/{number}")
        found.append(reading.values)
    assert found == [{"pai_api_requests_total": 1.0}] * 2 + [{"pai_api_request_seconds_total": 0.5}] * 4
