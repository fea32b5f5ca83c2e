"""What the process that starts a server passes on to it reaches none of its tasks."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from tests.contracts.process_harness import ProcessHarness
from tests.contracts.seen import a_key

from .test_process_backend import directory_of, until, words_of

SERVER = "from tests.integration.process_server import main; main()"

ODD_PARENT = """
import fcntl, os, signal, sys
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
lock = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
fcntl.flock(lock, fcntl.LOCK_EX)
os.dup2(lock, 77, inheritable=True)
os.umask(0o077)
if os.geteuid() == 0:
    os.nice(-5)
    open("/proc/self/oom_score_adj", "w").write("-500")
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


async def test_what_started_the_server_does_not_reach_its_tasks(host: ProcessHarness) -> None:
    """As `nohup`, a script that holds a lock, and a service with a higher priority start it."""
    read = "grep -E '^Sig(Blk|Ign)' /proc/self/status; ls /proc/$$/fd; umask; nice; cat /proc/self/oom_score_adj"
    text = f"{{ {read}; }} > report.new; mv report.new report; sleep 60"
    lock = str(host.root.parent / "lock")
    command = [sys.executable, "-c", ODD_PARENT, lock, "-c", SERVER, *words_of(host, 0, 1, text)]
    server = await asyncio.create_subprocess_exec(*command, stdout=subprocess.DEVNULL, cwd=Path(__file__).parents[2])
    try:
        report = directory_of(host, a_key(0)) / "work" / "report"
        await until(report.exists)
        _, blocked, _, ignored, *files, mask, nice, oom_score = report.read_text().split()
        assert int(blocked, 16) == 0
        # Beyond 31 are the signals that threads use among themselves.
        assert int(ignored, 16) & 0x7FFFFFFF == 0
        assert "77" not in files
        assert (mask, int(nice), int(oom_score)) == ("0022", 0, 0)
    finally:
        server.kill()
        await server.wait()
