"""Reads a submitted file: returns a job, or every fault of the file in one error.

A file of version 2 is checked key by key and across keys; an old JSON file of version 1 is upgraded first. Every fault
and every warning names its place in the file, what is allowed there, and what was probably meant.
"""

from __future__ import annotations

from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final

from pydantic import ValidationError

from openpai.protocol.documents import spec_of
from openpai.protocol.errors import Fault, InvalidProtocol, Refused
from openpai.protocol.findings import FAULTS_MAX, Finding
from openpai.protocol.job import MAX_JOB_BYTES, JobSpec
from openpai.protocol.parsing import Lines, Parsed, parse, path_text
from openpai.protocol.references import MASK, reference_faults, unmasked
from openpai.protocol.schema import JobSection
from openpai.protocol.schema_findings import findings_of
from openpai.protocol.sweeps import sweep_faults
from openpai.protocol.syntax import unfit_texts
from openpai.protocol.templates import RENDERED_MAX, is_renderable
from openpai.protocol.v1 import is_v1, upgrade
from openpai.protocol.warnings import warnings_of
from openpai.protocol.wording import cut

WARNINGS_MAX: Final = 100
TEXT_MAX: Final = 1000
_JOB_KEYS: Final = frozenset({"protocolVersion", "taskRoles", "prerequisites", "jobName"})
"""Keys that distinguish a second job after `---` from a document of secrets."""


Check = Callable[[JobSpec], tuple[Iterable[Finding], Iterable[Finding]]]
"""Returns faults of a job, and warnings."""


@dataclass(frozen=True, slots=True)
class Read:
    """A valid job, and warnings for its owner."""

    spec: JobSpec
    warnings: tuple[str, ...] = ()
    gpu_type_line: int | None = None
    """Line of the `gpuType` of a version 1 file, which became the SKU type of its task roles; None without one."""


def read_job(text: str | bytes, hidden: Mapping[str, Any] | None = None, check: Check = lambda spec: ((), ())) -> Read:
    """Return the job a file describes; raise InvalidProtocol with every fault, or Refused when it is too large.

    `hidden` has the values that replace masks: the `secrets` of another job, and its `passwords` by `type/name`.
    `check` finds faults and warnings that only upper rooms know of.
    """
    parsed = parse(_decoded(text))
    document, lines, faults = _job_document(parsed)
    faults = [*parsed.faults, *faults]
    if hidden is not None:
        document = unmasked(document, hidden)
    if is_v1(document):
        return _read_v1(document, lines, faults, check)
    faults += _faults(_problems(document), lines)
    if faults:
        raise _invalid(faults)
    spec = _renderable(spec_of(document))
    return Read(spec, _checked(spec, lines, check))


def _checked(spec: JobSpec, lines: Lines, check: Check) -> tuple[str, ...]:
    """Return the warnings about a job; raise InvalidProtocol with the faults that `check` finds."""
    found, warnings = check(spec)
    if faults := _faults(islice(chain(sweep_faults(spec), found), FAULTS_MAX), lines):
        raise _invalid(faults)
    return _warnings_of((*warnings_of(spec), *warnings), lines)


def _decoded(text: str | bytes) -> str:
    # A character has at most four bytes, so most texts need not be encoded for this check.
    if len(text) > MAX_JOB_BYTES or (
        isinstance(text, str) and 4 * len(text) > MAX_JOB_BYTES and len(text.encode(errors="replace")) > MAX_JOB_BYTES
    ):
        limit = f"{MAX_JOB_BYTES // 1024} KiB"
        raise Refused(
            "RequestTooLargeError",
            f"the job file is larger than {limit}",
            "put code and data where tasks can fetch them, and keep only the commands in the job file",
        )
    if isinstance(text, str):
        return text.removeprefix("\ufeff")
    try:
        return text.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        is_utf_16 = text.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
        what = "it is UTF-16" if is_utf_16 else f"byte {error.start + 1} is 0x{text[error.start]:02x}"
        message = f"the file is not UTF-8 text: {what}"
        raise InvalidProtocol((Fault("", message, line, "text in UTF-8"),)) from error


def _job_document(parsed: Parsed) -> tuple[dict[str, Any], Lines, list[Fault]]:
    """Return the document of the job, with the secrets of a second document merged into it."""
    if not parsed.documents or (len(parsed.documents) == 1 and parsed.documents[0] is None):
        raise InvalidProtocol((*parsed.faults, Fault("", "the file is empty", None, "a job")))
    document, lines = parsed.documents[0], parsed.lines[0]
    if not isinstance(document, dict):
        kind = "a list" if isinstance(document, list) else "a single value"
        raise InvalidProtocol(
            (*parsed.faults, Fault("", f"the file holds {kind}", 1, "a mapping of keys, such as `name: my-job`"))
        )
    more = [at for at, one in enumerate(parsed.documents) if at > 0 and one is not None]
    if not more:
        return document, lines, []
    extra = [at for at in more if at != more[0] or not isinstance(parsed.documents[at], dict)]
    if not extra and _JOB_KEYS & parsed.documents[more[0]].keys():
        line = parsed.lines[more[0]].first()
        return document, lines, [Fault("", "a second job begins here", line, "one job in a file")]
    if extra:
        line = parsed.lines[extra[0]].first()
        return document, lines, [Fault("", "the file holds more than a job", line, "a job, then its secrets after ---")]
    if document.get("secrets"):
        line = lines.line_of(("secrets",))
        return document, lines, [Fault("secrets", "are given here and again after ---", line, "secrets in one place")]
    document["secrets"] = parsed.documents[more[0]]
    return document, lines, []


def _problems(document: Mapping[str, Any]) -> list[Finding]:
    findings: list[Finding] = []
    if document.get("secrets") == MASK:
        findings.append(
            Finding(("secrets",), "are masked, as in a configuration that was shown", "the secrets themselves")
        )
        document = {**document, "secrets": None}
    unfit = [Finding(path, message, "text without it") for path, message in islice(unfit_texts(document), FAULTS_MAX)]
    try:
        JobSection.model_validate(document)
    except ValidationError as error:
        findings += findings_of(error)
    findings += islice(reference_faults(document), FAULTS_MAX)
    # Other findings would repeat such a text in their messages.
    places = [finding.path for finding in unfit]
    return unfit + [one for one in findings if not any(one.path[: len(place)] == place for place in places)]


def _read_v1(document: dict[str, Any], lines: Lines, faults: list[Fault], check: Check) -> Read:
    upgraded = upgrade(document)
    faults += _faults(upgraded.faults, lines)
    if not faults:
        faults += _faults(_problems(upgraded.document), lines)
    if faults:
        raise _invalid(faults)
    spec = _renderable(spec_of(upgraded.document))
    warnings = (*_warnings_of(upgraded.warnings, lines), *_checked(spec, lines, check))
    return Read(spec, warnings, lines.line_of(("gpuType",)) if document.get("gpuType") else None)


def _renderable(spec: JobSpec) -> JobSpec:
    if not is_renderable(spec):
        limit = f"at most {RENDERED_MAX // 2**20} MiB for all task roles together"
        raise InvalidProtocol((Fault("taskRoles", "become too long when references are replaced", None, limit),))
    return spec


def _faults(findings: Iterable[Finding], lines: Lines) -> list[Fault]:
    return [
        Fault(
            path_text(one.path),
            cut(one.message, TEXT_MAX),
            lines.line_of(one.path),
            cut(one.allowed, TEXT_MAX),
            cut(one.suggestion, TEXT_MAX),
        )
        for one in findings
    ]


def _warnings_of(findings: Iterable[Finding], lines: Lines) -> tuple[str, ...]:
    message = [fault.describe() for fault in _faults(islice(findings, WARNINGS_MAX + 1), lines)]
    return (
        (*message[:WARNINGS_MAX], "and more, reported once these are fixed")
        if len(message) > WARNINGS_MAX
        else tuple(message)
    )


def _invalid(faults: list[Fault]) -> InvalidProtocol:
    """Return the error with the faults in the order of the file, up to a maximum."""
    ordered = sorted(dict.fromkeys(faults), key=lambda fault: fault.line or 0)
    if len(ordered) > FAULTS_MAX:
        ordered = [*ordered[:FAULTS_MAX], Fault("", "and more faults, reported once these are fixed")]
    return InvalidProtocol(tuple(ordered))
