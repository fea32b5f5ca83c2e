"""Failures that the rules were not written from, and variants of them as launchers, loggers and terminals shape a log.

The cases of `holdout.yaml` were written before the rules were read. Those at even positions were then used to look for
faults of the rules; those at odd positions are held out: only their share is looked at, never one of them. The cases of
`reported.yaml` and `reported_later.yaml` are what people reported in public issues, halved in the same way. Those of
`reported_unseen.yaml` were all measured before a rule was mended by any, and then all used for that; so were those of
`reported_last.yaml`, a quarter after the other, and of `ran.yaml`, which are what programs wrote that were run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import yaml

from openpai.diagnosis.diagnosing import find, find_root
from openpai.diagnosis.evidence import Evidence
from openpai.diagnosis.rules import Domain, RuleSet, built_in

CASES: Final = Path(__file__).with_name("holdout.yaml")
REPORTED: Final = Path(__file__).with_name("reported.yaml")
REPORTED_LATER: Final = Path(__file__).with_name("reported_later.yaml")
REPORTED_UNSEEN: Final = Path(__file__).with_name("reported_unseen.yaml")
REPORTED_LAST: Final = Path(__file__).with_name("reported_last.yaml")
RAN: Final = Path(__file__).with_name("ran.yaml")
UNKNOWN: Final = "unknown"
_FRAME: Final = '  File "/w/train.py", line {}, in {}\n    {}()\n'
_TRACEBACK: Final = "Traceback (most recent call last):\n" + _FRAME.format(88, "<module>", "main")
_CHAINED: Final = "\n\nDuring handling of the above exception, another exception occurred:\n\n"
_NOISE: Final = (
    "2026-03-04 10:11:{s:02},131 INFO trainer: step {n} loss 0.{n} lr 5e-05",
    "{n}/1000 [00:{s:02}<03:11,  5.1it/s] loss=0.{n}",
    "/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module.py:{n}: UserWarning: an input does not need grad",
    "WARNING:root:cannot reach the experiment tracker (Connection refused), going on without it",
    "[W304 10:11:{s:02}.13 socket.cpp:464] [c10d] The server socket cannot be initialized on [::]:29500",
    "INFO: 0 errors, {n} warnings",
    "gpu-07:77:9{n} [0] NCCL INFO Channel 0{n} : 0[0] -> 1[1] via P2P/IPC",
    "2026-03-04 10:11:{s:02}.1: I tensorflow/core/platform/cpu_feature_guard.cc:182] This TensorFlow binary is tuned",
    "validation error rate 0.{n}",
    "wandb: Tracking run with wandb version 0.16.{n}",
    "Some weights of the model checkpoint were not used when initializing Bert: ['cls.seq']",
)
_AFTER: Final = (
    "wandb: Run summary: loss 0.25",
    (
        "/usr/lib/python3.11/multiprocessing/resource_tracker.py:224: UserWarning: resource_tracker: 3 "
        "leaked semaphore objects to clean up at shutdown"
    ),
    "[W304 10:12:00.5 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed before exit",
    (
        "Exception ignored in: <function Reader.__del__ at 0x7f>\nTraceback (most recent call last):\n"
        '  File "r.py", line 9, in __del__\nValueError: I/O operation on closed file.'
    ),
    "cleaning up temporary files",
)
_LAUNCHERS: Final = (
    'Traceback (most recent call last):\n  File "/opt/bin/torchrun", line 8, in <module>\n    sys.exit(main())\n'
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    + "=" * 60
    + "\ntrain.py FAILED\n"
    + "-" * 60,
    (
        'Traceback (most recent call last):\n  File "/opt/bin/accelerate", line 8, in <module>\n'
        "subprocess.CalledProcessError: Command '['python3', 'train.py']' returned non-zero exit status 1."
    ),
    "srun: error: gpu-07: task 3: Exited with exit code 1",
    "[2026-03-04 10:12:01,1] [ERROR] [launch.py:325:sigkill_handler] ['python3', 'train.py'] exits with return code = 1",  # noqa: E501
    "make: *** [Makefile:7: train] Error 1",
)
_PREFIXES: Final = (
    "[rank{r}]: ", "[default{r}]:", "[1,{r}]<stderr>:", "{r}: ", "gpu-0{r}: ", "[worker-{r}] ",
    "(TrainWorker pid=71{r}, ip=10.0.0.{r}) ", "2026-03-04T10:11:12.13141516{r}Z ",
    "2026-03-04T10:11:12.13141516{r}Z stderr F ",
)  # fmt: skip
_CASCADES: Final = (
    (
        "[rank{r}]:[E304 10:22:00.13 ProcessGroupNCCL.cpp:629] [Rank {r}] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, Timeout(ms)=600000) ran for 600017 milliseconds"
    ),
    _TRACEBACK + "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:525] Read error [10.0.0.{r}]:4711: "
    "Connection reset by peer",
    _TRACEBACK + "torch.distributed.DistBackendError: NCCL communicator was aborted on rank {r}.",
    _TRACEBACK + "BrokenPipeError: [Errno 32] Broken pipe",
    "WARNING:torch.distributed.elastic.agent.server.api:Received 15 death signal, shutting down workers",
)
_CONSEQUENCES: Final = frozenset({"nccl_timeout_root_unknown", "horovod_error", "mpi_abort", "peer_lost"})
"""Causes that other tasks' failures have too: among them none can be said to be the root."""
_CASCADE_EXITS: Final = (134, 1, 134, 1, 143)
_SECONDS: Final = 60


@dataclass(frozen=True)
class End:
    """How one task ended."""

    exit_code: int
    log: str = ""
    message: str = ""
    ended: int = 0
    quotes: tuple[str, ...] = ()
    """What the quoted line must contain, any one of them."""


@dataclass(frozen=True)
class Case:
    """A failure with what is right about it."""

    name: str
    causes: tuple[str, ...]
    tasks: tuple[End, ...]
    root: int | None = 0
    """The task that is the root; None where any of them is right."""
    is_held_out: bool = False


@dataclass
class Score:
    """What was right, over all cases."""

    cases: int = 0
    right: int = 0
    of_infrastructure: int = 0
    blamed_on_users: int = 0
    quoted: int = 0
    wrong: list[str] = field(default_factory=list)

    def shares(self) -> dict[str, float]:
        """Return the right roots, the wrong blame on users and the right quotes, each as a part of one."""
        return {
            "right": self.right / max(1, self.cases),
            "blamed_on_users": self.blamed_on_users / max(1, self.of_infrastructure),
            "quoted": self.quoted / max(1, self.cases),
        }


def cases(path: Path = CASES) -> list[Case]:
    """Return the cases of a file as they were written."""
    data = yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    single = [_case(each, (_end(each),), 0, bool(at % 2)) for at, each in enumerate(data["cases"])]
    return [*single, *(_gang(each, bool(at % 2)) for at, each in enumerate(data["gangs"]))]


def _gang(body: dict[str, Any], is_held_out: bool) -> Case:
    tasks = [_end(each) for each in body["tasks"] for _ in range(each["count"])]
    return _case(body, tuple(tasks), None if body.get("anyRoot") else body["root"], is_held_out)


def _case(body: dict[str, Any], tasks: tuple[End, ...], root: int | None, is_held_out: bool) -> Case:
    return Case(body["of"], tuple(body["cause"]), tasks, root, is_held_out)


def _end(body: dict[str, Any]) -> End:
    log = (_TRACEBACK if body.get("tb") else "") + body.get("log", "")
    quotes = tuple(body.get("quotes", (body["quote"],) if body.get("quote") else ()))
    return End(body.get("exit", 1), log, body.get("message", ""), body.get("ended", 1), tuple(map(str, quotes)))


def variants(case: Case, each: int, seed: int = 1) -> Iterator[Case]:
    """Yield variants of a case, the same ones for a seed."""
    chance = random.Random(f"{seed} {case.name}")  # not for secrets
    for number in range(each):
        name = f"{case.name} #{number}"
        if len(case.tasks) == 1 and chance.random() < 0.3 and case.causes[0] not in _CONSEQUENCES:
            yield _as_gang(replace(case, name=name, tasks=(_shaped(case.tasks[0], chance),)), chance)
        else:
            is_last = case.causes[0] in _CONSEQUENCES
            tasks = tuple([_shaped(end, chance, is_consequence=is_last) for end in case.tasks])
            yield replace(case, name=name, tasks=tasks)


def _as_gang(case: Case, chance: random.Random) -> Case:
    """Return a case with other tasks that failed for it, before and after it in time."""
    root = chance.randrange(8)
    kind = chance.randrange(len(_CASCADES))
    peers = [
        End(_CASCADE_EXITS[kind], _CASCADES[kind].format(r=rank), ended=chance.randrange(1, _SECONDS))
        for rank in range(7)
    ]
    own = replace(case.tasks[0], ended=_SECONDS // 2)
    return replace(case, tasks=(*peers[:root], own, *peers[root:]), root=root)


def _shaped(end: End, chance: random.Random, *, is_consequence: bool = False) -> End:
    """Return an end whose log went through a program that writes more, a launcher, a logger and a terminal."""
    if not end.log:
        return end
    shapes = [each for each, share in _SHAPES if chance.random() < share]
    if is_consequence:
        shapes = [each for each in shapes if each is not _interleaved]
    log = end.log
    for shape in shapes:
        log = shape(log, chance)
    return replace(end, log=log if chance.random() < 0.2 else log + "\n")


def _noisy(log: str, chance: random.Random) -> str:
    lines = [chance.choice(_NOISE).format(n=number % 90 + 10, s=number % 60) for number in range(chance.randrange(300))]
    return "\n".join((*lines, log))


def _reworded(log: str, chance: random.Random) -> str:
    """Return a log whose exception was raised again by the program around it, or shown by another excepthook."""
    if not log.startswith(_TRACEBACK):
        return log
    rest = log.removeprefix(_TRACEBACK)
    boxed = f"╭{'─' * 30} Traceback (most recent call last) {'─' * 31}╮\n"
    boxed += f"│ /w/train.py:88 in <module>{' ' * 70}│\n╰{'─' * 97}╯\n"
    return chance.choice(
        (
            boxed + rest,
            log + _CHAINED + _TRACEBACK + "RuntimeError: the training did not end well",
            "Error executing job with overrides: ['optim=adamw']\n" + log,
            f"2026-03-04 10:11:12,131 ERROR train: training failed\n{log}",
        )
    )


def _followed(log: str, chance: random.Random) -> str:
    return "\n".join((log, *chance.sample(_AFTER, chance.randrange(1, 3))))


def _launched(log: str, chance: random.Random) -> str:
    return f"{log}\n{chance.choice(_LAUNCHERS)}"


def _barred(log: str, chance: random.Random) -> str:
    steps = range(10, 10 * chance.randrange(2, 10), 10)
    bar = "".join(f"Epoch 1:  {at}%|{'#' * (at // 10)}| {at}/100\r" for at in steps)
    return bar + ("\n" if chance.random() < 0.5 else "") + log


def _prefixed(log: str, chance: random.Random) -> str:
    prefix = chance.choice(_PREFIXES)
    rank = chance.randrange(8)
    return "\n".join(prefix.format(r=rank) + line for line in log.splitlines())


def _interleaved(log: str, chance: random.Random) -> str:
    """Return a log of two ranks, whose lines alternate."""
    mine = [f"[rank3]: {line}" for line in log.splitlines()]
    other = [f"[rank1]: {line}" for line in (_TRACEBACK + "BrokenPipeError: [Errno 32] Broken pipe").splitlines()]
    mixed: list[str] = []
    while mine or other:
        source = mine if mine and (not other or chance.random() < 0.5) else other
        mixed.append(source.pop(0))
    return "\n".join(mixed)


def _coloured(log: str, chance: random.Random) -> str:
    colour = chance.choice(("\x1b[31m", "\x1b[1;91m", "\x1b[38;5;196m"))
    return "\n".join(f"{colour}{line}\x1b[0m" for line in log.splitlines())


def _crlf(log: str, chance: random.Random) -> str:
    return log.replace("\n", "\r\n")


def _cut(log: str, chance: random.Random) -> str:
    """Return a log that begins in the middle of a line, as the end of a long one does."""
    return f"oss 0.25 lr 5e-05\n{log}"


_SHAPES: Final[Sequence[tuple[Callable[[str, random.Random], str], float]]] = (
    (_reworded, 0.25),
    (_followed, 0.25),
    (_launched, 0.2),
    (_noisy, 0.5),
    (_barred, 0.2),
    (_interleaved, 0.05),
    (_prefixed, 0.25),
    (_coloured, 0.1),
    (_crlf, 0.05),
    (_cut, 0.2),
)


def measure(those: Sequence[Case], rules: RuleSet | None = None) -> Score:
    """Return how many of the cases are diagnosed rightly."""
    rules = rules or built_in()
    score = Score()
    for case in those:
        _judge(case, rules, score)
    return score


def _judge(case: Case, rules: RuleSet, score: Score) -> None:
    tasks = [_evidence(end) for end in case.tasks]
    findings = [find(each, rules) for each in tasks]
    root = find_root(tasks, rules, findings) if len(tasks) > 1 else 0
    found = findings[root] if root is not None else None
    cause = found.cause.name if found and found.cause else UNKNOWN
    is_right = cause in case.causes and (case.root is None or root == case.root)
    known = rules.causes.get(case.causes[0])
    is_infrastructure = known is not None and known.domain is Domain.INFRASTRUCTURE
    blamed = found.cause.domain if found and found.cause else Domain.UNKNOWN
    is_blamed = is_infrastructure and blamed is Domain.USER
    quotes = case.tasks[case.root or 0].quotes
    is_quoted = not quotes or (found is not None and any(quote in found.line for quote in quotes))
    score.cases += 1
    score.right += is_right
    score.of_infrastructure += is_infrastructure
    score.blamed_on_users += is_blamed
    score.quoted += is_quoted
    if not (is_right and is_quoted) or is_blamed:
        line = found.line if found else ""
        score.wrong.append(f"{case.name}: {cause} at {root} (not {case.causes} at {case.root}); quoted {line[:150]!r}")


def _evidence(end: End) -> Evidence:
    return Evidence(end.exit_code, end.log, end.message, ended_at_ms=end.ended * 1000)
