"""`pai simulate`: replays a trace of jobs through schedulers, in seconds and without a cluster.

Reads the trace and the configurations, replays every case one after the other, and shows the results as tables, JSON
and plots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from openpai.app.simulate_history import replay_history
from openpai.cli import output
from openpai.cli.durations import FORMS
from openpai.cli.options import option
from openpai.cli.text_file import read_text
from openpai.protocol.errors import InvalidParameters, Refused

if TYPE_CHECKING:
    from openpai.scheduler.config.model import HivedConfig
    from openpai.simulator.replay import Rules
    from openpai.simulator.report import Report
    from openpai.simulator.synthetic import SyntheticSpec
    from openpai.simulator.trace import Trace
    from openpai.simulator.whatif import Changed

NODES_DEFAULT = 279
ESTIMATES_MAX = 200
"""How many jobs of a trace have their start estimated, for the report of how good estimates are."""


@dataclass(frozen=True, slots=True)
class Case:
    """One replay."""

    name: str
    config: HivedConfig
    scheduler: str
    absent: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def simulate(
    trace: Annotated[Path | None, option("--trace", "Job trace to replay.")] = None,
    synthetic: Annotated[
        str | None,
        option("--synthetic", "Generate a trace instead: jobs=,days=,seed=,load=,opportunistic=,apart=,vcs=."),
    ] = None,
    trace_format: Annotated[
        str | None, option("--format", "ours, philly, philly-csv or helios [default: detected].")
    ] = None,
    config: Annotated[
        list[Path] | None, option("--config", "Cluster in HiveD's format; give several to compare them.")
    ] = None,
    nodes: Annotated[
        int, option("--nodes", "Nodes of the cluster, without --config.", min=1, max=100_000)
    ] = NODES_DEFAULT,
    gpus_per_node: Annotated[int, option("--gpus-per-node", "GPUs of each node, without --config.", min=1, max=64)] = 8,
    match_vcs: Annotated[
        bool, option("--match-vcs", "Assign the trace's virtual clusters to the configuration's by size.")
    ] = False,
    scheduler: Annotated[
        list[str] | None,
        option(
            "--scheduler",
            "hived, hived-by-age, hived-fifo, hived-shortest, hived-first-fit, quota, quota-spread, first-fit; "
            "several to compare [default: hived].",
        ),
    ] = None,
    what_if: Annotated[
        list[str] | None, option("--what-if", "Compare with other promises, as in vision=+8 or vision=+8,speech=-8.")
    ] = None,
    checkpoint_every_s: Annotated[
        int | None, option("--checkpoint-every-s", "Interval at which jobs save their work [default: never].", min=1)
    ] = None,
    interruptible: Annotated[
        bool, option("--interruptible", "All jobs may borrow GPUs of other virtual clusters and be interrupted.")
    ] = False,
    move_jobs: Annotated[
        bool,
        option("--move-jobs", "Move interruptible jobs to make whole nodes for jobs that wait; needs --interruptible."),
    ] = False,
    grace_s: Annotated[int, option("--grace-s", "Grace period of a preempted job.", min=0)] = 30,
    experiment: Annotated[
        str | None, option("--experiment", "anomaly: private clusters, quotas and HiveD on the same jobs.")
    ] = None,
    plot: Annotated[Path | None, option("--plot", "Write plots (SVG) to this directory.")] = None,
    write_trace: Annotated[
        Path | None, option("--write-trace", "Write the trace to a file, in our own format.")
    ] = None,
    history: Annotated[
        str | None,
        option("--history", f"Replay the jobs of the platform itself, of its last days: {FORMS}; with one --what-if."),
    ] = None,
    json: output.Json = False,
) -> None:
    """Replay a job trace over the real scheduler in virtual time, and compare configurations."""
    if history is not None:
        others = (trace, synthetic, trace_format, config, scheduler, checkpoint_every_s, experiment, plot, write_trace)
        if any(others) or interruptible or move_jobs or match_vcs:
            message = "--history replays on the platform, with its own jobs, promises and rules"
            raise InvalidParameters(message, "give only --what-if and --json with it")
        replay_history(history, what_if or (), json)
        return
    from openpai.simulator.formats import write_ours
    from openpai.simulator.replay import Rules

    checkpoint_ms = None if checkpoint_every_s is None else checkpoint_every_s * 1000
    if move_jobs and not interruptible:
        message = "--move-jobs moves only jobs that may be interrupted, and no job may be"
        raise InvalidParameters(message, "add --interruptible")
    rules = Rules(grace_s * 1000, checkpoint_ms, interruptible, moves_jobs=move_jobs)
    if experiment is not None and experiment != "anomaly":
        raise InvalidParameters(f"no experiment is called {experiment!r}", "use anomaly")
    if experiment is not None and trace is None and synthetic is None and not config:
        _anomaly([], None, rules, json)
        return
    named, jobs = _inputs(trace, synthetic, trace_format, config or (), (nodes, gpus_per_node))
    if write_trace is not None:
        _write(write_trace, write_ours(jobs))
    if experiment is not None:
        _anomaly([_matching(jobs, named[0][1], match_vcs)], named[0][1], rules, json)
        return
    cases = _cases(named, scheduler or ["hived"], what_if or ())
    rules = replace(rules, estimate_every=-(-len(jobs.jobs) // ESTIMATES_MAX))
    reports = _replayed(cases, jobs, rules, match_vcs)
    _report(reports, jobs, plot, json)


def _inputs(
    trace: Path | None,
    synthetic: str | None,
    trace_format: str | None,
    configs: Sequence[Path],
    size: tuple[int, int],
) -> tuple[list[tuple[str, HivedConfig]], Trace]:
    """Return the configurations by name, and the trace; generate what was not given, in a fitting size."""
    from openpai.scheduler.config.reading import read_config
    from openpai.simulator.cluster import generated, quotas_of
    from openpai.simulator.formats import read_trace
    from openpai.simulator.synthetic import SyntheticSpec, generate

    if (trace is None) == (not synthetic):
        message = "give either a trace to replay (--trace FILE) or one to generate (--synthetic jobs=1000,days=7)"
        raise InvalidParameters(message, "see pai simulate --help")
    named = [(path.stem, read_config(read_text(path, "a configuration in HiveD's format"))) for path in configs]
    found: Trace | None = None
    spec: SyntheticSpec | None = None
    if trace is not None:
        found = read_trace(read_text(trace, "a job trace"), trace_format)
    else:
        spec = SyntheticSpec.parse(synthetic or "")
    if not named:
        shares = (
            spec.shares() if spec is not None else {name: float(ms) for name, ms in (found or _none()).demand().items()}
        )
        named = [(f"{size[0]} nodes", generated(size[0], _some(shares), size[1]))]
    if spec is not None:
        found = generate(spec, quotas_of(named[0][1]))
    return named, found or _none()


def _none() -> Trace:
    from openpai.simulator.trace import Trace

    return Trace(())


def _some(shares: dict[str, float]) -> dict[str, float]:
    if sum(shares.values()) <= 0:
        raise InvalidParameters("the trace has no job that needs GPUs", "check its format")
    return shares


def _changed(config: HivedConfig, text: str) -> Changed:
    """Return the configuration with the changes of `--what-if`."""
    from openpai.simulator.whatif import changed, parse_what_if

    try:
        return changed(config, parse_what_if([text]))
    except Refused as error:
        raise Refused(error.code, f"--what-if: {error.message}", error.advice) from error


def _cases(named: Sequence[tuple[str, HivedConfig]], schedulers: Sequence[str], what_ifs: Sequence[str]) -> list[Case]:
    cases = []
    for name, config in named:
        for scheduler in schedulers:
            title = f"{name}, {scheduler}" if len(schedulers) > 1 else name
            cases.append(Case(title, config, scheduler, notes=config.warnings))
            for text in what_ifs:
                other = _changed(config, text)
                label = text if len(named) * len(schedulers) == 1 else f"{title}, {text}"
                cases.append(Case(label, other.config, scheduler, other.absent, other.notes))
    return cases


def _matching(trace: Trace, config: HivedConfig, is_wanted: bool) -> Trace:
    from openpai.simulator.simulate import matched

    return matched(trace, config) if is_wanted else trace


def _replayed(cases: Sequence[Case], trace: Trace, rules: Rules, match_vcs: bool) -> list[Report]:
    from openpai.simulator.simulate import simulate as replay

    reports = []
    for number, case in enumerate(cases, 1):
        if output.error_console().is_terminal:
            output.aside(f"replaying {len(trace.jobs)} jobs ({number} of {len(cases)}): {case.name}")
        jobs = _matching(trace, case.config, match_vcs)
        reports.append(
            replay(case.config, jobs, case.name, case.scheduler, rules=rules, absent=case.absent, notes=case.notes)
        )
    return reports


def _report(reports: Sequence[Report], trace: Trace, plot: Path | None, is_json: bool) -> None:
    from openpai.simulator.plots import write_plots
    from openpai.simulator.tables import comparison_tables, report_sentences, report_tables

    try:
        plots = [] if plot is None else write_plots(reports, plot)
    except OSError as error:
        raise _unreadable("write plots into", plot, error) from error
    if is_json:
        found = [report.as_dict() for report in reports]
        output.document({"left_out": trace.left_out, "reports": found, "plots": [str(path) for path in plots]})
        return
    for report in reports:
        for table in report_tables(report):
            output.console().print(table)
            output.say()
        for sentence in report_sentences(report):
            output.console().print(sentence, markup=False)
        output.say()
    if len(reports) > 1:
        for table in comparison_tables(reports):
            output.console().print(table)
            output.say()
    for reason, count in trace.left_out.items():
        output.warn(f"{count} records of the trace were left out: {reason}")
    for path in plots:
        output.aside(f"plot: {path}")


def _anomaly(traces: Sequence[Trace], config: HivedConfig | None, rules: Rules, is_json: bool) -> None:
    from openpai.simulator.anomaly import default_case, find_anomaly
    from openpai.simulator.tables import anomaly_sentences, anomaly_table

    if config is None:
        config, traces = default_case()
    found = find_anomaly(config, traces, rules)
    if is_json:
        output.document(found.as_dict())
        return
    output.console().print(anomaly_table(found))
    output.say()
    for sentence in anomaly_sentences(found):
        output.console().print(sentence, markup=False)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unreadable("write the trace to", path, error) from error


def _unreadable(doing: str, path: Path | None, error: Exception) -> Refused:
    reason = getattr(error, "strerror", None) or str(error)
    return InvalidParameters(f"cannot {doing} {path}: {reason}", "check the path")
