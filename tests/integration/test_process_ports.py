"""A port of a task on this machine is one that a process of the task listens on, and no other program."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from openpai.backends.host import listening
from openpai.backends.host.listening import Listener, listeners, reachable
from openpai.backends.process.shells import pids_of
from openpai.ports.shells import Shells
from openpai.protocol.errors import Unavailable
from tests.contracts.process_harness import ProcessHarness
from tests.contracts.seen import a_key, a_launch

from .test_process_backend import directory_of, until

SERVE = """
import os, socket, sys
one = socket.create_server((sys.argv[1], 0), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
print(one.getsockname()[1], file=open("port.new", "w"), flush=True)
os.rename("port.new", "port")
while True:
    two, _ = one.accept()
    two.sendall(b"from the task")
    two.close()
"""


@pytest.fixture
def other() -> Iterator[int]:
    """Yield a port that a program listens on which belongs to no task."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "127.0.0.9", "::1"])
async def test_a_port_of_a_task_is_reached_wherever_it_listens(host: ProcessHarness, other: int, address: str) -> None:
    with suppress(OSError), closing(socket.create_server((address, 0), family=family_of(address))):
        backend = await host.start()
        command = f"cat > serve.py <<'END'\n{SERVE}\nEND\nexec {sys.executable} serve.py {address}"
        await backend.apply([a_launch(host, a_key(), command)])
        await until((directory_of(host, a_key()) / "work" / "port").exists)
        port = int((directory_of(host, a_key()) / "work" / "port").read_text())
        assert isinstance(backend, Shells)
        stream = await backend.connect(a_key(), port)
        assert await stream.read() == b"from the task"
        await stream.close()
        with pytest.raises(Unavailable, match=f"port {other}, but another program"):
            await backend.connect(a_key(), other)
        return
    pytest.skip(f"this machine has no address {address}")


def family_of(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


async def test_a_program_that_takes_the_port_before_the_connection_is_not_reached(
    other: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([frozenset({each.inode for each in listeners(other)}), frozenset()])
    monkeypatch.setattr(listening, "inodes_of", lambda *_: next(looks))
    with pytest.raises(Unavailable, match="another program"):
        await listening.connect_to_task(a_key(), other, tuple)


async def test_a_program_that_clears_its_environment_is_still_of_its_task(host: ProcessHarness) -> None:
    backend = await host.start()
    await backend.apply([a_launch(host, a_key(), "env -i /bin/sh -c 'echo $$ > ../pid; sleep 60'")])
    await until((directory_of(host, a_key()) / "pid").exists)
    attempt = backend._register.get(a_key())  # type: ignore[attr-defined]
    pid = int((directory_of(host, a_key()) / "pid").read_text())
    assert pid in pids_of(attempt)
    attempt.cgroup, cgroup = "", attempt.cgroup
    assert pid in pids_of(attempt)
    attempt.cgroup = cgroup


@pytest.mark.parametrize(
    ("others", "reached"),
    [
        ((), {"127.0.0.1"}),
        ((Listener("127.0.0.1", 9),), set()),
        ((Listener("0.0.0.0", 9),), set()),
        ((Listener("::", 9), Listener("10.0.0.5", 9)), {"127.0.0.1"}),
    ],
    ids=["alone", "nearer", "shared", "elsewhere"],
)
def test_no_address_is_used_at_which_another_program_could_accept(
    others: tuple[Listener, ...], reached: set[str]
) -> None:
    own = Listener("0.0.0.0", 1)
    assert {address for address, _ in reachable([own, *others], {1})} == reached


def test_the_tables_of_the_system_are_read() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as four:
        port = four.getsockname()[1]
        (found,) = listeners(port)
        assert found.address == "127.0.0.1"
        assert found.inode == os.fstat(four.fileno()).st_ino
