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
from openpai.protocol.errors import BadConfiguration, Refused


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings of servers that would have been started."""
    found: list[Settings] = []
    monkeypatch.setattr("openpai.app.serve.serve", lambda settings, *_: found.append(settings))
    # A server sets up logging for its whole process, which is that of other tests here.
    monkeypatch.setattr("openpai.app.console.set_up_logging", lambda _: None)
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
        ("port: 1\nprot: 9\n", 2, "prot: there is no such setting; did you mean 'port'?"),
        ("port: 80a\n", 1, "port: must not be '80a' (allowed: a whole number)"),
        ("port: 70000\n", 1, "port: 70000 is not a port number; use 0 (any free one) to 65535"),
        ("app-ports: 12-1\n", 1, "app-ports: 12-1 is not a range of ports; write it like 9300-9399, or none"),
        ("\nbackend: proces\n", 2, "(allowed: process, docker, kubernetes, simulated); did you mean 'process'?"),
        ("allow-remote: perhaps\n", 1, "allow-remote: must not be 'perhaps' (allowed: true or false)"),
        ("traces-ratio: .nan\n", 1, "traces-ratio: must not be '.nan' (allowed: a number)"),
        ("log-retention-days: -1\n", 1, "; use 0, which keeps logs until there are too many, to 36525"),
        ("metrics-url: ''\n", 1, "metrics-url: is empty"),
        ("data-dir: ''\n", 1, "data-dir: is empty"),
        ("app-ports: many\n", 1, "app-ports: many is not a range of ports"),
        ("app-url: https://apps\n", 1, "app-url: https://apps is not the address of all applications"),
        ("task-uids: 1-2\n", 1, "task-uids: 1-2 is no range of user numbers"),
        ("webhook-networks: here\n", 1, "webhook-networks"),
        ("node-selector: here\n", 1, "node-selector: here is not a list of labels"),
        ("kube-gpus: gaudi\n", 1, "kube-gpus: gaudi is neither a resource nor a driver with its class"),
        ("kube-namespace: Jobs_X\n", 1, "kube-namespace: 'Jobs_X' cannot be the name of a namespace"),
        ("kueue-queues: a=x,b=x,a=y\n", 1, "kueue-queues: virtual cluster a has two LocalQueues, x and y"),
        ("port: 1\nhost: h\nport: 2\n", 3, "port: is also set in line 1"),
        ("port: [1, 2]\n", 1, "port: a setting takes one value"),
        ("config: other.yaml\n", 1, "config: there is no such setting"),
        ("port: 1\n  nodes: [\n", 2, "not YAML"),
    ],
)
def test_a_fault_is_named_with_its_line(
    started: list[Settings], tmp_path: Path, text: str, line: int, words: str
) -> None:
    with pytest.raises(Refused) as refusal:
        _run("--config", _file(tmp_path, text))
    [fault] = [one for one in refusal.value.message.splitlines() if f"line {line}:" in one]
    assert words in fault
    assert not started


def test_every_fault_of_a_file_is_named_at_once(started: list[Settings], tmp_path: Path) -> None:
    text = "prot: 1\nbackend: podman\nnodes: 0\nport: 1\nport: 2\nmetrics-url: ftp://here\n"
    with pytest.raises(Refused, match="has 5 faults") as refusal:
        _run("--config", _file(tmp_path, text))
    _, *faults = refusal.value.message.splitlines()
    assert [fault.partition(": ")[0] for fault in faults] == ["line 1", "line 2", "line 3", "line 5", "line 6"]
    with pytest.raises(Refused, match="has 100 faults"):
        _run("--config", _file(tmp_path, "prot: 1\n" * 1000))
    assert not started


def test_what_does_not_go_together_is_named_with_where_each_value_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[Settings]
) -> None:
    file = _file(tmp_path, "host: 127.0.0.1\nssh-port: 9000\nplacement: polite\n")
    monkeypatch.setenv("PAI_PORT", "9000")
    with pytest.raises(Refused, match="2 faults") as refusal:
        _run("--config", file)
    message = refusal.value.message
    assert f"are both 9000 (port: the variable PAI_PORT; ssh-port: line 2 of {file})" in message
    assert f"--backend is process (placement: line 3 of {file})" in message
    with pytest.raises(Refused) as refusal:
        _run("--config", file, "--ssh-port", "70000", "--placement", "direct")
    assert refusal.value.message == "--ssh-port 70000 is not a port number"
    assert not started


def test_what_fails_at_the_start_is_named_with_where_its_value_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[Settings]
) -> None:
    def serve(settings: Settings, *_: Any) -> None:
        raise BadConfiguration(f"{settings.identity} cannot be read", "choose another port with --port 0")

    monkeypatch.setattr("openpai.app.serve.serve", serve)
    monkeypatch.setenv("PAI_PORT", "9000")
    file = _file(tmp_path, "identity: sign-on.yaml\nssh-port: 9001\n")
    with pytest.raises(Refused) as refusal:
        _run("--config", file)
    places = f"(port: the variable PAI_PORT; identity: line 1 of {file})"
    assert refusal.value.message == f"{tmp_path / 'sign-on.yaml'} cannot be read {places}"


@pytest.mark.parametrize(
    "option", ["host", "metrics-url", "remote-write-url", "traces-url", "database-url", "docker-url", "app-url"]
)
def test_an_empty_option_is_refused(started: list[Settings], option: str) -> None:
    with pytest.raises(Refused, match=f"--{option} is empty"):
        _run(f"--{option}", " ")
    assert not started


def test_an_empty_path_is_not_this_directory(started: list[Settings]) -> None:
    with pytest.raises(Exception, match=r"--data-dir is empty"):
        _run("--data-dir", "")
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
    assert advice in refusal.value.message
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
