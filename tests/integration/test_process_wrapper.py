"""The wrapper and the user's script under every shell an image may have, with real processes and signals."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from openpai.protocol.job import PLUGIN_PREFIX, JobSpec, Resources, TaskRole
from openpai.runtime.plugin import PluginContext
from openpai.runtime.plugins import with_plugins
from openpai.runtime.script import ExitText, Ticket, user_script, wrapper

PATIENCE_S = 90.0


def _shells() -> list[tuple[str, ...]]:
    return [("dash",), ("bash",), ("busybox", "sh")]


@pytest.fixture(params=_shells(), ids=lambda shell: shell[0])
def shell(request: pytest.FixtureRequest) -> tuple[str, ...]:
    name, *rest = request.param
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed here")
    return (found, *rest)


WORKER = PluginContext("ann", "job", "worker")


def same(value: Any) -> Any:
    return value


@dataclass
class Attempt:
    """One task attempt's directory and how to run its wrapper there."""

    directory: Path
    shell: tuple[str, ...]
    path: str = os.environ["PATH"]

    def write(self, commands: str) -> None:
        (self.directory / "work").mkdir(exist_ok=True)
        (self.directory / "wrapper.sh").write_text(wrapper())
        (self.directory / "user.sh").write_text(user_script(commands))

    def start(self, grace_s: str = "10") -> subprocess.Popen[bytes]:
        where = str(self.directory)
        return subprocess.Popen(
            [*self.shell, f"{where}/wrapper.sh", where, where, f"{where}/work", grace_s],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "PATH": self.path},
        )

    def run(self, commands: str) -> int:
        self.write(commands)
        self.start().wait(PATIENCE_S)
        return self.code()

    def code(self) -> int:
        message = ExitText.parse((self.directory / "exit").read_text())
        assert message is not None
        return message.code

    def printed(self, stream: str = "stdout") -> str:
        path = self.directory / f"{stream}.log"
        return path.read_text() if path.exists() else ""


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def attempt(tmp_path: Path, shell: tuple[str, ...]) -> Attempt:
    return Attempt(tmp_path, shell)


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_the_users_exit_code_is_reported(attempt: Attempt, code: int) -> None:
    assert attempt.run(f"echo out\necho err >&2\nexit {code}") == code
    assert (attempt.printed(), attempt.printed("stderr")) == ("out\n", "err\n")
    assert f"exit code {code}" in attempt.printed("runtime")


def test_a_program_that_a_signal_ended_is_reported_as_128_and_its_number(attempt: Attempt) -> None:
    assert attempt.run('sh -c "kill -SEGV \\$\\$"') == 139


def test_the_wrapper_claims_the_ticket_with_its_number_and_time_of_birth(attempt: Attempt) -> None:
    attempt.write("true")
    process = attempt.start()
    process.wait(PATIENCE_S)
    ticket = Ticket.parse((attempt.directory / "ticket").read_text())
    assert ticket is not None
    assert ticket.pid == process.pid
    assert ticket.claimed > 0


def test_of_many_wrappers_one_runs(attempt: Attempt) -> None:
    attempt.write("echo ran")
    processes = [attempt.start() for _ in range(12)]
    for process in processes:
        process.wait(PATIENCE_S)
    assert attempt.printed() == "ran\n"
    assert sorted(process.returncode for process in processes)[1:] == [75] * 11


def test_a_fenced_attempt_never_begins(attempt: Attempt) -> None:
    attempt.write("echo ran")
    (attempt.directory / "ticket").write_text("fenced\n")
    assert attempt.start().wait(PATIENCE_S) == 75
    assert attempt.printed() == ""
    assert not (attempt.directory / "exit").exists()


def test_a_directory_that_is_gone_ends_a_late_wrapper(attempt: Attempt) -> None:
    attempt.write("echo ran")
    logs = attempt.directory / "logs"
    logs.mkdir()
    where = str(attempt.directory)
    arguments = [*attempt.shell, f"{where}/wrapper.sh", f"{where}/gone", str(logs), "", "1"]
    assert subprocess.run(arguments, check=False, start_new_session=True, capture_output=True).returncode == 75


def test_without_a_log_directory_the_wrapper_passes_its_own_streams_on(attempt: Attempt) -> None:
    attempt.write("echo ran >&2")
    script = attempt.directory / "other.sh"
    script.write_text("echo out\necho err >&2\nexit 3")
    where = str(attempt.directory)
    arguments = [*attempt.shell, f"{where}/wrapper.sh", where, "-", "", "-", "probe", "", str(script)]
    ended = subprocess.run(arguments, check=False, start_new_session=True, capture_output=True, text=True)
    notes = [line for line in ended.stdout.splitlines() if line.startswith("[openpai-runtime] ")]
    assert "out" in ended.stdout.splitlines()
    assert (ended.stderr, len(notes), attempt.code()) == ("err\n", 2, 3)


def test_without_a_grace_period_of_its_own_the_wrapper_waits_for_the_task(attempt: Attempt) -> None:
    attempt.write("trap 'sleep 0.2; echo saved; exit 6' TERM\necho ready\nwhile :; do sleep 0.05; done")
    process = attempt.start("-")
    until(lambda: "ready" in attempt.printed())
    process.send_signal(signal.SIGTERM)
    process.wait(PATIENCE_S)
    assert (attempt.code(), attempt.printed()) == (6, "ready\nsaved\n")
    assert "the task is to end" in attempt.printed("runtime")


@pytest.mark.parametrize("thing", ["mkdir ../exit", "mkfifo ../exit", "ln -s /nowhere/at/all ../exit"])
def test_what_a_task_puts_in_place_of_its_report_hides_no_exit_code(attempt: Attempt, thing: str) -> None:
    attempt.write(f"{thing}\nexit 7")
    assert attempt.start().wait(PATIENCE_S) == 7


def test_a_wrapper_that_shares_its_group_with_strangers_does_not_begin(attempt: Attempt) -> None:
    attempt.write("echo ran")
    where = str(attempt.directory)
    inner = [*attempt.shell, f"{where}/wrapper.sh", where, where, "", "1"]
    # The trailing command keeps the outer shell, which leads the group, from becoming the wrapper.
    outer = subprocess.run(["sh", "-c", '"$@"; exit $?', "sh", *inner], check=False, start_new_session=True)
    assert outer.returncode == 64
    assert attempt.printed() == ""


def test_a_program_saves_its_work_on_sigterm_and_the_script_goes_no_further(attempt: Attempt) -> None:
    program = "trap 'sleep 0.3; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.02; done"
    attempt.write(f'sh -c "{program}"\necho never')
    process = attempt.start()
    until(lambda: "ready" in attempt.printed())
    process.send_signal(signal.SIGTERM)
    process.wait(PATIENCE_S)
    assert attempt.code() == 143
    assert attempt.printed() == "ready\nsaved\n"


def test_a_script_may_say_itself_what_sigterm_means(attempt: Attempt) -> None:
    attempt.write("trap 'echo saved; exit 5' TERM\necho ready\nwhile :; do sleep 0.02; done")
    process = attempt.start()
    until(lambda: "ready" in attempt.printed())
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    process.wait(PATIENCE_S)
    assert (attempt.code(), attempt.printed()) == (5, "ready\nsaved\n")


@pytest.mark.parametrize("from_file", [False, True], ids=["as launched", "as written later"])
def test_who_ignores_sigterm_is_killed_after_the_grace_period(attempt: Attempt, from_file: bool) -> None:
    attempt.write("trap '' TERM\necho ready\nwhile :; do sleep 0.02; done")
    process = attempt.start("600" if from_file else "0.3")
    until(lambda: "ready" in attempt.printed())
    if from_file:
        (attempt.directory / "grace").write_text("0.3\n")
    process.send_signal(signal.SIGTERM)
    process.wait(PATIENCE_S)
    assert attempt.code() == 137
    assert "0.3 s" in attempt.printed("runtime")


def test_background_processes_do_not_outlive_the_script(attempt: Attempt) -> None:
    assert attempt.run("sh -c 'echo $$ >pid; exec sleep 1000' &\nwhile [ ! -s pid ]; do sleep 0.01; done") == 0
    pid = int((attempt.directory / "work" / "pid").read_text())
    until(lambda: not _is_alive(pid))


def test_signals_to_the_own_group_do_not_disturb_the_wrapper(attempt: Attempt) -> None:
    commands = "trap 'echo hup' HUP\ntrap 'echo usr1' USR1\nkill -HUP 0\nkill -USR1 0\necho on\nexit 4"
    assert attempt.run(commands) == 4
    assert attempt.printed() == "hup\nusr1\non\n"


def test_a_pipe_ends_when_its_reader_does(attempt: Attempt) -> None:
    assert attempt.run("set +o pipefail 2>/dev/null || true\nyes | head -n 1") == 0
    assert attempt.printed() == "y\n"


def test_a_failing_command_in_a_pipe_ends_a_script_run_by_bash(attempt: Attempt) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed here")
    assert attempt.run("false | true\necho never") == 1
    assert attempt.printed() == ""


def test_an_image_with_a_shell_and_nothing_else_is_enough(attempt: Attempt) -> None:
    if attempt.shell[0].endswith("busybox"):
        pytest.skip("busybox brings its own programs, so nothing can be taken away from it")
    (attempt.directory / "bin").mkdir()
    (attempt.directory / "bin" / "sh").symlink_to(attempt.shell[0])
    attempt.path = str(attempt.directory / "bin")
    busy = "n=0; while [ $n -lt 200000 ]; do n=$((n + 1)); done"
    attempt.write(f"trap '{busy}; echo saved; exit 7' TERM\necho ready\nwhile :; do :; done")
    process = attempt.start()
    until(lambda: "ready" in attempt.printed())
    process.send_signal(signal.SIGTERM)
    process.wait(PATIENCE_S)
    assert (attempt.code(), attempt.printed()) == (7, "ready\nsaved\n")


def test_postcommands_run_however_the_task_ended_and_callbacks_after_success_only(attempt: Attempt) -> None:
    succeeded = {"event": "taskSucceeds", "commands": ["echo succeeded"]}
    post = ["echo post $PAI_TASK_EXIT_CODE"]
    parameters = {"preCommands": ["echo pre"], "postCommands": post, "callbacks": [succeeded]}
    plugin = {"plugin": "cmd", "parameters": parameters}
    role = TaskRole("worker", "image", Resources(1, 1, 0), ("main",))
    spec = JobSpec("job", (role,), extras={PLUGIN_PREFIX: [plugin]})
    assert attempt.run(with_plugins(spec, WORKER, "echo main\nexit 0", same)) == 0
    assert attempt.printed() == "pre\nmain\nsucceeded\npost 0\n"
    failing = Attempt(attempt.directory / "failing", attempt.shell)
    failing.directory.mkdir()
    assert failing.run(with_plugins(spec, WORKER, "(exit 7)\necho never", same)) == 7
    assert failing.printed() == "pre\npost 7\n"


def test_a_plugins_ignored_failure_lets_the_task_go_on(attempt: Attempt) -> None:
    plugin = {"plugin": "cmd", "failurePolicy": "ignore", "parameters": {"preCommands": ["false", "echo on"]}}
    spec = JobSpec(
        "job", (TaskRole("worker", "image", Resources(1, 1, 0), ("main",)),), extras={PLUGIN_PREFIX: [plugin]}
    )
    assert attempt.run(with_plugins(spec, WORKER, "echo main\nfalse\necho never", same)) == 1
    assert attempt.printed() == "on\nmain\n"


@pytest.mark.parametrize(
    ("before", "policy", "code", "output"),
    [
        (["exit 0"], "fail", 0, "main\npost\n"),
        (["echo pre; exit 3", "echo never"], "fail", 3, "pre\n"),
        (["echo pre; exit 3", "echo never"], "ignore", 0, "pre\nmain\npost\n"),
        (["false", "echo never"], "fail", 1, ""),
        (["cd /; export LEAK=1; umask 077; set +e", "echo $LEAK"], "fail", 0, "1\nmain\npost\n"),
        (["trap 'echo bye' EXIT"], "fail", 0, "bye\nmain\npost\n"),
    ],
)
def test_what_a_plugin_does_to_its_shell_stays_there(
    attempt: Attempt, before: list[str], policy: str, code: int, output: str
) -> None:
    plugin = {
        "plugin": "cmd",
        "failurePolicy": policy,
        "parameters": {"preCommands": before, "postCommands": ['[ "$PWD" != / ] && echo "post$OWN"', "exit 0"]},
    }
    after = {"plugin": "cmd", "parameters": {"preCommands": ['[ -z "${LEAK-}" ]']}}
    spec = JobSpec(
        "job", (TaskRole("worker", "image", Resources(1, 1, 0), ("main",)),), extras={PLUGIN_PREFIX: [plugin, after]}
    )
    own = '[ "$PWD" != / ] && [ -z "${LEAK-}" ] && [ "$(umask)" != 0077 ] && echo main\nexport OWN=leak\ncd /'
    assert (attempt.run(with_plugins(spec, WORKER, own, same)), attempt.printed()) == (code, output)


def test_a_failing_postcommand_fails_the_task_unless_it_is_ignored(attempt: Attempt) -> None:
    def script(policy: str) -> str:
        plugin = {"plugin": "cmd", "failurePolicy": policy, "parameters": {"postCommands": ["exit 4"]}}
        role = TaskRole("worker", "image", Resources(1, 1, 0), ("main",))
        return with_plugins(JobSpec("job", (role,), extras={PLUGIN_PREFIX: [plugin]}), WORKER, "echo main", same)

    assert attempt.run(script("fail")) == 4
    ignoring = Attempt(attempt.directory / "ignoring", attempt.shell)
    ignoring.directory.mkdir()
    assert ignoring.run(script("ignore")) == 0


def test_postcommands_run_after_a_program_that_sigterm_ended_has_saved_its_work(attempt: Attempt) -> None:
    plugin = {"plugin": "cmd", "parameters": {"postCommands": ["echo post"]}}
    spec = JobSpec(
        "job", (TaskRole("worker", "image", Resources(1, 1, 0), ("main",)),), extras={PLUGIN_PREFIX: [plugin]}
    )
    program = "trap 'sleep 0.3; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.02; done"
    attempt.write(with_plugins(spec, WORKER, f'sh -c "{program}"', same))
    process = attempt.start()
    until(lambda: "ready" in attempt.printed())
    process.send_signal(signal.SIGTERM)
    process.wait(PATIENCE_S)
    assert (attempt.code(), attempt.printed()) == (143, "ready\nsaved\npost\n")


def test_a_failing_postcommand_does_not_replace_the_tasks_own_exit_code(attempt: Attempt) -> None:
    plugins = [{"plugin": "cmd", "parameters": {"postCommands": [f"exit {code}"]}} for code in (4, 5)]
    role = TaskRole("worker", "image", Resources(1, 1, 0), ("main",))
    spec = JobSpec("job", (role,), extras={PLUGIN_PREFIX: plugins})
    assert attempt.run(with_plugins(spec, WORKER, "exit 3", same)) == 3
    good = Attempt(attempt.directory / "good", attempt.shell)
    good.directory.mkdir()
    # They run in the opposite order, and the first that failed counts.
    assert good.run(with_plugins(spec, WORKER, "true", same)) == 5


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
