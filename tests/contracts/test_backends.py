"""What every backend promises; each backend runs these tests."""

from __future__ import annotations

import asyncio
import socket

import pytest

from openpai.lifecycle.model import ExitReason
from openpai.ports.backend import KillTask
from tests.contracts.harness import Harness, needs_shell
from tests.contracts.seen import PATIENCE_S, Watch, a_key, a_launch, forget, observed, ran
from tests.ports import free_port


@pytest.mark.parametrize("code", [0, 3, 255])
async def test_the_real_exit_code_is_reported(harness: Harness, code: int) -> None:
    report = await ran(harness, harness.programs.exits(code))
    assert (report.code, report.reason) == (code, ExitReason.EXITED)
    assert report.started_at_ms is not None
    assert report.ended_at_ms is not None
    assert report.started_at_ms - 1000 <= report.ended_at_ms


async def test_nodes_say_what_there_is(harness: Harness) -> None:
    backend = await harness.start()
    (node,) = [node for node in await backend.nodes() if node.name == harness.node]
    assert node.is_healthy
    assert node.gpus >= 2
    assert node.cpus >= 1
    assert node.memory_mb >= 64
    socket.inet_aton(node.address)


async def test_a_running_attempt_is_news_and_observed(harness: Harness) -> None:
    backend = await harness.start()
    await backend.apply([a_launch(harness, a_key(), harness.programs.waits(), grant=7)])
    watch = Watch(backend)
    await watch.until_running(a_key())
    seen = await observed(backend, a_key())
    assert seen is not None
    assert (seen.grant, seen.exit) == (7, None)
    assert watch.seen[a_key()].grant == 7


async def test_an_exit_is_observed_until_it_is_forgotten(harness: Harness) -> None:
    backend = await harness.start()
    await ran(harness, harness.programs.exits(4))
    seen = await observed(backend, a_key())
    assert seen is not None
    assert seen.exit is not None
    assert seen.exit.code == 4
    await forget(backend, a_key())
    await forget(backend, a_key())
    assert await observed(backend, a_key()) is None


async def test_launching_twice_runs_once(harness: Harness) -> None:
    backend = await harness.start()
    says = "echo ran\n" if harness.runs_shell else ""
    launch = a_launch(harness, a_key(), f"{says}{harness.programs.exits(0)}")
    await backend.apply([launch, launch])
    await Watch(backend).until_over(a_key())
    await backend.apply([launch])
    (report,) = await Watch(backend).until_over(a_key())
    assert report.code == 0
    assert len([seen for seen in await backend.observe() if seen.key == a_key()]) == 1
    if harness.runs_shell:
        assert harness.output(a_key()).split() == ["ran"]


async def test_launching_again_after_a_restart_runs_once(harness: Harness) -> None:
    backend = await harness.start()
    launch = a_launch(harness, a_key(), harness.programs.runs_until_resumed(5))
    await backend.apply([launch])
    await Watch(backend).until_running(a_key())
    await harness.until_begun(a_key())
    await harness.crash()
    backend = await harness.start()
    await backend.apply([launch])
    await harness.resume(a_key())
    (report,) = await Watch(backend).until_over(a_key())
    assert (report.code, report.reason) == (5, ExitReason.EXITED)
    await backend.apply([launch])
    (again,) = await Watch(backend).until_over(a_key())
    assert (again.code, again.reason) == (5, ExitReason.EXITED)


async def test_a_refused_launch_has_ended_and_never_begun(harness: Harness) -> None:
    report = await ran(harness, harness.programs.exits(0), node="no such node")
    assert (report.code, report.reason) == (1, ExitReason.LAUNCH_REFUSED)
    assert (report.started_at_ms, report.ended_at_ms is None) == (None, False)


async def test_a_killed_task_may_save_its_work_and_exit_as_it_likes(harness: Harness) -> None:
    backend = await harness.start()
    await backend.apply([a_launch(harness, a_key(), harness.programs.saves_on_term(6))])
    watch = Watch(backend)
    await watch.until_running(a_key())
    await harness.until_printed(a_key(), "ready")
    assert harness.processes(a_key()) > 0
    await backend.apply([KillTask(a_key(), 20.0), KillTask(a_key(), 20.0)])
    (report,) = await watch.until_over(a_key())
    assert (report.code, report.reason) == (6, ExitReason.EXITED)
    assert harness.processes(a_key()) == 0
    if harness.runs_shell:
        assert "saved" in harness.output(a_key())


async def test_a_task_that_ignores_sigterm_is_killed_after_its_grace_period(harness: Harness) -> None:
    backend = await harness.start()
    await backend.apply([a_launch(harness, a_key(), harness.programs.ignores_term())])
    watch = Watch(backend)
    await watch.until_running(a_key())
    await harness.until_printed(a_key(), "ready")
    await backend.apply([KillTask(a_key(), 0.5)])
    (report,) = await watch.until_over(a_key())
    assert (report.code, report.reason) == (137, ExitReason.EXITED)
    assert harness.processes(a_key()) == 0


async def test_impatience_shortens_a_grace_period(harness: Harness) -> None:
    backend = await harness.start()
    await backend.apply([a_launch(harness, a_key(), harness.programs.ignores_term())])
    watch = Watch(backend)
    await watch.until_running(a_key())
    await harness.until_printed(a_key(), "ready")
    await backend.apply([KillTask(a_key(), 300.0)])
    await backend.apply([KillTask(a_key(), 0.0)])
    (report,) = await watch.until_over(a_key())
    assert report.code == 137
    assert harness.processes(a_key()) == 0


async def test_killing_what_never_was_reports_absent_and_keeps_it_from_beginning(harness: Harness) -> None:
    backend = await harness.start()
    await backend.apply([KillTask(a_key(), 5.0)])
    (report,) = await Watch(backend).until_over(a_key())
    # As of any task that SIGTERM ended; 0 would read as success where only the code is shown.
    assert (report.code, report.reason) == (143, ExitReason.ABSENT)
    assert (report.started_at_ms, report.ended_at_ms is None) == (None, False)
    report = await ran(harness, harness.programs.waits())
    assert (report.code, report.reason) == (143, ExitReason.ABSENT)
    assert harness.processes(a_key()) == 0
    await forget(backend, a_key())
    assert await observed(backend, a_key()) is None


async def test_killing_right_after_launching_leaves_nothing(harness: Harness) -> None:
    backend = await harness.start()
    await backend.apply([a_launch(harness, a_key(), harness.programs.waits()), KillTask(a_key(), 5.0)])
    (report,) = await Watch(backend).until_over(a_key())
    assert report.reason is ExitReason.EXITED
    assert report.code in (143, 137)
    assert harness.processes(a_key()) == 0


async def test_killing_what_is_over_reports_its_own_exit(harness: Harness) -> None:
    backend = await harness.start()
    await ran(harness, harness.programs.exits(4))
    await backend.apply([KillTask(a_key(), 5.0)])
    (report,) = await Watch(backend).until_over(a_key())
    assert (report.code, report.reason) == (4, ExitReason.EXITED)


@pytest.mark.parametrize("ending", ["stop", "crash"])
async def test_an_exit_while_the_server_was_away_is_reported_with_its_real_code(harness: Harness, ending: str) -> None:
    backend = await harness.start()
    await backend.apply([a_launch(harness, a_key(), harness.programs.runs_until_resumed(9), grant=3)])
    await Watch(backend).until_running(a_key())
    await harness.until_begun(a_key())
    await (harness.stop() if ending == "stop" else harness.crash())
    await harness.resume(a_key())
    await harness.until_gone(a_key())
    backend = await harness.start()
    (report,) = await Watch(backend).until_over(a_key())
    assert (report.code, report.reason) == (9, ExitReason.EXITED)
    seen = await observed(backend, a_key())
    assert seen is not None
    assert seen.grant == 3
    await forget(backend, a_key())
    await harness.stop()
    backend = await harness.start()
    assert await observed(backend, a_key()) is None


async def test_a_task_outlives_the_server_and_is_taken_up_again(harness: Harness) -> None:
    backend = await harness.start()
    await backend.apply([a_launch(harness, a_key(), harness.programs.runs_until_resumed(2), grant=3)])
    watch = Watch(backend)
    await watch.until_running(a_key())
    await harness.until_begun(a_key())
    started_at_ms = watch.seen[a_key()].started_at_ms
    await harness.stop()
    backend = await harness.start()
    seen = await observed(backend, a_key())
    assert seen is not None
    assert (seen.exit, seen.grant, seen.started_at_ms) == (None, 3, started_at_ms)
    await harness.resume(a_key())
    (report,) = await Watch(backend).until_over(a_key())
    assert (report.code, report.reason) == (2, ExitReason.EXITED)


async def test_a_task_that_was_taken_up_can_be_killed(harness: Harness) -> None:
    backend = await harness.start()
    await backend.apply([a_launch(harness, a_key(), harness.programs.saves_on_term(6))])
    await Watch(backend).until_running(a_key())
    await harness.until_printed(a_key(), "ready")
    await harness.crash()
    backend = await harness.start()
    await backend.apply([KillTask(a_key(), 20.0)])
    (report,) = await Watch(backend).until_over(a_key())
    assert (report.code, report.reason) == (6, ExitReason.EXITED)
    assert harness.processes(a_key()) == 0


async def test_forgetting_what_still_runs_ends_it(harness: Harness) -> None:
    backend = await harness.start()
    await backend.apply([a_launch(harness, a_key(), harness.programs.waits())])
    await Watch(backend).until_running(a_key())
    await forget(backend, a_key())
    await harness.until_gone(a_key())
    async with asyncio.timeout(PATIENCE_S):
        while await observed(backend, a_key()):  # noqa: ASYNC110  # what is forgotten makes no news
            await asyncio.sleep(0.01)


async def test_many_tasks_at_once_all_end_with_their_own_codes(harness: Harness) -> None:
    if harness.cpus < harness.many:
        pytest.skip(f"the node of {type(harness).__name__} has {harness.cpus} processors")
    backend = await harness.start()
    keys = [a_key(index) for index in range(harness.many)]
    await backend.apply([a_launch(harness, key, harness.programs.exits(key.index)) for key in keys])
    reports = await Watch(backend).until_over(*keys)
    assert [report.code for report in reports] == list(range(harness.many))
    await forget(backend, *keys)
    assert await backend.observe() == ()


async def test_apply_returns_before_a_grace_period_is_over(harness: Harness) -> None:
    backend = await harness.start()
    await backend.apply([a_launch(harness, a_key(), harness.programs.ignores_term())])
    watch = Watch(backend)
    await watch.until_running(a_key())
    await harness.until_printed(a_key(), "ready")
    async with asyncio.timeout(PATIENCE_S):
        await backend.apply([KillTask(a_key(), 3 * PATIENCE_S)])
    seen = await observed(backend, a_key())
    assert seen is not None
    assert seen.exit is None
    await backend.apply([KillTask(a_key(), 0.0)])
    await watch.until_over(a_key())


async def test_logs_stay_when_the_attempt_is_forgotten(harness: Harness) -> None:
    needs_shell(harness)
    backend = await harness.start()
    await ran(harness, "echo to be kept\necho other >&2")
    await forget(backend, a_key())
    # Two streams that the system merges may come in either order.
    assert sorted(harness.output(a_key()).split("\n")) == [
        "",
        *(["other"] if harness.merges_streams else []),
        "to be kept",
    ]


async def test_processes_left_in_the_background_neither_prolong_nor_outlive_the_task(harness: Harness) -> None:
    needs_shell(harness)
    report = await ran(harness, "sleep 1000 &\n(sleep 1000; echo never) &\necho done")
    assert report.code == 0
    await harness.until_gone(a_key())


async def test_environment_reaches_the_task(harness: Harness) -> None:
    needs_shell(harness)
    backend = await harness.start()
    env = {"PAI_TASK_INDEX": "3", "PAI_Worker_A_0_http_PORT": "20001", "PAI_ODD": 'a\'b "c" $HOME `x` \\ é\nline'}
    await backend.apply(
        [a_launch(harness, a_key(), 'printf "%s|" "$PAI_TASK_INDEX" "$PAI_Worker_A_0_http_PORT" "$PAI_ODD"', env=env)]
    )
    await Watch(backend).until_over(a_key())
    assert harness.output(a_key()) == '3|20001|a\'b "c" $HOME `x` \\ é\nline|'


async def test_the_complete_list_of_hosts_is_a_file(harness: Harness) -> None:
    needs_shell(harness)
    hosts = "Worker_A 0 127.0.0.1 ssh=20000 http=20001\n"
    command = 'while read -r line; do echo "$line"; done <"$PAI_HOSTS_FILE"'
    await ran(harness, command, hosts=hosts)
    assert harness.output(a_key()) == hosts


async def test_a_task_starts_in_an_empty_directory_it_may_write_to(harness: Harness) -> None:
    needs_shell(harness)
    commands = 'echo hello >file\nread -r word <file\necho "$word"\n[ "$PWD" = "$PAI_WORK_DIR" ]'
    report = await ran(harness, commands)
    assert (report.code, harness.output(a_key())) == (0, "hello\n")


async def test_the_first_failing_command_ends_the_task_and_unset_variables_do_not(harness: Harness) -> None:
    needs_shell(harness)
    report = await ran(harness, 'echo "[$SURELY_UNSET]"\nfalse\necho never')
    assert (report.code, harness.output(a_key())) == (1, "[]\n")


async def test_a_command_that_does_not_exist_ends_with_127(harness: Harness) -> None:
    needs_shell(harness)
    report = await ran(harness, "surely-no-such-command")
    assert (report.code, report.reason) == (127, ExitReason.EXITED)


async def test_a_port_that_a_stranger_uses_is_reported(harness: Harness) -> None:
    needs_shell(harness)
    with socket.socket() as stranger:
        stranger.bind(("0.0.0.0", 0))
        stranger.listen()
        port = stranger.getsockname()[1]
        report = await ran(harness, harness.programs.exits(0), ports=(port,))
    assert report.reason is ExitReason.PORT_TAKEN
    assert str(port) in report.message


async def test_an_allocated_port_can_be_served_by_the_task(harness: Harness) -> None:
    needs_shell(harness)
    backend = await harness.start()
    port = free_port()
    launches = [
        a_launch(harness, a_key(attempt=attempt), harness.programs.exits(attempt), ports=(port,)) for attempt in (0, 1)
    ]
    for launch in launches:
        await backend.apply([launch])
        (report,) = await Watch(backend).until_over(launch.key)
        assert (report.code, report.reason) == (launch.key.task_attempt, ExitReason.EXITED)
