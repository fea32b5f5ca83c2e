"""Reads job traces: OpenPAI's CSV, Philly's JSON job log and its common CSV form, and the CSV of SenseTime's Helios.

OpenPAI's format is strict: every faulty line is reported. The public traces are logs of real clusters and have holes;
records without a time or without GPUs are left out and counted.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from openpai.protocol.errors import Fault, InvalidParameters
from openpai.simulator.trace import PRIORITY_CLASSES, InvalidTrace, Trace, TraceJob, in_order

FORMATS: Final = ("ours", "philly", "philly-csv", "helios")
REQUIRED: Final = ("job", "vc", "submitted_s", "run_s", "gpus")
OPTIONAL: Final = ("user", "tasks", "priority", "sku")
FAULTS_MAX: Final = 20
SECONDS_MAX: Final = 1e12


def read_trace(text: str, trace_format: str | None = None) -> Trace:
    """Return the trace in `text`, whose format is detected if none is given. Raises InvalidTrace with its faults."""
    chosen = trace_format or recognised(text)
    if chosen not in FORMATS:
        raise InvalidParameters(f"no trace format is called {chosen!r}", f"use {', '.join(FORMATS)}")
    readers = {"ours": read_ours, "philly": read_philly, "philly-csv": read_philly_csv, "helios": read_helios}
    return readers[chosen](text)


def recognised(text: str) -> str:
    """Return the format that `text` seems to have."""
    start = text.lstrip("\ufeff \t\r\n")
    if start.startswith(("[", "{")):
        return "philly"
    header = start.split("\n", maxsplit=1)[0]
    if "gpu_num" in header:
        return "helios"
    return "philly-csv" if "num_gpus" in header else "ours"


def read_ours(text: str) -> Trace:
    """Return a trace in OpenPAI's format: CSV with columns job, vc, submitted_s, run_s, gpus and optional others."""
    rows = csv.DictReader(io.StringIO(text.lstrip("\ufeff")))
    columns = [name.strip() for name in rows.fieldnames or ()]
    rows.fieldnames = columns
    faults = [Fault(name, "this column is missing", 1, ", ".join(REQUIRED)) for name in REQUIRED if name not in columns]
    known = (*REQUIRED, *OPTIONAL)
    faults += [Fault(name, "no such column", 1, ", ".join(known)) for name in columns if name not in known]
    if faults:
        raise InvalidTrace(faults)
    jobs: list[TraceJob] = []
    left_out: Counter[str] = Counter()
    seen: set[str] = set()
    for row in rows:
        try:
            job = _our_job(row)
        except ValueError as error:
            faults.append(Fault("", str(error), rows.line_num))
            if len(faults) >= FAULTS_MAX:
                break
            continue
        if job.id in seen:
            faults.append(Fault("job", f"{job.id!r} is listed twice", rows.line_num))
        seen.add(job.id)
        if job.gpus:
            jobs.append(job)
        else:
            left_out["without GPUs"] += 1
    if faults:
        raise InvalidTrace(faults[:FAULTS_MAX])
    return in_order(jobs, left_out)


def _our_job(row: Mapping[str, str | None]) -> TraceJob:
    job = row["job"] or ""
    if not job or not row["vc"]:
        raise ValueError("job and vc must not be empty")
    tasks = row.get("tasks")
    made = TraceJob(
        id=job,
        virtual_cluster=row["vc"],
        submitted_ms=round(_number("submitted_s", row["submitted_s"]) * 1000),
        run_ms=round(_number("run_s", row["run_s"]) * 1000),
        gpus=int(_number("gpus", row["gpus"])),
        user=row.get("user") or "",
        tasks=int(_number("tasks", tasks)) if tasks else None,
        priority=_priority(row.get("priority")),
        sku_type=row.get("sku") or None,
    )
    if made.tasks is not None and not 1 <= made.tasks <= max(1, made.gpus):
        raise ValueError(f"tasks is {made.tasks}; it must be between 1 and the number of GPUs, {made.gpus}")
    return made


def _number(column: str, text: str | None) -> float:
    try:
        number = float(text or "")
    except ValueError:
        raise ValueError(f"{column} is {text!r}, which is not a number") from None
    if not 0 <= number < SECONDS_MAX:
        raise ValueError(f"{column} is {text}; it must be from 0 to {SECONDS_MAX:.0f}")
    return number


def _priority(text: str | None) -> int:
    if not text:
        return 0
    if text in PRIORITY_CLASSES:
        return PRIORITY_CLASSES[text]
    try:
        number = int(text)
    except ValueError:
        number = -2
    if not -1 <= number <= 1000:
        classes = ", ".join(PRIORITY_CLASSES)
        raise ValueError(f"priority is {text!r}; use a number from -1 to 1000, or one of {classes}")
    return number


def write_ours(trace: Trace) -> str:
    """Return a trace as text in OpenPAI's format."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("job", "vc", "user", "submitted_s", "run_s", "gpus", "tasks", "priority", "sku"))
    for job in trace.jobs:
        writer.writerow(
            (
                job.id, job.virtual_cluster, job.user, _seconds(job.submitted_ms), _seconds(job.run_ms), job.gpus,
                job.tasks or "", job.priority, job.sku_type or "",
            )
        )  # fmt: skip
    return out.getvalue()


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.3f}".rstrip("0").rstrip(".")


def read_philly(text: str) -> Trace:
    """Return the trace in a Philly job log: a list of jobs, each with its attempts and where these ran.

    A job runs as long as all of its attempts together, on as many GPUs as its last one had.
    """
    try:
        records = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidTrace((Fault("", f"this is not JSON: {error}"),)) from error
    if not isinstance(records, list):
        raise InvalidTrace((Fault("", "a Philly job log is a list of jobs"),))
    return _collected(_philly_record(record) for record in records)


def _philly_record(record: Any) -> TraceJob | str:
    try:
        return _philly_job(record)
    except (AttributeError, TypeError):
        return "with attempts that are none"


def _philly_job(record: Any) -> TraceJob | str:
    if not isinstance(record, dict) or "jobid" not in record or "vc" not in record:
        return "without a job id or virtual cluster"
    submitted = _instant_ms(record.get("submitted_time"))
    if submitted is None:
        return "without a submission time"
    run_ms = 0
    detail: Any = None
    for attempt in record.get("attempts") or ():
        began, ended = _instant_ms(attempt.get("start_time")), _instant_ms(attempt.get("end_time"))
        if began is not None and ended is not None and ended >= began:
            run_ms += ended - began
            detail = attempt.get("detail") or detail
    if detail is None:
        return "never ran to an end"
    sizes = [len(part.get("gpus") or ()) for part in detail]
    gpus = sum(sizes)
    if not gpus:
        return "without GPUs"
    # The original scheduler may have spread a job over parts of nodes: here it asks for whole nodes again.
    tasks = len(sizes) if len(set(sizes)) == 1 else None
    return TraceJob(
        str(record["jobid"]), str(record["vc"]), submitted, run_ms, gpus, str(record.get("user", "")), tasks
    )


def read_philly_csv(text: str) -> Trace:
    """Return the trace in CSV with the columns timestamp, duration, num_gpus and optionally cluster.

    Times are dates or seconds, durations are seconds. Jobs have no names and are numbered by line.
    """
    rows = csv.DictReader(io.StringIO(text.lstrip("\ufeff")))
    rows.fieldnames = [name.strip() for name in rows.fieldnames or ()]
    _need_columns(rows.fieldnames, ("timestamp", "duration", "num_gpus"))
    return _collected(_philly_csv_job(rows.line_num, row) for row in rows)


def _philly_csv_job(line: int, row: Mapping[str, str | None]) -> TraceJob | str:
    when = (row["timestamp"] or "").strip()
    try:
        submitted = round(float(when) * 1000) if math.isfinite(float(when)) else None
    except ValueError:
        submitted = _instant_ms(when)
    if submitted is None:
        return "without a submission time"
    try:
        gpus, seconds = int(float(row["num_gpus"] or "")), float(row["duration"] or "")
    except (ValueError, OverflowError):
        return "without a size or duration"
    if gpus <= 0:
        return "without GPUs"
    if not 0 <= seconds < SECONDS_MAX:
        return "without a size or duration"
    return TraceJob(f"line{line}", row.get("cluster") or "default", submitted, round(seconds * 1000), gpus)


def _need_columns(columns: Sequence[str], needed: Sequence[str]) -> None:
    faults = [Fault(name, "this column is missing", 1, ", ".join(needed)) for name in needed if name not in columns]
    if faults:
        raise InvalidTrace(faults)


def read_helios(text: str) -> Trace:
    """Return the trace in a Helios job log: CSV, one job a line, with GPUs, nodes, submission time and duration."""
    rows = csv.DictReader(io.StringIO(text.lstrip("\ufeff")))
    needed = ("job_id", "vc", "gpu_num", "submit_time", "duration")
    _need_columns(rows.fieldnames or (), needed)
    return _collected(_helios_job(row) for row in rows)


def _helios_job(row: Mapping[str, str]) -> TraceJob | str:
    submitted = _instant_ms(row["submit_time"])
    if submitted is None:
        return "without a submission time"
    try:
        gpus, seconds = int(float(row["gpu_num"])), float(row["duration"])
        nodes = int(float(row.get("node_num") or 0))
    except (TypeError, ValueError, OverflowError):
        return "without a size or duration"
    if gpus <= 0:
        return "without GPUs"
    if seconds < 0:
        return "without a size or duration"
    tasks = nodes if 1 <= nodes <= gpus and gpus % nodes == 0 else None
    return TraceJob(row["job_id"], row["vc"], submitted, round(seconds * 1000), gpus, row.get("user") or "", tasks)


def _collected(found: Iterable[TraceJob | str]) -> Trace:
    jobs: list[TraceJob] = []
    left_out: Counter[str] = Counter()
    times: Counter[str] = Counter()
    for job in found:
        if isinstance(job, str):
            left_out[job] += 1
            continue
        times[job.id] += 1
        if times[job.id] > 1:
            left_out["listed twice"] += 1
            continue
        jobs.append(job)
    return in_order(jobs, left_out)


def _instant_ms(text: object) -> int | None:
    """Return a time without a zone, such as `2017-10-07 01:11:39`, as milliseconds; None when there is none."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    # The logs have no time zone; only differences matter, so any zone will do.
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
