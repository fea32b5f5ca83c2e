"""The SSH gateway: who gets in, what a session may do, how it ends, and what the audit log has of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncssh

from .api_world import World
from .ssh_world import ssh_world


async def test_a_command_has_output_errors_exit_code_environment_and_two_entries(world: World, tmp_path: Path) -> None:
    async with ssh_world(world, tmp_path) as ssh, ssh.client() as client:
        done = await client.run(
            "echo out; echo wrong >&2; pwd; echo $OF_TASK $LANG_OF_USER; exit 3", env={"LANG_OF_USER": "de"}
        )
        assert done.stdout == f"out\n{ssh.place}\nyes de\n"
        assert (done.stderr, done.exit_status) == ("wrong\n", 3)
        start, end = await ssh.entries()
        assert (start.actor, start.target, start.owner, start.address) == ("ann", "ann~train", "ann", "127.0.0.1")
        assert start.via.startswith("ssh SHA256:")
        assert start.detail["command"].startswith("echo out; echo wrong")
        assert (end.detail["event"], end.detail["exitCode"], end.detail["endedBy"]) == ("end", 3, "command")


async def test_a_shell_on_a_terminal_follows_its_size_and_its_keys(world: World, tmp_path: Path) -> None:
    async with ssh_world(world, tmp_path) as ssh, ssh.client() as client:
        shell = await client.create_process(term_type="xterm-256color", term_size=(100, 30))
        shell.stdin.write("stty -echo; PS1=; stty size; echo $TERM\n")
        assert "30 100" in await shell.stdout.readuntil("xterm-256color")
        shell.change_terminal_size(90, 20)
        while True:
            shell.stdin.write("stty size\n")
            if "20 90" in await shell.stdout.readline():
                break
        waits = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.05; done"
        command = await client.create_process(waits, term_type="xterm")
        await command.stdout.readuntil("ready")
        command.send_signal("INT")
        assert (await command.wait()).exit_status == 9
        shell.stdin.write("exit 7\n")
        assert (await shell.wait()).exit_status == 7


async def test_a_script_on_standard_input_runs_to_its_end(world: World, tmp_path: Path) -> None:
    async with ssh_world(world, tmp_path) as ssh, ssh.client() as client:
        done = await client.run("bash", input="cat >got <<'E'\nhello\nE\ncat got; exit 4\n")
        assert (done.stdout, done.exit_status) == ("hello\n", 4)
        whole = bytes(range(256)) * 40_000
        done = await client.run("cat", input=whole, encoding=None)
        assert done.stdout == whole


async def test_signals_reach_a_command_without_a_terminal(world: World, tmp_path: Path) -> None:
    async with ssh_world(world, tmp_path) as ssh, ssh.client() as client:
        command = await client.create_process(
            "trap 'echo caught; exit 9' TERM; echo ready; while :; do sleep 0.05; done"
        )
        await command.stdout.readuntil("ready")
        command.terminate()
        done = await command.wait()
        assert ("caught" in done.stdout, done.exit_status) == (True, 9)


async def test_sftp_reads_writes_and_lists(world: World, tmp_path: Path) -> None:
    odd = "a 'name'\n$(x) \u00fc*"
    async with ssh_world(world, tmp_path) as ssh, ssh.client() as client, client.start_sftp_client() as sftp:
        assert await sftp.realpath(".") == str(ssh.place)
        whole = bytes(range(256)) * 8000
        async with sftp.open(odd, "wb") as file:
            await file.write(whole)
        assert (ssh.place / odd).read_bytes() == whole
        async with sftp.open(odd, "rb") as file:
            assert await file.read() == whole
            assert await file.read(10, offset=1000) == whole[1000:1010]
        assert sorted(await sftp.listdir(".")) == [".", "..", odd]
        async with sftp.open(odd, "r+b") as file:
            await file.write(b"XYZ", offset=70_001)
        assert (ssh.place / odd).read_bytes() == whole[:70_001] + b"XYZ" + whole[70_004:]
        async with sftp.open(odd, "ab") as file:
            await file.write(b"end")
        found = await sftp.stat(odd)
        assert found.size == len(whole) + 3
        await sftp.chmod(odd, 0o640)
        await sftp.utime(odd, (5, 7))
        found = await sftp.stat(odd)
        assert (found.permissions or 0) & 0o777 == 0o640
        assert (found.atime, found.mtime) == (5, 7)
        await sftp.mkdir("dir")
        await sftp.rename(odd, "dir/b")
        await sftp.symlink("dir/b", "link")
        assert await sftp.readlink("link") == "dir/b"
        assert await sftp.islink("link")
        assert (await sftp.stat("link")).size == len(whole) + 3
        await sftp.truncate("link", 10)
        assert (await sftp.statvfs(".")).blocks
        await sftp.rmtree("dir")
        await sftp.remove("link")
        assert await sftp.listdir(".") == [".", ".."]


async def test_a_file_transfer_ends_with_an_exit_code(world: World, tmp_path: Path) -> None:
    async with ssh_world(world, tmp_path) as ssh, ssh.client() as client:
        channel, session = await client.create_session(_Ended, subsystem="sftp", encoding=None)
        channel.write(bytes((0, 0, 0, 5, 1, 0, 0, 0, 3)))
        channel.write_eof()
        await channel.wait_closed()
        assert session.code == 0


class _Ended(asyncssh.SSHClientSession[bytes]):
    """Notes the exit code of a channel, which scp takes for its own."""

    code: int | None = None

    def exit_status_received(self, status: int) -> None:
        self.code = status


async def test_sftp_says_what_is_wrong(world: World, tmp_path: Path) -> None:
    async with ssh_world(world, tmp_path) as ssh, ssh.client() as client, client.start_sftp_client() as sftp:
        (ssh.place / "dir").mkdir()
        (ssh.place / "file").write_text("x")
        for work, kind in (
            (sftp.open("none", "rb"), asyncssh.SFTPNoSuchFile),
            (sftp.open("none/file", "wb"), asyncssh.SFTPNoSuchFile),
            (sftp.open("dir", "rb"), asyncssh.SFTPFailure),
            (sftp.open("file", "xb"), asyncssh.SFTPFailure),
            (sftp.open("/dev/zero", "rb"), asyncssh.SFTPFailure),
            (sftp.listdir("none"), asyncssh.SFTPNoSuchFile),
            (sftp.rmdir("file"), asyncssh.SFTPNoSuchFile),
            (sftp.remove("dir"), asyncssh.SFTPFailure),
            (sftp.rename("file", "dir"), asyncssh.SFTPFailure),
            (sftp.stat("x" * 5000), asyncssh.SFTPFailure),
        ):
            try:
                await work
            except kind:
                continue
            raise AssertionError(f"not refused: {kind}")
        assert await sftp.exists("file")


async def test_old_scp_copies_both_ways(world: World, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    (mine / "deep").mkdir(parents=True)
    (mine / "deep" / "a").write_bytes(b"a" * 100_000)
    async with ssh_world(world, tmp_path) as ssh, ssh.client() as client:
        await asyncssh.scp(mine, (client, "copied"), recurse=True, preserve=True)
        assert (ssh.place / "copied" / "deep" / "a").read_bytes() == b"a" * 100_000
        await asyncssh.scp((client, "copied/deep/a"), mine / "back")
        assert (mine / "back").read_bytes() == b"a" * 100_000


async def test_a_port_and_a_socket_of_the_task_are_forwarded(world: World, tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())
        writer.close()

    async with ssh_world(world, tmp_path) as ssh, ssh.client() as client:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        unix = await asyncio.start_unix_server(answer, ssh.place / "s")
        port = server.sockets[0].getsockname()[1]
        for opened in (
            client.open_connection("localhost", port),
            client.open_unix_connection(str(ssh.place / "s")),
        ):
            reader, writer = await opened
            writer.write(b"hello" * 50_000)
            writer.write_eof()
            assert await reader.read() == b"HELLO" * 50_000
            writer.close()
        server.close()
        unix.close()
        assert [each.detail.get("port") for each in await ssh.entries()][:1] == [port]
