"""`pai alert channels|channel`: the ways by which messages leave the platform."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

from openpai.cli import output, prompts, session
from openpai.cli.formatting import clock_time
from openpai.cli.options import argument, option
from openpai.cli.text_file import read_text
from openpai.protocol.errors import InvalidParameters

FILE_MAX: Final = 16 << 10
NEXT: Final = "pai alert channel mail --kind mail --set host=mail.example.org --set from=pai@example.org"


def channels(json: output.Json = False) -> None:
    """List the channels of messages, without their credentials."""
    with session.connect() as pai:
        found = pai.alert_channels()
    empty = "There are no channels, so no messages leave the platform."
    if output.is_shown(json, [one.document for one in found], found, empty, NEXT):
        return
    rows = [
        (one.name, one.kind, ", ".join(f"{key}={value}" for key, value in one.data.items()),
         "sealed" if one.secrets else "-", one.changed_by, clock_time(one.changed_at_ms))
        for one in found
    ]  # fmt: skip
    output.table(("NAME", "KIND", "DATA", "CREDENTIALS", "CHANGED BY", "CHANGED"), rows, whole=("NAME", "KIND"))
    output.next_step(f"pai alert channel {found[0].name} --test")


def set_(
    name: Annotated[str, argument("NAME", "Name of the channel, which `notify` of rules names.")],
    kind: Annotated[str, option("--kind KIND", "mail, webhook, slack, teams or alertmanager.")] = "",
    file: Annotated[Path | None, option("--file FILE", "Its keys, and its kind if not given, as YAML.")] = None,
    set_each: Annotated[list[str] | None, option("--set KEY=VALUE", "One key, such as host=mail.example.org.")] = None,
    password_stdin: prompts.PasswordStdin = False,
    test: Annotated[bool, option("--test", "Send a test message, after the channel is set if it is.")] = False,
    to: Annotated[str, option("--to ADDRESS", "Where to send a test mail.")] = "",
    remove: Annotated[bool, option("--remove", "Remove the channel.")] = False,
    json: output.Json = False,
) -> None:
    """Set a channel of messages, test it, or remove it.

    Keys of mail are host, port, security (starttls, tls or none), from, to, username and password; the others have url.
    Give what is secret in a file, or the password on standard input.
    """
    if remove and (kind or test):
        raise InvalidParameters("--remove goes with nothing else", "give it alone")
    with session.connect() as pai:
        if remove:
            pai.remove_alert_channel(name)
            output.done(json, {"name": name, "removed": True}, f"Channel {name} is removed.", "pai alert channels")
            return
        result: dict[str, Any] = {"name": name}
        data = _data(file, set_each or [])
        kind = kind or str(data.get("kind", ""))
        if data.pop("kind", kind) != kind:
            raise InvalidParameters("--kind and the channel's own kind differ", "give one of them")
        if kind:
            if password_stdin:
                data["password"] = prompts.secret("Password", True)
            result = dict(pai.set_alert_channel(name, kind, data).document)
        elif data or not test:
            message = "the channel has no kind" if data else "there is nothing to do"
            raise InvalidParameters(message, "give --kind to set the channel, --test, or --remove")
        if test:
            pai.check_alert_channel(name, to or None)
    did = " and ".join([*(["is set"] if kind else []), *(["took a test message"] if test else [])])
    output.done(json, result, f"Channel {name} {did}.", f"pai alert channel {name} --test", "pai alert channels")


def _data(file: Path | None, pairs: list[str]) -> dict[str, Any]:
    import yaml

    found: Any = {}
    if file is not None:
        try:
            found = yaml.safe_load(read_text(file, "a channel", most=FILE_MAX))
        except yaml.YAMLError as error:
            raise InvalidParameters(f"{file} is not YAML: {error}", "correct it; nothing was changed") from None
        if not isinstance(found, dict):
            raise InvalidParameters(f"{file} is no mapping of keys to values", "correct it; nothing was changed")
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign:
            raise InvalidParameters(f"--set {pair[:40]!r} is not KEY=VALUE", "write it as host=mail.example.org")
        found[key] = int(value) if key == "port" and value.isdigit() else value
        if key == "to":
            found[key] = [each.strip() for each in value.split(",")]
    return dict(found)
