"""One address holds a part of the connections, whatever it is written like; a trusted proxy may hold all of them."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from openpai.app.connection_limits import TOTAL_MAX, Connections, networks
from openpai.protocol.errors import Refused


def admitted(bounds: Connections, addresses: list[str]) -> int:
    return sum(bounds.enter(address) is None for address in addresses)


@pytest.mark.parametrize(
    "addresses",
    [
        ["192.0.2.1"] * 50,
        ["192.0.2.1", "::ffff:192.0.2.1"] * 25,
        [f"2001:db8::{number:x}" for number in range(50)],
        [f"2001:db8::{number:x}:1%eth0" for number in range(50)],
    ],
)
def test_an_address_or_a_network_of_version_6_holds_so_many(addresses: list[str]) -> None:
    bounds = Connections(files=1000, per_address=10)
    assert admitted(bounds, addresses) == 10
    assert bounds.enter("198.51.100.7") is None
    assert bounds.enter("2001:db8:0:1::1") is None
    for address in addresses:
        bounds.leave(address)
    assert admitted(bounds, addresses) == 10


def test_one_address_never_holds_more_than_a_quarter_and_all_together_three_of_the_files() -> None:
    bounds = Connections(files=1024)
    assert admitted(bounds, ["192.0.2.1"] * 2000) == 192
    for _ in range(2000):
        bounds.leave("192.0.2.1")
    assert admitted(bounds, [f"192.0.2.{number % 200}" for number in range(2000)]) == 768
    assert Connections(files=1 << 20).total_max == TOTAL_MAX


def test_a_trusted_proxy_is_bounded_by_the_whole_alone() -> None:
    bounds = Connections(files=1000, per_address=10, trusted=networks(["10.0.0.0/8", "fd00::1"]))
    assert admitted(bounds, ["10.1.2.3", "::ffff:10.1.2.3", "fd00::1"] * 10) == 30
    assert admitted(bounds, ["fd00::2"] * 20) == 10 - 10
    assert admitted(bounds, ["10.1.2.3"] * 1000) == 750 - 30 - 20


@pytest.mark.parametrize("name", ["proxy", "10.0.0.0/33", "*"])
def test_what_is_no_address_is_refused(name: str) -> None:
    with pytest.raises(Refused, match="names no network"):
        networks([name])


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    hard = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 4096)
    code = (
        "import resource as r; from openpai.app.connection_limits import raise_file_limit as f;"
        f"r.setrlimit(r.RLIMIT_NOFILE, (256, {hard})); print(f(), r.getrlimit(r.RLIMIT_NOFILE)[0])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [str(hard)] * 2
