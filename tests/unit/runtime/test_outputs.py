"""Which files are meant by paths and patterns: exactly by us, and no fewer by `find` in a container."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from openpai.protocol.errors import InvalidParameters, InvalidProtocol
from openpai.protocol.outputs import output_fault
from openpai.protocol.reading import read_job
from openpai.runtime.outputs import COLLECT, Wanted, find_words

FILES = ("model/a", "model/deep/b.json", "logs/x.json", "logs/1/2/y.json", "top.json", "a[1]b", "odd name", "models")
CASES = {
    ("model",): {"model/a", "model/deep/b.json"},
    ("./model/",): {"model/a", "model/deep/b.json"},
    ("*.json",): {"top.json"},
    ("**/*.json",): {"model/deep/b.json", "logs/x.json", "logs/1/2/y.json", "top.json"},
    ("logs/**",): {"logs/x.json", "logs/1/2/y.json"},
    ("logs/*",): {"logs/x.json", "logs/1/2/y.json"},
    ("model?",): {"models"},
    ("a[1]b", "odd name"): {"a[1]b", "odd name"},
    ("none",): set(),
    (): set(FILES),
}


@pytest.mark.parametrize("patterns", CASES)
def test_a_pattern_means_what_the_guide_says(patterns: tuple[str, ...]) -> None:
    wanted = Wanted(patterns)
    assert {name for name in FILES if wanted.has(name)} == CASES[patterns]
    for name in CASES[patterns]:
        for parent in list(Path(name).parents)[:-1]:
            assert wanted.may_hold(str(parent))


@pytest.mark.parametrize("patterns", CASES)
def test_find_leaves_out_no_file_that_is_meant(patterns: tuple[str, ...], tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    words = f"find . -type f {find_words(patterns)} -print"
    found = subprocess.run(["sh", "-c", words], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert {f"./{name}" for name in CASES[patterns]} <= set(found.splitlines())


def test_a_pattern_of_an_enemy_costs_no_time_and_too_many_stars_are_refused_in_words() -> None:
    assert not Wanted(["*a" * 64]).has("a" * 200 + "b")
    with pytest.raises(InvalidParameters, match="more than 64 stars"):
        Wanted(["*a" * 65])
    assert Wanted(["caf*"]).has("caf\udce9")


@pytest.mark.parametrize("entry", ["/etc", "../up", "a/../../b", "x\ny", ".", "/", "./."])
def test_an_output_outside_of_the_working_directory_is_a_fault_of_the_file(entry: str) -> None:
    assert output_fault(entry)
    job = {"protocolVersion": 2, "name": "j", "type": "job", "extras": {"outputs": [entry]}}
    with pytest.raises(InvalidProtocol) as found:
        read_job(json.dumps(job))
    assert any(fault.path == "extras.outputs[0]" for fault in found.value.faults)


@pytest.mark.parametrize("tools", ["own", "busybox"])
def test_what_a_container_hands_over(tools: str, tmp_path: Path) -> None:
    busybox = shutil.which("busybox")
    if tools == "busybox" and busybox is None:
        pytest.skip("busybox is not installed")
    work, state, programs = tmp_path / "work", tmp_path / "state", tmp_path / "bin"
    for directory in (work / "out" / "deep", state, programs):
        directory.mkdir(parents=True)
    for name, content in {
        "out/a": "a", "out/deep/-rf": "dash", "out/big": "x" * 101, "out/a\\b": "q", "out/n\nl": "q", "other": "no",
    }.items():  # fmt: skip
        (work / name).write_text(content)
    (work / "out" / "link").symlink_to("/etc/passwd")
    (state / "left").touch()
    shell = ["sh"]
    if busybox is not None and tools == "busybox":
        for name in ("find", "tar", "sh", "sleep"):
            (programs / name).symlink_to(busybox)
        shell = [str(programs / "sh")]
    env = {"PATH": f"{programs}:/usr/bin:/bin", "PAI_OUTPUTS": find_words(["out"])}
    done = subprocess.run(
        [*shell, "-c", COLLECT, "pai", str(state), str(work), "100", "0"], env=env, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        assert sorted(member.name for member in archive) == ["./out/a", "./out/a\\b", "./out/deep/-rf", "./out/n\nl"]
    assert done.stderr.decode().splitlines() == ["./out/big"]
    assert (state / "taking").exists()


def test_nothing_is_handed_over_before_the_task_has_ended(tmp_path: Path) -> None:
    done = subprocess.run(["sh", "-c", COLLECT, "pai", str(tmp_path), str(tmp_path), "100", "0"], check=False)
    assert done.returncode == 3
