"""Checks what a user publishes: texts, places of data, and job files, which must not carry anybody's secrets.

Secrets are found by structure, in the keys of a job file that hold them, and by the forms of well-known keys anywhere
in it. The message names the line and never repeats the secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from openpai.market import items
from openpai.market.items import Content, Kind, Visibility
from openpai.protocol.errors import Fault, InvalidParameters, InvalidProtocol
from openpai.protocol.job import VIRTUAL_CLUSTER_NAME
from openpai.protocol.parsing import Lines, parse
from openpai.protocol.references import MASK, entries, mapping
from openpai.protocol.sweeps import is_sweep
from openpai.protocol.templates import is_reference
from openpai.protocol.wording import harmless, listed

_SCHEMES: Final = ("https", "http", "s3", "gs", "hf", "az", "abfs", "webhdfs", "git+https", "ftp")
_NAME: Final = re.compile(items.ITEM_NAME)
_VC: Final = re.compile(VIRTUAL_CLUSTER_NAME)
_EACH_THEIR_OWN: Final = f"{MASK}, in place of which each user gives their own"
_KEYS: Final = {
    "an access key of AWS": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "a token of GitHub": r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{50,})",
    "a token of GitLab": r"\bglpat-[A-Za-z0-9_-]{20}",
    "a token of Hugging Face": r"\bhf_[A-Za-z0-9]{30,}",
    "a key of an AI service": r"\bsk-(?:[a-z]+-)?[A-Za-z0-9_-]{32,}",
    "a token of Slack": r"\bxox[abprs]-[A-Za-z0-9-]{20,}",
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    "a password in a URL": r"://[^\s/:@<>$]+:[^\s/@<>${}]{3,}@",
}
_PATTERNS: Final = {what: re.compile(pattern) for what, pattern in _KEYS.items()}


def check_name(name: str) -> None:
    """Raise InvalidParameters for a name that an item cannot have."""
    if not _NAME.fullmatch(name):
        advice = "use at most 64 small letters, digits, dots, - and _, with a letter or digit at both ends"
        raise InvalidParameters(f"{name[:80]!r} is not a name for an item", advice)


def check_content(kind: Kind, content: Content) -> None:
    """Raise InvalidParameters for a text that is not fit, InvalidProtocol with the lines of a faulty job file."""
    _check_line("title", content.title, items.TITLE_MAX)
    if not content.title.strip():
        raise InvalidParameters("title: must not be empty", "give the item a title")
    _check_line("summary", content.summary, items.SUMMARY_MAX)
    if harmless(content.description) != content.description.replace("\r", ""):
        raise _unfit("description")
    if len(content.description) > items.DESCRIPTION_MAX:
        raise InvalidParameters(
            f"description: is longer than {items.DESCRIPTION_MAX} characters", "put long texts elsewhere, with a link"
        )
    for name, labels in (("categories", content.categories), ("tags", content.tags)):
        _check_labels(name, labels)
    _check_shares(content)
    _check_place(kind, content)
    if kind is Kind.TEMPLATE and not content.protocol.strip():
        raise InvalidParameters("protocol: a template needs a job file", "write the job file into `protocol`")
    if content.protocol.strip():
        check_protocol(content.protocol)


def check_protocol(text: str) -> None:
    """Raise InvalidProtocol with every fault of a job file to be published; its secrets first."""
    if len(text.encode()) > items.PROTOCOL_BYTES_MAX:
        limit = f"at most {items.PROTOCOL_BYTES_MAX // 1024} KiB"
        raise InvalidProtocol((Fault("", "the file is too large for an item", None, limit),))
    parsed = parse(text)
    found = [*_secrets_in(parsed.documents, parsed.lines), *_keys_in(text)]
    if found:
        error = InvalidProtocol(tuple(sorted(found, key=lambda fault: fault.line or 0)))
        error.message = error.message.replace("the job file has", "this would publish what only you may know:", 1)
        error.advice = "remove the lines named above, or write " + _EACH_THEIR_OWN
        raise error
    # A server that starts decides before it checks its first item.
    from openpai.protocol.reading import read_job
    from openpai.protocol.v1 import is_v1

    first = parsed.documents[0] if parsed.documents else None
    if is_v1(mapping(first)):
        raise InvalidProtocol((Fault("", "the file is of protocol version 1", 1, "protocolVersion: 2"),))
    spec = read_job(text, {"secrets": dict.fromkeys(secret_names(first, parsed.documents[1:]), "x")}).spec
    if is_sweep(spec):
        message = "makes this a sweep, and an item is one job"
        raise InvalidProtocol((Fault("extras.sweep.matrix", message, None, "the job alone"),))


def secret_names(document: Any, more: Iterable[Any] = ()) -> tuple[str, ...]:
    """Return the names of the secrets that whoever runs a job file must give."""
    sections = [mapping(mapping(document).get("secrets")), *map(mapping, more)]
    return tuple(str(name) for section in sections for name, value in section.items() if value in (MASK, "", None))


def _secrets_in(documents: tuple[Any, ...], lines: tuple[Lines, ...]) -> Iterator[Fault]:
    for number, (document, at) in enumerate(zip(documents, lines, strict=True)):
        section = mapping(document) if number else mapping(mapping(document).get("secrets"))
        for name, value in section.items():
            if value not in (MASK, "", None):
                line = at.line_of((name,) if number else ("secrets", name))
                yield Fault(f"secrets.{name}", "holds a secret, which everybody could read", line, _EACH_THEIR_OWN)
        if number:
            continue
        for index, one in enumerate(entries(mapping(document).get("prerequisites"))):
            password = mapping(mapping(one).get("auth")).get("password")
            if password and password != MASK and not (isinstance(password, str) and is_reference(password)):
                path = ("prerequisites", index, "auth", "password")
                yield Fault(
                    f"prerequisites[{index}].auth.password", "holds a password, which everybody could read",
                    at.line_of(path), "a reference such as <% $secrets.password %>",
                )  # fmt: skip
        if mapping(mapping(document).get("extras")).get("code"):
            message = "names code that you sent with a job, which other users may not read"
            yield Fault("extras.code", message, at.line_of(("extras", "code")), "code that tasks can fetch")


def _keys_in(text: str) -> Iterator[Fault]:
    for number, line in enumerate(text.splitlines(), 1):
        for what, pattern in _PATTERNS.items():
            if pattern.search(line):
                yield Fault("", f"holds {what}, which everybody could read", number, "a reference to a secret")
                break


def _check_line(name: str, text: str, most: int) -> None:
    if len(text) > most:
        raise InvalidParameters(f"{name}: is longer than {most} characters", "write it in fewer words")
    if harmless(text) != text or "\n" in text or "\t" in text:
        raise _unfit(name)


def _unfit(name: str) -> InvalidParameters:
    message = f"{name}: holds control characters, or marks that change the direction of text"
    return InvalidParameters(message, "remove them")


def _check_labels(name: str, labels: tuple[str, ...]) -> None:
    if len(labels) > items.LABELS_MAX or len(set(labels)) != len(labels):
        raise InvalidParameters(f"{name}: are more than {items.LABELS_MAX}, or repeated", "name each once")
    for label in labels:
        _check_line(name, label, items.LABEL_MAX)
        if not label.strip() or label != label.strip() or "," in label:
            raise InvalidParameters(f"{name}: {label[:40]!r} is no label", "use words without commas")


def _check_shares(content: Content) -> None:
    shares = (*content.groups, *content.virtual_clusters)
    if content.visibility is Visibility.SHARED and not shares:
        raise InvalidParameters(
            "it names no one to share it with", "name groups or virtual clusters, or make it private"
        )
    if len(shares) > items.SHARES_MAX:
        raise InvalidParameters(f"it is shared with more than {items.SHARES_MAX} groups", "make it public")
    if any(len(group) > 255 or harmless(group) != group for group in content.groups):
        raise InvalidParameters("groups: hold what is no name of a group", "`pai group list` shows the groups")
    for name in content.virtual_clusters:
        if not _VC.fullmatch(name):
            raise InvalidParameters(f"{name[:40]!r} is no virtual cluster", "`pai vc list` shows them")


def _check_place(kind: Kind, content: Content) -> None:
    if kind is not Kind.TEMPLATE and not content.storage and not content.address:
        raise InvalidParameters(f"it is not said where the {kind} is", "give a storage and a path, or an address")
    if content.storage and content.address:
        raise InvalidParameters("both a storage and an address are given", "give one of them")
    _check_line("storage", content.storage, 255)
    _check_line("path", content.path, items.PATH_MAX)
    if content.path and (not content.storage or ".." in content.path.split("/")):
        raise InvalidParameters(f"path: {content.path[:80]!r} leads nowhere", "give a path below a storage's top")
    _check_line("address", content.address, items.PATH_MAX)
    if not content.address:
        return
    try:
        parts = urlsplit(content.address)
    except ValueError:
        raise InvalidParameters("address: is no URL", f"use one of {listed(_SCHEMES)}") from None
    if parts.scheme not in _SCHEMES or not parts.netloc or " " in content.address:
        raise InvalidParameters("address: is not a URL that jobs can fetch", f"use one of {listed(_SCHEMES)}")
    if parts.password or parts.username:
        raise InvalidParameters("address: holds a user name or a password", "leave it out; users have their own")
