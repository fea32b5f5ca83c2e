"""Ports are handed out without collision per machine, and come round again last."""

from __future__ import annotations

from openpai.orchestrator.task_ports import PortBook


def test_no_port_is_handed_out_twice_on_one_machine() -> None:
    book = PortBook(100, 200)
    given = [book.take("a", {"ssh": 1, "http": 2}) for _ in range(20)]
    ports = [port for ports in given if ports for each in ports.values() for port in each]
    assert len(ports) == len(set(ports)) == 60
    assert book.take("b", {"ssh": 1}) == {"ssh": (100,)}


def test_equal_ports_of_many_nodes_are_one_object() -> None:
    book = PortBook(100, 200)
    assert book.take("a", {"ssh": 1, "http": 2}) is book.take("b", {"ssh": 1, "http": 2})


def test_what_does_not_fit_takes_nothing() -> None:
    book = PortBook(100, 104)
    assert book.take("a", {"x": 5}) is None
    assert book.take("a", {"x": 4}) == {"x": (100, 101, 102, 103)}
    assert book.take("a", {"x": 1}) is None


def test_a_port_that_was_given_back_is_the_last_to_be_given_again() -> None:
    book = PortBook(100, 104)
    book.take("a", {"x": 1})
    book.give_back("a", [100])
    assert [book.take("a", {"x": 1}) for _ in range(4)] == [{"x": (p,)} for p in (101, 102, 103, 100)]


def test_ports_known_from_before_a_restart_are_not_given() -> None:
    book = PortBook(100, 103)
    book.mark("a", [100, 102])
    assert book.take("a", {"x": 1}) == {"x": (101,)}
    book.give_back("a", [7])
    assert book.take("a", {"x": 1}) is None


def test_a_book_may_begin_anywhere_and_comes_to_all_ports() -> None:
    book = PortBook(100, 104, begin=102)
    assert book.take("a", {"x": 4}) == {"x": (102, 103, 100, 101)}
