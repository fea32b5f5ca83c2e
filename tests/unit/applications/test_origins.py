"""Which application a request is for, and where applications are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openpai.app.setting_values import ports_in
from openpai.applications.labels import named, short
from openpai.applications.origins import DomainOrigins, PortOrigins
from openpai.protocol.errors import BadConfiguration, Unavailable
from tests.clocks import HandClock

LABELS = [f"lab-{number:032x}" for number in range(11)]


def scope(host: str, port: int = 1) -> dict[str, Any]:
    return {"headers": [(b"host", host.encode())], "server": ("127.0.0.1", port)}


def test_a_label_says_which_application_it_is() -> None:
    assert named("my-app-" + "0" * 32) == ("my-app", "0" * 32)
    for text in ("", "lab", "Lab-" + "0" * 32, "-" + "0" * 32, "lab-" + "g" * 32, "a" * 21 + "-" + "0" * 32):
        assert named(text) is None
    assert short(LABELS[0]) != short(LABELS[1])


def test_each_application_has_a_host_of_its_own() -> None:
    origins = DomainOrigins("https://*.Apps.example.org")
    origin = origins.of(LABELS[0], "pai.example.org")
    assert origin == f"https://{LABELS[0]}.apps.example.org"
    assert origins.label(scope(f"{LABELS[0].upper()}.apps.example.org")) == LABELS[0]
    assert origins.own(scope(f"{LABELS[0]}.apps.example.org:443")) == origin
    for host in (
        "apps.example.org",
        "evil.org",
        f"{LABELS[0]}.apps.example.org.evil.org",
        f"x.{LABELS[0]}.apps.example.org",
    ):
        assert named(origins.label(scope(host))) is None, host
    for url in ("apps.example.org", "https://apps.example.org", "ftp://*.a.b", "https://*.a.b/path", "https://*.-"):
        with pytest.raises(BadConfiguration):
            DomainOrigins(url)


def test_a_port_belongs_to_one_application_until_it_is_needed(tmp_path: Path) -> None:
    clock, taken_by_others = HandClock(), {7002}
    listening: list[int] = []

    def listen(port: int) -> None:
        if port in taken_by_others:
            raise OSError
        listening.append(port)

    def opened() -> PortOrigins:
        return PortOrigins(range(7001, 7005), tmp_path / "ports", clock, listen=listen)

    origins = opened()
    places = [origins.of(label, "127.0.0.1:9186") for label in LABELS[:3]]
    assert places == [f"http://localhost:{port}" for port in (7001, 7003, 7004)]
    assert origins.of(LABELS[1], "localhost:9186") == "http://127.0.0.1:7003"
    assert origins.of(LABELS[1], "pai.example.org") == "http://pai.example.org:7003"
    assert origins.label(scope("localhost", 7004)) == LABELS[2]
    assert origins.label(scope("localhost", 7002)) == ""
    with pytest.raises(Unavailable):
        origins.of(LABELS[3], "h")
    clock.at_ms += 3_600_000
    origins.is_active = lambda label: label == LABELS[0]
    assert origins.of(LABELS[3], "h") == "http://h:7003"
    assert origins.label(scope("h", 7003)) == LABELS[3]
    again = opened()
    again.open()
    assert [again.label(scope("h", port)) for port in (7001, 7002, 7003, 7004)] == [LABELS[0], "", LABELS[3], LABELS[2]]
    (tmp_path / "ports").write_text("[1]")
    broken = opened()
    broken.open()
    assert broken.label(scope("h", 7001)) == ""


def test_one_user_does_not_get_all_ports(tmp_path: Path) -> None:
    clock = HandClock()
    origins = PortOrigins(range(7001, 7011), tmp_path / "ports", clock, listen=lambda port: None)
    origins.is_active = lambda label: label != LABELS[0]
    for label in (*LABELS[:8], LABELS[0]):
        origins.of(label, "h", "ann")
    with pytest.raises(Unavailable, match="jobs of ann use 8 of 10 ports for applications; one user may use 8"):
        origins.of(LABELS[8], "h", "ann")
    assert origins.of(LABELS[8], "h", "bob") == "http://h:7009"
    clock.at_ms += 10_000
    assert origins.of(LABELS[9], "h", "ann") == "http://h:7010"
    with pytest.raises(Unavailable):
        origins.of(LABELS[10], "h", "ann")


def test_two_names_of_this_machine_share_no_cookies(tmp_path: Path) -> None:
    origins = PortOrigins(range(7001, 7002), tmp_path / "ports", HandClock(), listen=lambda port: None)
    for host, other in (("[::1]:80", "localhost"), ("127.0.0.1", "localhost"), ("LOCALHOST:1", "127.0.0.1")):
        assert origins.of(LABELS[0], host) == f"http://{other}:7001"


def test_a_range_of_ports_is_read() -> None:
    assert ports_in("9300-9302") == range(9300, 9303)
    assert (ports_in("9300"), ports_in("none")) == (range(9300, 9301), range(0))
    for text in ("", "0", "5-1", "70000", "1-70000", "a-b", "9300-"):
        with pytest.raises(BadConfiguration):
            ports_in(text)
