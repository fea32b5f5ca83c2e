"""`pai up --task-uids`: two users' jobs through the real command, and a new user with the name of a removed one."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.server import PASSWORD, Person, Server, job_text, logged_in, person

pytestmark = pytest.mark.slow


@pytest.fixture
def server() -> Iterator[Server]:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root, with setpriv, can run tasks as other users")
    place = Path(tempfile.mkdtemp(dir="/var/lib", prefix="pai-uids-"))
    place.chmod(0o755)
    server = Server.start(place, 0, "--task-uids", "1900000000-1900000999")
    try:
        yield server
    finally:
        server.process.kill()
        shutil.rmtree(place)


def as_user(admin: Person, home: Path, url: str, name: str) -> Person:
    """Make an account and return a person who is logged in with it."""
    assert admin("user", "add", name, "--password-stdin", stdin=PASSWORD).code == 0
    somebody = person(home, url)
    assert somebody("login", "--user", name, "--password-stdin", stdin=PASSWORD).code == 0
    return somebody


def uid_in_a_job(somebody: Person, name: str) -> int:
    """Run a job that says who it is, and return that."""
    message = somebody("job", "submit", "-", stdin=job_text(name, "id -u"))
    assert message.code == 0, message.err
    assert somebody("job", "wait", name).code == 0, somebody("job", "logs", name)
    return int(somebody("job", "logs", name).out)


def test_users_keep_their_uids_and_none_gets_that_of_another(server: Server, tmp_path: Path) -> None:
    admin = logged_in(tmp_path / "admin", server.url)
    ann = as_user(admin, tmp_path / "ann", server.url, "ann")
    bob = as_user(admin, tmp_path / "bob", server.url, "bob")
    first, second = uid_in_a_job(ann, "one"), uid_in_a_job(bob, "two")
    assert first != second
    server.end(signal.SIGKILL)
    again = server.again()
    try:
        assert uid_in_a_job(ann, "three") == first
        assert admin("user", "remove", "ann", "--yes").code == 0
        successor = as_user(admin, tmp_path / "successor", server.url, "ann")
        assert uid_in_a_job(successor, "four") not in (first, second)
    finally:
        assert again.end() == 0
