"""Attacks on the SSH gateway: strangers, wrong keys, other users' tasks, floods, and files of the server."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest

from openpai.access.accounts import User

from .api_world import World
from .ssh_world import SshWorld, ssh_world

KEY = asyncssh.generate_private_key("ssh-ed25519")


async def _is_refused(ssh: SshWorld, name: str, key: asyncssh.SSHKey) -> bool:
    try:
        async with ssh.client(name, client_keys=[key]):
            return False
    except (asyncssh.PermissionDenied, asyncssh.ConnectionLost, asyncssh.DisconnectError):
        return True


async def _printed(ssh: SshWorld, name: str, key: asyncssh.SSHKey, command: str = "true") -> tuple[int | None, str]:
    async with ssh.client(name, client_keys=[key]) as client:
        done = await client.run(command)
        return done.exit_status, str(done.stderr)


async def test_only_a_key_of_the_account_logs_in(world: World, tmp_path: Path) -> None:
    async with ssh_world(world, tmp_path) as ssh:
        for name in ("ann+train", "nobody+train", "root+ann~train", "ann", "../ann+train", "ann+train+worker+x"):
            assert await _is_refused(ssh, name, KEY), name
        # Another user's key is not that of ann, and ann's is not theirs.
        await ssh.add_key("bob", KEY)
        assert await _is_refused(ssh, "ann+train", KEY)
        assert await _is_refused(ssh, "bob+ann~train", ssh.key)
        certificate = ssh.key.generate_user_certificate(KEY, "forged", principals=["ann+train"])
        with pytest.raises((asyncssh.PermissionDenied, asyncssh.ConnectionLost, asyncssh.DisconnectError)):
            async with ssh.client("ann+train", client_keys=[(KEY, certificate)]):
                pass
        with pytest.raises(asyncssh.PermissionDenied):
            async with ssh.client("ann+train", client_keys=None, password="correct horse"):
                pass
        assert await ssh.entries() == []


async def test_a_key_with_options_or_a_weak_one_that_an_old_client_wrote_opens_nothing(
    world: World, tmp_path: Path
) -> None:
    weak = asyncssh.generate_private_key("ssh-rsa", key_size=1024)
    async with ssh_world(world, tmp_path) as ssh:
        for key, text in (
            (weak, weak.export_public_key().decode()),
            (KEY, f'command="true",no-pty {KEY.export_public_key().decode()}'),
            (KEY, f"# {KEY.export_public_key().decode()}"),
        ):
            entry = {"title": "x", "value": text}
            await world.users.change_user(
                "ann", lambda user, entry=entry: replace(user, extension={"sshKeys": [entry]})
            )
            assert await _is_refused(ssh, "ann+train", key)


async def test_tasks_of_others_unknown_and_finished_ones_are_refused_with_a_reason(
    world: World, tmp_path: Path
) -> None:
    async with ssh_world(world, tmp_path) as ssh:
        await ssh.add_key("bob", KEY)
        code, message = await _printed(ssh, "bob+ann~train", KEY)
        assert code == 255
        assert "bob may not" in message
        [entry] = await ssh.entries()
        assert (entry.actor, entry.target, entry.owner, entry.status) == ("bob", "ann~train", "ann", 403)
        for name, part in (
            ("ann", "names no job"),
            ("ann+none", "no job 'none'"),
            ("ann+train+worker+7", "no running task worker/7"),
            ("ann+train+other", "no running task other/0"),
        ):
            code, message = await _printed(ssh, name, ssh.key)
            assert (code, part in message) == (255, True), message
        await ssh.add_key("root", KEY)
        assert await _printed(ssh, "root+ann~train", KEY) == (0, "")
        ssh.platform.running.clear()
        code, message = await _printed(ssh, "ann+train", ssh.key)
        assert (code, "does not run" in message) == (255, True)
        async with ssh.client() as client:
            with pytest.raises(asyncssh.ChannelOpenError):
                await client.open_connection("localhost", 80)
            with pytest.raises((asyncssh.Error, OSError)):
                async with client.start_sftp_client() as sftp:
                    await sftp.listdir(".")


async def test_a_connection_ends_when_its_key_or_its_user_is_removed(world: World, tmp_path: Path) -> None:
    def without(user: User) -> User:
        return replace(user, extension={})

    async with ssh_world(world, tmp_path, {"look_every_s": 0.05}) as ssh, ssh.client() as client:
        command = await client.create_process("sleep 1000")
        await asyncio.sleep(0)
        await world.users.change_user("ann", without)
        done = await command.wait()
        assert done.exit_status == 255 or done.returncode is None
        await client.wait_closed()
        async with asyncio.timeout(30):
            while len(await ssh.entries()) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert (await ssh.entries())[-1].detail["endedBy"] == "right lost"


async def test_an_idle_session_ends(world: World, tmp_path: Path) -> None:
    async with ssh_world(world, tmp_path, {"look_every_s": 0.05, "idle_s": 0.2}) as ssh, ssh.client() as client:
        done = await client.run("sleep 1000")
        assert "nothing happened" in str(done.stderr)
        assert (await ssh.entries())[-1].detail["endedBy"] == "idle"


async def test_a_silent_session_stays_beside_one_that_is_used(world: World, tmp_path: Path) -> None:
    idle_s = 1.0
    async with ssh_world(world, tmp_path, {"look_every_s": 0.05, "idle_s": idle_s}) as ssh, ssh.client() as client:
        silent = await client.create_process("cat")
        busy = await client.create_process("while read -r line; do echo $line; done")
        started_at_s = asyncio.get_running_loop().time()
        while asyncio.get_running_loop().time() - started_at_s < 3 * idle_s:
            busy.stdin.write("x\n")
            assert await busy.stdout.readline() == "x\n"
            await asyncio.sleep(0.05)
        silent.stdin.write("still here\n")
        assert await silent.stdout.readline() == "still here\n"


async def test_failed_logins_and_sessions_are_limited(world: World, tmp_path: Path) -> None:
    async with ssh_world(world, tmp_path, logins=3, shells_per_user=2) as ssh:
        for _ in range(3):
            assert await _is_refused(ssh, "ann+train", KEY)
        assert await _is_refused(ssh, "ann+train", ssh.key)
        world.clock.at_ms += 61_000
        async with ssh.client() as client:
            await client.create_process("sleep 1000")
            await client.create_process("sleep 1000")
            while len(ssh.platform.shells) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            done = await client.run("true")
            assert (done.exit_status, "allowed" in str(done.stderr)) == (255, True)
        # The sessions of a connection that is gone end.
        async with asyncio.timeout(30):
            while await _printed(ssh, "ann+train", ssh.key) != (0, ""):  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def test_many_keys_of_an_agent_are_tried_once(world: World, tmp_path: Path) -> None:
    others = [asyncssh.generate_private_key("ssh-ed25519") for _ in range(6)]
    async with ssh_world(world, tmp_path, logins=1) as ssh:
        for _ in range(3):
            async with ssh.client(client_keys=[*others, ssh.key]) as client:
                assert (await client.run("true")).exit_status == 0
        too_many = [asyncssh.generate_private_key("ssh-ed25519") for _ in range(30)]
        with pytest.raises((asyncssh.DisconnectError, asyncssh.ConnectionLost)):
            async with ssh.client(client_keys=[*too_many, ssh.key]):
                pass


async def test_connections_without_a_login_do_not_keep_others_out_for_long(world: World, tmp_path: Path) -> None:
    async with ssh_world(world, tmp_path, {"login_s": 1.0}, pending=40) as ssh:
        opened = [await asyncio.open_connection("127.0.0.1", ssh.port) for _ in range(120)]
        ended = [reader.read() for reader, _ in opened]
        async with asyncio.timeout(60):
            await asyncio.gather(*ended, return_exceptions=True)
        for _, writer in opened:
            writer.close()
        assert await _printed(ssh, "ann+train", ssh.key) == (0, "")


@pytest.mark.parametrize(
    "sent",
    [
        b"\x1b]0;title\x07GET / HTTP/1.1\r\n\r\n",
        b"SSH-2.0-" + b"\x1b[2Jx" * 100 + b"\r\n",
        b"SSH-2.0-x\r\n" + b"\xff" * 70_000,
        b"x" * 300_000,
        b"SSH-1.0-old\r\n",
    ],
    ids=["http", "control", "packet", "line", "old"],
)
async def test_what_is_no_ssh_is_disconnected(world: World, tmp_path: Path, sent: bytes) -> None:
    async with ssh_world(world, tmp_path, {"login_s": 1.0}) as ssh:
        reader, writer = await asyncio.open_connection("127.0.0.1", ssh.port)
        writer.write(sent)
        async with asyncio.timeout(30):
            with contextlib.suppress(ConnectionError):
                assert len(await reader.read()) < 4096
        writer.close()
        assert await _printed(ssh, "ann+train", ssh.key) == (0, "")


async def test_nothing_is_forwarded_to_other_hosts_and_nothing_listens(world: World, tmp_path: Path) -> None:
    async with ssh_world(world, tmp_path) as ssh, ssh.client() as client:
        for host in ("10.0.0.1", "example.org", "169.254.169.254", "0.0.0.0", "localhost.example.org", "[::1]"):
            with pytest.raises(asyncssh.ChannelOpenError):
                await client.open_connection(host, ssh.port)
        for refused in (client.start_server(print, "localhost", 0), client.start_unix_server(print, "/tmp/none")):
            with pytest.raises(asyncssh.ChannelListenError):
                await refused
        with pytest.raises(asyncssh.ChannelOpenError):
            await client.open_unix_connection("x" * 200)
        assert (await client.run("true", env={"BAD NAME; touch hurt": "x", "A" * 500: "y"})).exit_status == 0
        assert (await client.run("ls")).stdout == ""
        with pytest.raises((asyncssh.ChannelOpenError, asyncssh.ProcessError)):
            await client.run(subsystem="netconf", check=True)


async def test_a_task_that_answers_nonsense_cannot_hurt_the_gateway(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from openpai.ssh import task_shell

    monkeypatch.setattr(task_shell, "ANSWER_MAX", 1 << 20)
    async with ssh_world(world, tmp_path) as ssh, ssh.client() as client:
        for number, text in enumerate(
            ("yes", "echo '%x'", "exec sleep 0", "printf '81a4 -5 99999999999999999999 1 x 1'")
        ):
            bin_ = ssh.place / f"bin{number}"
            bin_.mkdir()
            (bin_ / "stat").write_text(f"#!/bin/sh\n{text}\n")
            (bin_ / "stat").chmod(0o755)
            monkeypatch.setenv("PATH", f"{bin_}:/usr/bin:/bin")
            async with client.start_sftp_client() as sftp:
                with pytest.raises(asyncssh.SFTPError):
                    await sftp.stat(".")
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        assert (await client.run("echo alive")).stdout == "alive\n"


async def test_sessions_of_a_client_that_vanishes_are_over(world: World, tmp_path: Path) -> None:
    async with ssh_world(world, tmp_path, shells_per_user=3) as ssh:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        async with ssh.client() as client:
            await client.start_sftp_client()
            await client.open_connection("localhost", server.sockets[0].getsockname()[1])
            await client.create_process("sleep 1000")
            assert (await client.run("true")).exit_status == 255
            client.abort()
        server.close()
        async with asyncio.timeout(30):
            while len(await ssh.entries()) < 6:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
