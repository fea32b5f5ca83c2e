"""The configuration file of `pai up`: what is read, what goes before it, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from openpai.app import main
from openpai.app.config_file import described, example, options_of, variable_of
from openpai.app.settings import Settings
from openpai.protocol.errors import Refused


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings of servers that would have been started."""
    found: list[Settings] = []
    monkeypatch.setattr("openpai.app.serve.serve", lambda settings, *_: found.append(settings))
    for option in options_of(_up()).values():
        monkeypatch.delenv(variable_of(option), raising=False)
    monkeypatch.delenv("PAI_CONFIG", raising=False)
    return found


def _up() -> Any:
    return typer.main.get_command(main.app).get_command(None, "up")  # type: ignore[attr-defined]


def _run(*arguments: str) -> None:
    main.app(["up", *arguments], standalone_mode=False)


def _file(tmp_path: Path, text: str) -> str:
    file = tmp_path / "pai.yaml"
    file.write_text(text)
    return str(file)


def test_options_go_before_the_environment_and_that_before_the_file(
    started: list[Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = _file(tmp_path, "port: 8001\nnodes: 3\ngpus-per-node: 2\nbackend: simulated\nallow-remote: true\n")
    monkeypatch.setenv("PAI_NODES", "4")
    monkeypatch.setenv("PAI_PORT", "8002")
    monkeypatch.setenv("PAI_CONFIG", file)
    _run("--port", "8003")
    [settings] = started
    assert (settings.port, settings.nodes, settings.gpus_per_node) == (8003, 4, 2)
    assert (settings.backend, settings.allow_remote) == ("simulated", True)


def test_paths_are_relative_to_the_file(started: list[Settings], tmp_path: Path) -> None:
    _run("--config", _file(tmp_path, "data-dir: data\nidentity: ./identity.yaml\ncluster: /etc/cluster.yaml\n"))
    [settings] = started
    assert settings.data_dir == tmp_path / "data"
    assert settings.identity == tmp_path / "identity.yaml"
    assert settings.cluster == Path("/etc/cluster.yaml")


def test_an_empty_file_and_empty_values_change_nothing(started: list[Settings], tmp_path: Path) -> None:
    _run("--config", _file(tmp_path, "# nothing\n"))
    _run("--config", _file(tmp_path, "nodes:\nport: ~\n"))
    assert started[0] == started[1]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("port: 1\nprot: 9\n", 2, "there is no setting 'prot'"),
        ("port: 80a\n", 1, "port"),
        ("\nbackend: podman\n", 2, "podman"),
        ("allow-remote: perhaps\n", 1, "allow-remote"),
        ("port: 1\nhost: h\nport: 2\n", 3, "twice"),
        ("port: [1, 2]\n", 1, "one value"),
        ("config: other.yaml\n", 1, "there is no setting 'config'"),
        ("port: 1\n  nodes: [\n", 2, "not YAML"),
    ],
)
def test_a_fault_is_named_with_its_line(
    started: list[Settings], tmp_path: Path, text: str, line: int, words: str
) -> None:
    with pytest.raises(Refused) as refusal:
        _run("--config", _file(tmp_path, text))
    assert f"line {line}" in refusal.value.message
    assert words in refusal.value.message
    assert not started


def test_what_is_no_configuration_file_is_refused(started: list[Settings], tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as opened:
        opened.truncate(3 << 30)
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "none", tmp_path, large, Path("/dev/zero"), binary, Path(_file(tmp_path, "just words"))):
        with pytest.raises(Refused):
            _run("--config", str(path))
    assert not started


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("database-url: postgresql://pai:hush@db/pai", "passfile=FILE"),
        ("database-url: postgresql://pai@db/pai?password=hush", "PAI_DATABASE_URL"),
        ("metrics-url: https://pai:hush@metrics/", "PAI_METRICS_URL"),
    ],
)
def test_a_secret_is_referred_to_and_not_written(
    started: list[Settings], tmp_path: Path, line: str, advice: str
) -> None:
    with pytest.raises(Refused) as refusal:
        _run("--config", _file(tmp_path, f"port: 1\n{line}\n"))
    assert "line 2" in refusal.value.message
    assert advice in refusal.value.advice
    assert "hush" not in refusal.value.message + refusal.value.advice


def test_a_file_of_passwords_is_the_servers_own(started: list[Settings], tmp_path: Path) -> None:
    passwords = tmp_path / "passwords"
    url = f"postgresql://pai@db/pai?passfile={passwords}"
    file = _file(tmp_path, f"database-url: {url}\n")
    with pytest.raises(Refused, match="cannot be read"):
        _run("--config", file)
    passwords.write_text("db:5432:pai:pai:hush\n")
    passwords.chmod(0o640)
    with pytest.raises(Refused, match="other users"):
        _run("--config", file)
    passwords.chmod(0o600)
    _run("--config", file)
    assert [one.database_url for one in started] == [url]


@pytest.mark.slow
def test_the_example_explains_every_setting_and_means_the_defaults(started: list[Settings], tmp_path: Path) -> None:
    text = example(_up())
    commented = [line.removeprefix("# ") for line in text.splitlines()]
    settings = [line for line in commented if line.partition(":")[0] in options_of(_up())]
    assert [line.partition(":")[0] for line in settings] == list(options_of(_up()))
    assert all(option.help for option in options_of(_up()).values())
    assert yaml.safe_load(text) is None
    _run("--config", _file(tmp_path, "\n".join(settings)))
    _run()
    assert started[0] == started[1]


def test_programs_read_every_setting_with_its_default(started: list[Settings]) -> None:
    found = {one["name"]: one for one in described(_up())}
    assert list(found) == list(options_of(_up()))
    assert found["backend"]["choices"] == ["process", "docker", "kubernetes", "simulated"]
    _run()
    assert found["port"]["default"] == started[0].port


def test_every_field_of_the_settings_has_an_option() -> None:
    assert set(Settings.__dataclass_fields__) == {option.name for option in options_of(_up()).values()}
