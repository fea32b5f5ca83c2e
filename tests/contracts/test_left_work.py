"""What every backend that runs programs promises about the files that a task leaves in its working directory."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from openpai.ports.backend import Backend, KillTask
from tests.contracts.harness import Harness
from tests.contracts.seen import Watch, a_key, a_launch, forget

LEAVES = 'cd "$PAI_WORK_DIR"\nmkdir -p model/part\necho weights >model/part/last\necho "a b" >"odd name"\n'


@pytest_asyncio.fixture
async def keeping(harness: Harness) -> AsyncIterator[Harness]:
    if not harness.runs_shell:
        pytest.skip(f"{type(harness).__name__} runs no shell")
    if os.geteuid() != 0:
        pytest.skip("only a server that is root keeps what containers leave")
    harness.keeps_work = True
    yield harness


async def files_after(harness: Harness, backend: Backend) -> dict[str, str]:
    """Return the kept files of the task, once it is forgotten."""
    await forget(backend, a_key())
    # Closing waits for what is being forgotten.
    await harness.stop()
    top = harness.kept / a_key().path()
    return {str(path.relative_to(top)): path.read_text() for path in top.rglob("*") if path.is_file()}


def printed(harness: Harness) -> str:
    return (harness.logs / a_key().path() / "runtime.log").read_text()


async def test_what_a_failed_task_left_is_kept_and_its_log_says_so(keeping: Harness) -> None:
    backend = await keeping.start()
    await backend.apply([a_launch(keeping, a_key(), f"{LEAVES}exit 3")])
    (report,) = await Watch(backend).until_over(a_key())
    assert report.code == 3
    assert await files_after(keeping, backend) == {"model/part/last": "weights\n", "odd name": "a b\n"}
    assert "pai job fetch" in printed(keeping)


async def test_what_a_stopped_task_left_is_kept(keeping: Harness) -> None:
    backend = await keeping.start()
    commands = f"{LEAVES}trap 'echo saved >saved; exit 1' TERM\necho ready\nwhile :; do sleep 0.05; done"
    await backend.apply([a_launch(keeping, a_key(), commands)])
    watch = Watch(backend)
    await watch.until_running(a_key())
    await keeping.until_printed(a_key(), "ready")
    await backend.apply([KillTask(a_key(), 60.0)])
    await watch.until_over(a_key())
    found = await files_after(keeping, backend)
    assert found == {"model/part/last": "weights\n", "odd name": "a b\n", "saved": "saved\n"}


async def test_links_and_pipes_are_never_followed(keeping: Harness) -> None:
    backend = await keeping.start()
    odd = 'cd "$PAI_WORK_DIR"\nln -s /etc/passwd link 2>/dev/null || :\nln -s / root 2>/dev/null || :\necho x >file'
    await backend.apply([a_launch(keeping, a_key(), odd)])
    await Watch(backend).until_over(a_key())
    await forget(backend, a_key())
    await keeping.stop()
    from openpai.logs.kept_work import ALL, _files

    top = keeping.kept / a_key().path()
    assert [found.path for found in _files(str(top), ALL)] == ["file"]


async def test_a_task_that_leaves_nothing_ends_without_a_word_about_files(keeping: Harness) -> None:
    backend = await keeping.start()
    await backend.apply([a_launch(keeping, a_key(), "echo done")])
    (report,) = await Watch(backend).until_over(a_key())
    assert report.code == 0
    assert await files_after(keeping, backend) == {}
    assert "files" not in printed(keeping)


async def test_outputs_are_kept_of_the_directory_where_commands_start(keeping: Harness) -> None:
    """Which in a container is the one of its image."""
    backend = await keeping.start()
    commands = 'mkdir -p model\necho weights >model/last\necho "a b" >"odd name"\necho no >other\nexit 3'
    await backend.apply([a_launch(keeping, a_key(), commands, outputs=("model", "odd*"))])
    (report,) = await Watch(backend).until_over(a_key())
    assert report.code == 3
    found = await files_after(keeping, backend)
    assert {name: text for name, text in found.items() if name != "other"} == {
        "model/last": "weights\n",
        "odd name": "a b\n",
    }


async def test_what_was_there_before_the_task_is_no_output(keeping: Harness) -> None:
    backend = await keeping.start()
    await backend.apply([a_launch(keeping, a_key(), "echo new >new", outputs=("**",))])
    await Watch(backend).until_over(a_key())
    assert await files_after(keeping, backend) == {"new": "new\n"}


async def test_of_too_much_a_part_is_kept_and_the_log_names_what_is_lost(keeping: Harness) -> None:
    if type(keeping).__name__ != "KubernetesNodeHarness":
        pytest.skip("only on Kubernetes files are fetched from elsewhere")
    backend = await keeping.start()
    commands = (
        'cd "$PAI_WORK_DIR"\nmkdir out\necho kept >out/small\necho no >other\n'
        "i=0\nwhile [ $i -lt 20 ]; do cat /bin/tar; i=$((i + 1)); done >out/big"
    )
    await backend.apply([a_launch(keeping, a_key(), commands, outputs=("out",))])
    await Watch(backend).until_over(a_key())
    assert await files_after(keeping, backend) == {"out/small": "kept\n"}
    assert "larger than 1 MiB: out/big" in printed(keeping)
