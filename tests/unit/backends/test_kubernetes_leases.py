"""A node is dead when its renewals stop to arrive, and only then."""

from __future__ import annotations

import pytest

from openpai.backends.kubernetes.leases import NodeLeases
from openpai.backends.kubernetes.nodes import NodeTable
from tests.unit.backends.kubernetes_objects import is_ours, lease, node


class TestLeases:
    """A node is dead when its renewals stop to arrive, and only then."""

    def run(self, leases: NodeLeases, seconds: range, *, renewing: tuple[str, ...]) -> None:
        for second in seconds:
            if second % 10 == 0:
                for name in renewing:
                    leases.renewed(lease(name, (second // 10) % 60), second)
            leases.contact(second)

    def test_a_kubelet_that_stops_is_found_within_30_seconds(self) -> None:
        leases = NodeLeases()
        self.run(leases, range(101), renewing=("n1", "n2"))
        self.run(leases, range(101, 125), renewing=("n2",))
        assert leases.dead() == frozenset()
        self.run(leases, range(125, 130), renewing=("n2",))
        assert leases.dead() == {"n1"}

    def test_stamps_of_the_wrong_year_do_not_matter(self) -> None:
        leases = NodeLeases()
        leases.renewed(lease(second=5), 1000.0)
        leases.contact(1000.0)
        assert not leases.is_dead("n1")

    def test_a_change_that_renews_nothing_is_no_renewal(self) -> None:
        leases = NodeLeases()
        for second in range(27):
            leases.renewed(lease(holder=f"h{second}"), second)
            leases.contact(second)
        assert leases.is_dead("n1")

    def test_no_node_dies_while_the_api_server_is_away_nor_right_after(self) -> None:
        leases = NodeLeases()
        self.run(leases, range(101), renewing=("n1", "n2"))
        leases.contact(700)
        assert leases.dead() == frozenset()
        self.run(leases, range(700, 726), renewing=("n1",))
        assert leases.dead() == {"n2"}

    def test_a_dead_node_that_renews_lives(self) -> None:
        leases = NodeLeases()
        self.run(leases, range(1, 60), renewing=())
        leases.renewed(lease(), 60)
        self.run(leases, range(60, 90), renewing=())
        assert leases.is_dead("n1")
        leases.renewed(lease(second=1), 90)
        assert not leases.is_dead("n1")

    @pytest.mark.parametrize(("duration", "allowed"), [(40, 25), (None, 25), (80, 50), (4, 10)])
    def test_a_lease_of_another_duration_allows_as_many_missed_renewals(
        self, duration: int | None, allowed: int
    ) -> None:
        leases = NodeLeases()
        leases.renewed(lease(duration=duration), 0)
        for second in range(allowed + 1):
            assert not leases.is_dead("n1")
            leases.contact(second)
        assert leases.is_dead("n1")

    def test_a_node_without_a_lease_is_not_judged_by_one(self) -> None:
        nodes = NodeTable(is_ours)
        nodes.put_node(node())
        nodes.leases.renewed(lease(), 0)
        nodes.leases.contact(0)
        nodes.leases.forget("n1")
        for second in range(100):
            nodes.leases.contact(second)
        assert nodes.dead() == frozenset()

    def test_a_dead_node_is_reported_as_such(self) -> None:
        nodes = NodeTable(is_ours)
        nodes.put_node(node())
        nodes.leases.renewed(lease(), 0)
        for second in range(31):
            nodes.leases.contact(second)
        assert nodes.dead() == {"n1"}
        assert nodes.seen()[0].message == "its kubelet does not renew its lease"

    def test_a_silent_watch_asks_for_a_probe(self) -> None:
        leases = NodeLeases()
        assert leases.is_probe_due(0.0)
        leases.contact(0.0)
        assert not leases.is_probe_due(2.0)
        assert leases.is_probe_due(3.0)


def test_a_node_with_a_wrong_clock_at_two_renewals_is_reported_but_takes_tasks() -> None:
    nodes = NodeTable(is_ours)
    nodes.put_node(node())
    first = lease(second=0)
    assert first.spec.renew_time is not None
    ours = first.spec.renew_time.timestamp()
    # Nobody saw when the first was renewed, and the third arrives late: it says nothing alone.
    for second, wall_s in ((0, ours + 900), (10, ours + 10), (20, ours + 60), (30, ours + 30)):
        nodes.leases.renewed(lease(second=second), second, wall_s)
        assert [check.name for check in nodes.seen()[0].checks] == ["kubelet"]
    for second in (40, 50):
        nodes.leases.renewed(lease(second=second), second, ours + second - 25)
    (seen,) = nodes.seen()
    assert (seen.is_healthy, seen.checks[-1].result) == (True, "warning")
    assert seen.checks[-1].message == "its clock is 25 s ahead of that of this server"
    nodes.leases.renewed(lease(second=0), 60, ours)
    assert [check.name for check in nodes.seen()[0].checks] == ["kubelet"]
