"""The files a wrapper writes are read completely or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openpai.runtime.script import FENCED, ExitText, Ticket, user_script


@given(st.integers(-255, 255), st.sampled_from(["", "exited", "stale_grant"]), st.text(st.characters(codec="ascii")))
def test_an_exit_report_is_read_as_it_was_written(code: int, reason: str, message: str) -> None:
    text = " ".join(message.split())
    assert ExitText.parse(ExitText(code, reason, text).text()) == ExitText(code, reason, text)


@given(st.data())
def test_half_an_exit_report_is_none(data: st.DataObject) -> None:
    text = ExitText(3, "exited", "a message").text()
    cut = data.draw(st.integers(0, len(text) - 1))
    assert ExitText.parse(text[:cut]) is None


def test_the_report_of_a_wrapper_is_its_code() -> None:
    assert ExitText.parse("code 137\nend\n") == ExitText(137)


@pytest.mark.parametrize("text", ["", "end\n", "code\nend\n", "code x\nend\n", "code 1\n", f"code {2**63}\nend\n"])
def test_a_damaged_report_is_none(text: str) -> None:
    assert ExitText.parse(text) is None


def test_a_ticket_names_its_owner_or_no_process() -> None:
    assert Ticket.parse("4711 99\n") == Ticket(4711, 99)
    assert Ticket.parse(f"{FENCED}\n") == Ticket(None)


@pytest.mark.parametrize("text", ["", "4711 9", "4711\n", "\n", "-1 2\n", f"{2**40} 2\n", "² 2\n"])
def test_half_a_ticket_is_none(text: str) -> None:
    assert Ticket.parse(text) is None


def test_a_script_keeps_the_commands_as_written() -> None:
    assert user_script("echo  'a'\n\n").endswith("\necho  'a'\n")
