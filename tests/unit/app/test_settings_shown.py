"""The settings that administrators see: values, where each comes from, and nothing secret."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import typer

from openpai.api.services import ServerSetting
from openpai.app import main
from openpai.app.config_file import options_of, variable_of

Shown = Mapping[str, ServerSetting]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Shown]:
    """What the servers would show that would have been started."""
    found: list[Shown] = []
    keep = lambda _, __, shown: found.append({one.name: one for one in shown})  # noqa: E731
    monkeypatch.setattr("openpai.app.serve.serve", keep)
    # A server sets up logging for its whole process, which is that of other tests here.
    monkeypatch.setattr("openpai.app.console.set_up_logging", lambda _: None)
    up = typer.main.get_command(main.app).get_command(None, "up")  # type: ignore[attr-defined]
    for option in options_of(up).values():
        monkeypatch.delenv(variable_of(option), raising=False)
    return found


def test_each_value_is_shown_with_where_it_comes_from(
    started: list[Shown], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pai.yaml"
    file.write_text("port: 1\nlog-format: json\nhost: ::1\n")
    monkeypatch.setenv("PAI_HOST", "127.0.0.2")
    main.app(["up", "--config", str(file), "--port", "2", "--data-dir", str(tmp_path)], standalone_mode=False)
    (shown,) = started
    found = {name: (shown[name].value, shown[name].source, shown[name].file) for name in ("port", "host", "log-format")}
    assert found == {
        "port": (2, "option", ""),
        "host": ("127.0.0.2", "environment", ""),
        "log-format": ("json", "file", str(file)),
    }
    backend = shown["backend"]
    assert (backend.value, backend.default, backend.source) == ("process", "process", "default")
    assert (backend.choices[0], backend.environment) == ("process", "PAI_BACKEND")
    assert shown["data-dir"].value == str(tmp_path)
    assert all(one.meaning for one in shown.values())


def test_no_part_of_an_address_that_may_be_secret_is_shown(
    started: list[Shown], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAI_DATABASE_URL", "postgresql://pai:hush@db:5432/pai?password=hush&sslkey=hush")
    monkeypatch.setenv("PAI_METRICS_URL", "https://hush@metrics.example.org/api#hush")
    monkeypatch.setenv("PAI_TRACES_URL", "http://127.0.0.1:4318")
    monkeypatch.setenv("PAI_PLUGIN_PAGES", "A=https://a.org/?key=hush, B=http://b.org/b#hush,c")
    main.app(["up"], standalone_mode=False)
    (shown,) = started
    assert "hush" not in repr(shown)
    assert (shown["database-url"].value, shown["database-url"].is_hidden) == ("postgresql://db:5432/pai", True)
    assert (shown["metrics-url"].value, shown["metrics-url"].is_hidden) == ("https://metrics.example.org/api", True)
    assert (shown["traces-url"].value, shown["traces-url"].is_hidden) == ("http://127.0.0.1:4318", False)
