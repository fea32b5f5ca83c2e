"""`pai import`: takes over what another platform has."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from openpai.cli import output, prompts, session
from openpai.cli.exits import Exit
from openpai.cli.formatting import plural
from openpai.cli.lazy import group
from openpai.cli.options import argument, option
from openpai.protocol.errors import InvalidParameters, PaiError

if TYPE_CHECKING:
    from openpai.cli.openpai_plan import Step
    from openpai.cli.openpai_source import Source
    from openpai.client import Client

COMMANDS: Final = {
    "openpai": ("openpai.cli.openpai_import:openpai", "Import users, groups, storages and cells of an OpenPAI."),
}
app = group("Take over what another platform has.", COMMANDS)
TOKEN_VARIABLE: Final = "PAI_IMPORT_TOKEN"  # noqa: S105  the name of a variable


def openpai(
    source: Annotated[str, argument("SOURCE", "Address of an OpenPAI, or a directory of files exported from it.")],
    apply: Annotated[bool, option("--apply", "Import; otherwise only show what an import would do.")] = False,
    config: Annotated[
        Path | None, option("--config FILE", "services-configuration.yaml, or HiveD's configuration: REST lacks it.")
    ] = None,
    passwords: Annotated[
        Path | None,
        option("--passwords FILE", "New file for the passwords of new users [default: no user knows them]."),
    ] = None,
    token_stdin: Annotated[bool, option("--token-stdin", "Read OpenPAI's token from standard input.")] = False,
    json: output.Json = False,
) -> int:
    """Import users, groups, storages and the cells of virtual clusters from an OpenPAI.

    Without --apply it changes nothing and shows what it would do. It can be repeated: what is here stays as it is and
    only gets what it lacks. What cannot be imported is listed with the reason. The token of an OpenPAI's administrator
    comes from PAI_IMPORT_TOKEN, a prompt, or standard input.
    """
    from openpai.cli.openpai_plan import Present, plan
    from openpai.cli.openpai_source import read_source

    if passwords is not None and passwords.exists():
        raise InvalidParameters(f"{passwords} exists", "name a file that does not exist; it will hold passwords")
    is_rest = source.startswith(("http://", "https://"))
    found = read_source(source, _token(token_stdin) if is_rest else "")
    if config is not None:
        _add_config(found, config)
    made: dict[str, str] = {}
    with session.connect() as pai:
        steps = plan(found, Present.at(pai), made)
        results = list(_done(pai, steps, made, passwords)) if apply else steps
    if json:
        output.document({"applied": apply, "steps": [_document(step) for step in results]})
    else:
        _report(results, apply, source)
    failed = any(
        step.action == "skip" and planned.action != "skip" for step, planned in zip(results, steps, strict=True)
    )
    return Exit.REFUSED if failed else Exit.OK


def _token(from_stdin: bool) -> str:
    if not from_stdin and (found := os.environ.get(TOKEN_VARIABLE)):
        return found
    return prompts.secret("Token of an administrator of the OpenPAI", from_stdin, option="--token-stdin").strip()


def _add_config(found: Source, config: Path) -> None:
    """Add the cells that a file configures."""
    from openpai.cli.openpai_source import read_file

    read_file(found, config)
    if not found.hived:
        message = f"{config} has no configuration of HiveD"
        raise InvalidParameters(message, "name services-configuration.yaml, or HiveD's own file")


def _done(pai: Client, steps: list[Step], made: dict[str, str], passwords: Path | None) -> Iterator[Step]:
    """Carry out each step and yield it with its result. One that is refused does not keep others from being done."""
    from openpai.cli.openpai_plan import Action

    with _password_file(passwords) as write:
        for step in steps:
            if step.work is None:
                yield step
                continue
            if step.needs_password:
                made[step.name] = secrets.token_urlsafe(12)
            try:
                step.work(pai)
            except PaiError as error:
                yield replace(step, action=Action.SKIP, detail=f"refused: {error.message}")
                continue
            if step.needs_password:
                write(step.name, made[step.name])
            yield step


@contextmanager
def _password_file(path: Path | None) -> Iterator[Any]:
    """Open a new file that only its owner may read; yield what adds a line to it."""
    if path is None:
        yield lambda _name, _password: None
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InvalidParameters(f"{path} cannot be created: {error.strerror}", "name another file") from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write("username,password\n")

        def write(name: str, password: str) -> None:
            file.write(f"{name},{password}\n")
            file.flush()  # otherwise an interruption would lose passwords of users that exist

        yield write


def _document(step: Step) -> dict[str, str]:
    return {"kind": step.kind, "name": step.name, "action": step.action.value, "detail": step.detail}


def _report(steps: list[Step], applied: bool, source: str) -> None:
    rows = [(step.kind, step.name, step.action.value, step.detail) for step in steps]
    output.table(["KIND", "NAME", "ACTION", "DETAIL"], rows, whole=["KIND", "ACTION"])
    counts = Counter(step.action.value for step in steps)
    done = {"add": "added", "change": "changed", "keep": "kept", "skip": "skipped"}
    parts = [f"{counts[action]} {word if applied else action}" for action, word in done.items() if counts[action]]
    output.say(f"{plural(len(steps), 'thing')}: {', '.join(parts) or 'nothing'}.")
    if not applied:
        output.next_step(f"pai import openpai {source} --apply --passwords new-passwords.csv")
    else:
        output.next_step("pai user list", "pai vc list", "pai storage list")
