"""`pai admin` on a data directory whose server is stopped, as a person at a terminal would use it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from openpai.access.accounts import Group, Token, User
from openpai.app import main as _main  # noqa: F401  # adds the server's commands to `pai`
from openpai.app.clock import SystemClock
from openpai.app.datadir import open_data_dir
from openpai.app.startup import ensure_admin
from openpai.identity.passwords import is_password
from openpai.store.accounts import SqlAccountStore
from openpai.store.database import Database
from openpai.store.opening import migrate
from tests.outcome import Outcome, run_pai


@contextmanager
def opened(root: Path) -> Iterator[SqlAccountStore]:
    """Open the accounts of a platform, as its server does, and let go of it."""
    data = open_data_dir(root)
    database = Database(data.database_url)
    migrate(database)
    try:
        yield SqlAccountStore(database)
    finally:
        database.close()
        data.close()


Run = Callable[..., Outcome]


@pytest.fixture
def run() -> Run:
    """Return a function that runs `pai admin reset-password` on a data directory."""

    def reset(root: Path, *options: str, output: str = "") -> Outcome:
        command = ("admin", "reset-password", "--data-dir", str(root), *options)
        # The command has an event loop of its own, which needs a thread of its own.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(run_pai, *command, stdin=output).result()

    return reset


async def test_a_lost_password_is_replaced_and_the_right_comes_with_it(tmp_path: Path, run: Run) -> None:
    with opened(tmp_path) as accounts:
        await ensure_admin(accounts, SystemClock(), "forgotten")
        await accounts.add_group(Group("others", is_admin=True))
        await accounts.add_user(User("ann", "", 1, groups=(Group("others"),), is_viewer=False))
        await accounts.change_user("admin", lambda user: replace(user, groups=(), is_viewer=True))
        await accounts.add_token(Token("a" * 64, "admin", False, 1, None))
        await accounts.add_token(Token("b" * 64, "admin", True, 1, None))
    done = run(tmp_path, "--password-stdin", output="a better one\n")
    assert (done.code, "logs in with the new password" in done.out) == (0, True), done.err
    assert "a better one" not in done.out + done.err
    with opened(tmp_path) as accounts:
        admin = await accounts.user("admin")
        assert admin is not None
        assert is_password("a better one", admin.password_hash)
        assert (admin.is_admin, admin.is_viewer) == (True, False)
        assert [token.is_application for token in await accounts.tokens("admin")] == [True]


async def test_an_administrator_who_was_removed_stays_removed(tmp_path: Path) -> None:
    with opened(tmp_path) as accounts:
        assert await ensure_admin(accounts, SystemClock(), None)
        await accounts.add_user(User("ann", "", 1, groups=(Group("admingroup"),)))
        await accounts.remove_user("admin")
        assert await ensure_admin(accounts, SystemClock(), "the first password") is None
        assert [user.name for user in await accounts.users()] == ["ann"]


async def test_a_password_is_made_up_for_a_new_user(tmp_path: Path, run: Run) -> None:
    with opened(tmp_path):
        pass
    done = run(tmp_path, "--user", "eve", "--make-up", "--json")
    message = json.loads(done.out)
    assert (message["user"], message["isNew"]) == ("eve", True)
    with opened(tmp_path) as accounts:
        eve = await accounts.user("eve")
        assert eve is not None
        assert eve.is_admin
        assert is_password(message["password"], eve.password_hash)


@pytest.mark.parametrize(
    ("options", "output", "message"),
    [
        (["--password-stdin"], "short\n", "give at least 6"),
        (["--password-stdin"], "", "give at least 6"),
        (["--password-stdin", "--user", "a b"], "long enough\n", "not a user name"),
        (["--password-stdin", "--user", "me"], "long enough\n", "not a user name"),
        (["--password-stdin", "--user", "sso"], "long enough\n", "logs in through OIDC"),
        ([], "", "--password-stdin"),
    ],
)
async def test_what_cannot_be_changes_nothing(
    tmp_path: Path, run: Run, options: list[str], output: str, message: str
) -> None:
    with opened(tmp_path) as accounts:
        await accounts.add_user(User("sso", "", 1, source="oidc", subject="s"))
        before = await accounts.users()
    done = run(tmp_path, *options, output=output)
    assert done.code != 0
    assert message in done.err
    with opened(tmp_path) as accounts:
        assert await accounts.users() == before


async def test_a_running_server_is_left_alone(tmp_path: Path, run: Run) -> None:
    with opened(tmp_path):
        done = run(tmp_path, "--password-stdin", output="long enough\n")
        assert done.code != 0
        assert "uses the data directory" in done.err


async def test_a_wrong_path_makes_no_new_platform(tmp_path: Path, run: Run) -> None:
    done = run(tmp_path / "mistyped", "--make-up")
    assert (done.code, done.out) == (2, "")
    assert "is not the data directory of a server" in done.err
    assert not (tmp_path / "mistyped").exists()
    with opened(tmp_path / "elsewhere"):
        pass
    (tmp_path / "elsewhere" / "openpai.db").unlink()
    assert "there is no database in" in run(tmp_path / "elsewhere", "--make-up").err


async def test_a_restored_platform_needs_no_first_start(tmp_path: Path, run: Run) -> None:
    with opened(tmp_path / "old") as accounts:
        await ensure_admin(accounts, SystemClock(), "forgotten")
    restored = tmp_path / "restored"
    restored.mkdir()
    (tmp_path / "old" / "openpai.db").rename(restored / "openpai.db")
    done = run(restored, "--make-up")
    assert (done.code, done.err) == (0, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mends a platform of another user")
def test_root_leaves_nothing_that_the_server_cannot_open(tmp_path: Path, run: Run) -> None:
    with opened(tmp_path):
        pass
    for path in (tmp_path, *tmp_path.rglob("*")):
        os.chown(path, 65534, 65534)
    (tmp_path / "lock").unlink()
    assert run(tmp_path, "--make-up").code == 0
    assert {path.name: path.stat().st_uid for path in tmp_path.iterdir() if path.stat().st_uid != 65534} == {}
