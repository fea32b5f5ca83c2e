"""The shell texts that look into a container work in every shell, and their answers are read within bounds."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Final

import pytest

from openpai.runtime.inspecting import (
    GpuUse,
    ProcessState,
    SampleReader,
    collective_of,
    described,
    most_telling,
    read_processes,
    read_sample,
    sample_words,
    stack_words,
)
from openpai.runtime.progress import Progress

SHELLS: Final = [words for words in (("dash",), ("bash",), ("busybox", "sh")) if shutil.which(words[0])]
GPUS: Final = r"""#!/bin/sh
echo "$*" >"$ASKED"
echo "0, 97, 40960, 81920, 350.25, 700.00, 61, Disabled"
echo "1, [N/A], 0, 81920, [N/A], 700.00, 45, [N/A]"
echo "2, [N/A], 70000, 81920, 612.00, 700.00, 58, Enabled"
"""
OLD_GPUS: Final = r"""#!/bin/sh
case $* in *mig*) echo 'Field "mig.mode.current" is not a valid field to query.'; exit 2 ;; esac
echo "0, 97, 40960, 81920, 350.25, 700.00, 61"
"""


@pytest.mark.parametrize("shell", SHELLS, ids=lambda words: words[0])
def test_a_sample_has_processes_memory_and_the_last_line_of_the_progress(
    shell: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "progress"
    file.write_text("1/10 loss=3\n2/10 loss=0.5 end\n\n")
    found = subprocess.run([*shell, *sample_words(0.01, 2, str(file))[1:]], capture_output=True, check=True)
    assert found.stderr == b""
    samples = SampleReader().feed(found.stdout)
    assert len(samples) == 2
    assert samples[0].progress == Progress(2, 10, {"loss": 0.5})
    assert samples[0].processes > 0
    assert samples[0].gpus is None


def test_gpus_are_asked_for_where_their_program_is(tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(GPUS)
    program.chmod(0o755)
    asked = tmp_path / "asked"
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "ASKED": str(asked)}
    words = ["sh", *sample_words(0.01, 2, "/none")[1:]]
    found = subprocess.run(words, capture_output=True, check=True, env=environment)
    first, second = SampleReader().feed(found.stdout)
    gib = 1 << 30
    assert first.gpus == (
        GpuUse(97, 40 * gib, 80 * gib, 350.25, 700, 61),
        GpuUse(None, 0, 80 * gib, None, 700, 45),
        # The power and the memory of a GPU are not those of a slice of it.
        GpuUse(None, None, None, None, None, 58, is_slice=True),
    )
    # Not in each sample: the program takes a while.
    assert second.gpus is None
    assert "--query-gpu=index," in asked.read_text()


def test_a_driver_that_knows_no_slices_is_asked_without_them(tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(OLD_GPUS)
    program.chmod(0o755)
    words = ["sh", *sample_words(0.01, 1, "/none")[1:]]
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    found = subprocess.run(words, capture_output=True, check=True, env=environment)
    assert SampleReader().feed(found.stdout)[0].gpus == (GpuUse(97, 40 << 30, 80 << 30, 350.25, 700, 61),)


def test_counters_of_both_versions_of_cgroups_are_read() -> None:
    second = ["usage_usec 2500000", "memory 1000", "inactive_file 400", "io 8:0 rbytes=10 wbytes=20", "io 8:1 rbytes=1"]
    found = read_sample(second)
    assert (found.cpu_s, found.memory_bytes) == (2.5, 600)
    assert (found.disk_read_bytes, found.disk_written_bytes) == (11, 20)
    first = ["cpu_ns 1500000000", "memory 1000", "total_inactive_file 400", "io 8:0 Read 10", "io 8:0 Write 20"]
    found = read_sample([*first, "io 8:0 Sync 5", "io Total 30"])
    assert (found.cpu_s, found.memory_bytes) == (1.5, 600)
    assert (found.disk_read_bytes, found.disk_written_bytes) == (10, 20)
    found = read_sample(["net     lo: 5 0 0 0 0 0 0 0 5 0", "net   eth0: 70 0 0 0 0 0 0 0 80 0", "net junk"])
    assert (found.network_received_bytes, found.network_sent_bytes) == (70, 80)


@pytest.mark.parametrize("answer", [b"x\n" * 3000, b"y" * 300_000])
def test_an_answer_without_an_end_is_given_up(answer: bytes) -> None:
    with pytest.raises(ValueError, match="without an end"):
        SampleReader().feed(answer)


def test_nonsense_of_a_task_means_nothing() -> None:
    text = b"cpu_ns 9999999999999999999999\nmemory -5\nusage_usec nan\nprogress \x1b[31mx\nstopped x\ngpu ,,,\nend\n"
    (found,) = SampleReader().feed(text)
    assert (found.cpu_s, found.memory_bytes, found.progress, found.stopped) == (0, 0, None, 0)


@pytest.mark.parametrize("shell", SHELLS, ids=lambda words: words[0])
def test_a_stopped_process_is_seen_and_says_most(shell: tuple[str, ...]) -> None:
    stopped = subprocess.Popen(["sleep", "100"])
    try:
        os.kill(stopped.pid, signal.SIGSTOP)
        os.waitpid(stopped.pid, os.WUNTRACED)
        everything = subprocess.run([*shell, *stack_words()[1:]], capture_output=True, check=True)
        assert everything.stderr == b""
        assert read_processes(everything.stdout.decode(errors="replace"))
    finally:
        stopped.kill()
        stopped.wait()


def test_what_processes_do_is_described() -> None:
    text = "process 7 7 (a) b) T 1 7\ncommand python train.py\nwaits do_signal_stop\nstack   main (train.py:3)\n"
    found = read_processes(f"{text}process 8 8 (sh) S 1 8\ncommand \nwaits do_wait\nprocess 9 9 (z) Z 1\n")
    assert found == [
        ProcessState(7, "T", "python train.py", "do_signal_stop", ["  main (train.py:3)"]),
        ProcessState(8, "S", "sh", "do_wait"),
    ]
    assert most_telling(found).text == "process 7 (python train.py) is stopped, in do_signal_stop"
    assert described(ProcessState(5, "S", "a\x1b[2Jb")).isprintable()


def test_a_rank_that_waits_for_others_is_named_with_its_operation() -> None:
    stack = [
        'Thread 7 (active): "MainThread"',
        "    all_reduce (torch/distributed/distributed_c10d.py:2501)",
        "    wrapper (torch/distributed/c10d_logger.py:81)",
        "    train_barrier_free (train.py:9)",
    ]
    waits = ProcessState(7, "R", "python", stack=stack)
    shell = ProcessState(6, "S", "sh", "do_wait")
    assert most_telling([shell, waits]) == ("process 7 (python) is running; it waits in all_reduce", "all_reduce")
    assert collective_of(stack[3:]) == ""
    # A stopped process says more.
    assert "stopped" in most_telling([waits, ProcessState(8, "T", "python")]).text
