"""The root of a failure, among the lines of one log and among the tasks of an attempt."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from openpai.diagnosis.diagnosing import find, find_root
from openpai.diagnosis.evidence import Evidence
from openpai.diagnosis.log_lines import time_of_day

TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    work()\n'
NCCL_TIMEOUT = (
    "[rank{0}]:[E ProcessGroupNCCL.cpp:607] [Rank {0}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=1201, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n"
)
XID = "[81234.5] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
XID_OF_A_PROGRAM = "[8.5] NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name=python, Ch 00000010, MMU Fault: ENGINE GRAPHICS\n"
RESET = TRACEBACK + "ConnectionResetError: [Errno 104] Connection reset by peer\n"
IN_A_LIST = (
    r"""12:08:08 INFO a task failed: ['Traceback (most recent call last):\n', '  File "a.py", line 4, in save\n"""
    r"""    1 / 0\n', 'ZeroDivisionError: division by zero\n']"""
)
CHAINED = "\nDuring handling of the above exception, another exception occurred:\n\n"


@pytest.mark.parametrize(
    ("log", "exit_code", "cause"),
    [
        # Warnings by the hundred before the cause.
        ("WARNING: cannot reach wandb: Temporary failure in name resolution\n" * 150 + "Loss is nan, stopping\n", 1,
         "nan_loss_stop"),
        # Harmless lines with the word error.
        ("error rate 0.25\nno errors found in the data set\n" + TRACEBACK + "KeyError: 'lr'\n", 1, "type_or_key_error"),
        # The first exception of a chain is the root; the last was printed last.
        (TRACEBACK + "FileNotFoundError: [Errno 2] No such file or directory: '/data/a'\n" + CHAINED + TRACEBACK
         + "RuntimeError: cannot start\n", 1, "file_not_found"),
        (TRACEBACK + "ModuleNotFoundError: No module named 'apex'\n" + CHAINED + TRACEBACK
         + "ValueError: no optimizer\n", 1, "missing_module"),
        # A bare `Killed` is no proof of memory.
        ("epoch 3\n/w/user.sh: line 3: 55 Killed             python train.py\n", 137, "python_killed_signal9_unknown"),
        ("oom-kill:constraint=CONSTRAINT_MEMCG,task=python3,pid=55,uid=0\nKilled\n", 137, "host_oom_kill"),
        # A worker of a data loader: the bus error is known to be the shared memory, another signal is not.
        ("ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm)\n"
         + TRACEBACK + "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error.\n", 1, "shm_too_small"),
        (TRACEBACK + "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.\n", 1,
         "dataloader_worker_killed"),
        # A progress bar overwrites its line, and the log ends in the middle of one.
        (" 10%|#   | 1/10\r 20%|##  | 2/10\r" + TRACEBACK + "torch.OutOfMemoryError: CUDA out of mem", 1, "cuda_oom"),
        # The hardware is the root, whatever the program made of it.
        (XID + "step\n" * 300 + TRACEBACK + "RuntimeError: CUDA error: launch failure\n", 1, "xid_hardware"),
        # A trace of the program's own fault is no hardware error.
        (XID_OF_A_PROGRAM + TRACEBACK + "CUDA error: an illegal memory access was encountered\n", 1,
         "cuda_illegal_access"),
        # A consequence counts only where there is no root.
        (NCCL_TIMEOUT.format(0) * 3, 134, "nccl_timeout_root_unknown"),
        (TRACEBACK + "AssertionError: bad batch\n" + NCCL_TIMEOUT.format(0) * 3, 134, "assertion_user"),
        # What was survived long ago, and retries that succeeded.
        ("OSError: [Errno 28] No space left on device\n" + "step\n" * 400 + "bye\n", 1, None),
        ("WARNING Retrying (Retry(total=4)) after connection broken by 'NewConnectionError'\n" + "done\n", 1, None),
        # A retry after which nothing comes was not survived.
        ("WARNING Retrying (Retry(total=0)) after connection broken by 'NewConnectionError'\n", 1, "download_failed"),
        # What a container runtime wrote into the log says what its messages say; other lines with its words do not.
        ("$ docker pull app\nError response from daemon: Get https://registry.lab/v2/: EOF\n", 1, "image_pull_failed"),
        ("Warning  Evicted  3m  kubelet  Pod The node had condition: [DiskPressure].\n", 1, "preempted_or_evicted"),
        ("the scheduler of the game preempted a move\n", 1, None),
        # A traceback that a logger wrote as the list of its lines.
        (IN_A_LIST, 1, "value_or_shape_error"),
        # A shell's last message, whatever code a batch system makes of it; not an older one.
        ("user.sh: line 4: syntax error near unexpected token `then'\n", 1, "syntax_error"),
        ("/usr/bin/bash: line 1: trian: command not found\n", 1, "entrypoint_not_found"),
        ("/usr/bin/bash: line 1: module: command not found\nRuntimeError: strange\n", 1, None),
        # Names of exceptions after what a runtime puts before them.
        ("ERROR: LoadError: UndefVarError: modle not defined\nStacktrace:\n [1] top-level scope\n", 1,
         "type_or_key_error"),
        ('Exception in thread "main" java.lang.ArithmeticException: / by zero\n\tat A.main(A.java:3)\n', 1,
         "value_or_shape_error"),
        ("thread 'main' (7) panicked at src/main.rs:4:7:\nindex out of bounds: the len is 1\n", 101,
         "value_or_shape_error"),
        # A launcher that says so killed the task for the exception of one of its processes; otherwise nobody knows.
        (TRACEBACK + "PermissionError: [Errno 13] x\n[rank: 3] failed. Terminating all others\nKilled\n", 137,
         "permission_denied"),
        (TRACEBACK + "PermissionError: [Errno 13] x\nepoch 4\n", 137, None),
        # Texts of errno at the end of what a program of any language says.
        ("load config: open /data/none.json: no such file or directory\n", 1, "file_not_found"),
        ("2026/11/26 23:19:59 connect to scheduler: dial tcp 127.0.0.1:9: connect: connection refused\n", 1,
         "download_failed"),
        # A traceback within a line of JSON, and an exception with its cause as Node prints them.
        (
            '{"e": "Traceback (most recent call last):\\n  File \\"a\\", line 1, in f\\nKeyError: 1"}\nbye\n',
            1,
            "type_or_key_error",
        ),
        ("TypeError: fetch failed\n    at node:internal/a:1:2 {\n  [cause]: Error: getaddrinfo ENOTFOUND a.b\n", 1,
         "download_failed"),
        # The reason stands behind more than a thousand characters, and in a line of information about a failure.
        ("error: " + "x" * 5000 + " No space left on device\n", 1, "disk_full"),
        ("22/11/18 06:07:36 INFO Scheduler: stage 0 failed due to java.lang.OutOfMemoryError: Java heap space\n", 1,
         "host_memory_refused"),
        ("nothing to see here\n", 1, None),
        ("", 1, None),
    ],
)  # fmt: skip
def test_the_cause_in_one_log(log: str, exit_code: int, cause: str | None) -> None:
    found = find(Evidence(exit_code, log))
    assert (found.cause.name if found.cause else None) == cause, found.line


def root(*tasks: tuple[int | None, str], ends: Sequence[int] | None = None) -> int | None:
    return find_root(
        [
            Evidence(code, log, ended_at_ms=(ends or range(1000, 1000 + len(tasks)))[at])
            for at, (code, log) in enumerate(tasks)
        ]
    )


def test_of_63_ranks_that_time_out_and_one_with_a_hardware_error_that_one_is_the_root() -> None:
    logs: list[tuple[int | None, str]] = [(134, NCCL_TIMEOUT.format(rank)) for rank in range(63)]
    assert root(*logs, (134, XID + NCCL_TIMEOUT.format(63))) == 63
    assert root(*logs, (1, TRACEBACK + "AssertionError: loss\n"), ends=[*range(63), 10**6]) == 63


def test_a_rank_that_raised_and_stood_still_is_the_root_although_the_platform_ended_it() -> None:
    assert root((1, RESET), (None, TRACEBACK + "ValueError: bad shard\n")) == 1
    # What a rank says about its own end by the platform is no root.
    assert root((1, RESET), (None, TRACEBACK + "KeyboardInterrupt\n")) == 0
    assert root((139, ""), (None, "Terminated\n")) == 0


def test_the_first_of_several_roots_is_the_root() -> None:
    error = TRACEBACK + "ValueError: no data\n"
    assert root((1, error), (1, error), (1, error), ends=(30, 10, 20)) == 1
    # The times in the logs say more than when the exits were noticed.
    stamped = "2026-03-04 10:00:{:02},500 ERROR step failed\n" + error
    assert root((1, stamped.format(9)), (1, stamped.format(7)), ends=(10, 20)) == 1
    assert root((1, stamped.format(9)), (1, error), ends=(10, 20)) == 0


def test_what_the_backend_saw_itself_is_a_root() -> None:
    lost = Evidence(101, is_explained=True, ended_at_ms=99)
    assert find_root([Evidence(1, RESET, ended_at_ms=1), lost]) == 1
    assert find_root([Evidence(1, TRACEBACK + "KeyError: 1\n", ended_at_ms=1), lost]) == 1


TORCHRUN = """\
E1124 09:00:01.123000 4711 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 1 \
(pid: 4790) of binary: /usr/bin/python3
Traceback (most recent call last):
  File "/opt/py/torch/distributed/run.py", line 905, in run
    elastic_launch(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
====================
train.py FAILED
--------------------
[0]:
  exitcode  : 1 (pid: 4790)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
"""


@pytest.mark.parametrize(
    ("before", "line"),
    [
        ("step 3\nthe configuration names no learning rate\n", "the configuration names no learning rate"),
        (
            "no shards here\nW1124 09:00:00 4711 api.py:900] Sending process 9 closing signal SIGTERM\n",
            "no shards here",
        ),
    ],
)
def test_a_rank_of_torchrun_that_ended_with_a_message_lost_no_peer(before: str, line: str) -> None:
    found = find(Evidence(1, before + TORCHRUN))
    assert (found.rule, found.line) == (None, line)
    lost = find(Evidence(1, "RuntimeError: Connection closed by peer\n" + TORCHRUN))
    assert lost.rule is not None
    assert lost.rule.cause.name == "peer_lost"
    assert root((1, "RuntimeError: Connection closed by peer\n" + TORCHRUN), (1, before + TORCHRUN)) == 1


def test_an_end_without_a_word_comes_before_mere_consequences() -> None:
    assert root((1, RESET), (7, "step 1\n")) == 1
    assert root((1, RESET), (0, "")) == 0
    assert root((0, ""), (None, "")) is None


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("2026-03-04 10:00:01,250 ERROR", 36001.25),
        ("2026-03-04T10:00:01Z", 36001.0),
        ("E0304 10:00:01.5 77 file.cc:1] x", 36001.5),
        ("[10:00:01] x", 36001.0),
        ("ratio 10:00:01", None),
        ("[25:00:01] x", None),
        ("x" * 200 + " [10:00:01]", None),
    ],
)
def test_the_time_in_a_line(line: str, seconds: float | None) -> None:
    assert time_of_day(line) == seconds


def test_of_a_long_line_the_part_with_the_reason_is_shown() -> None:
    found = find(Evidence(1, "['python3', 'train.py', '--text', '" + "x" * 600 + "'] exits with return code = -9\n"))
    assert found.line.startswith("['python3'")
    assert found.line.endswith("return code = -9")
    assert len(found.line) <= 400
    assert found.context == (found.line,)
