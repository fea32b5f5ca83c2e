"""The forms in which programs report failures: what a line of a log is, by its text alone.

`last_error` chooses among the lines that have one of these forms.
"""

from __future__ import annotations

import re
from typing import Final

TRACEBACK: Final = re.compile(r"(?:Exception Group )?Traceback \(most recent call last\):$|[╭┌]─+ Traceback \(")
OF_NO_ACCOUNT: Final = re.compile(r"Exception ignored in\b|--- Logging error ---$")
IN_A_CHAIN: Final = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
GROUP: Final = re.compile(r"(?:Base)?ExceptionGroup: ")
EXCEPTION: Final = re.compile(
    r"(?:[A-Za-z_]\w{0,60}[.$]){0,8}[A-Z]\w{0,80}(?:Error|Exception|Interrupt)(?: \[\w{1,60}\])?(?:: |:?$)"
)
BARE: Final = re.compile(r"[\w.]{1,200}:?")
# An exception that a service or a launcher passes on in a field of its own report.
QUOTED: Final = re.compile(
    r"(?i:.{0,100}\b(?:error_?message|message|msg|reason|error|exception|cause)\b\"?[:=]? ?[\"'`])"
)
# Reports that another process failed or lost its peer: the cause is in the log of that process.
EXITED: Final = re.compile(r"(?i)\bexit(?:ed|s)?\b.{0,30}\b(?:status|code)\b|\bnon-?zero (?:exit )?(?:status|code)\b")
PASSED_ON: Final = re.compile(
    rf"exits? with (?:return|exit) ?code\b|(?i:{EXITED.pattern.removeprefix('(?i)')})"
    r"|ChildFailedError|CalledProcessError|\bsignal 15\b|\bis detected by the operating system\b"
    r"|ProcessExitedException|ProcessRaisedException|BrokenProcessPool|torch[./]distributed[./]elastic"
    r"|Connection (?:was )?(?:reset|closed|aborted) by (?:remote )?peer|Broken ?[Pp]ipe|\bSIGTERM\b"
    r"|Watchdog caught collective operation timeout|^srun: error: |^make(?:\[\d+\])?: \*\*\* \["
    r"|^npm (?:ERR!|error) (?:(?:code|errno) (?:ELIFECYCLE|\d)|(?:command|path|syscall) |.{0,80}Exit status"
    r"|A complete log)"
    # Where to look instead.
    r"|(?i:\b(?:see|check|refer to|look at)\b.{0,40}\b(?:root cause|stack ?trace|traceback|messages?|print statements?"
    r"|logs?|output|errors?|exceptions?)\b.{0,20}\b(?:above|earlier|for (?:the )?(?:root|actual|real|original)))"
    r"|systemd\[\d+\]: |workers? (?:are|is) no longer alive"
    r"|\b(?:exited|crashed|terminated|failed) with (?:exit |return |error )?(?:code|status)\b"
    r"|\b[Ll]ook (?:above|below) for\b|collect2: error: ld returned|ninja: build stopped"
    r"|compilation terminated\.$|compilation failed for package"
    r"|[Bb]uild did NOT complete|\bfailed to build$|could not compile `|linker command failed"
    r"|Fatal Python error: Aborted|\b(?:Container|Pod) (?:\S{1,80} )?(?:marked as )?failed\b|\(exit (?:code )?\d{1,3}\)"
    r"|Error compiling objects for extension|(?:[Cc]ould not build|Failed building|Failed to build) (?:wheels? )?"
    r"|subprocess-exited-with-error|metadata-generation-failed|\bpip subprocess to install\b"
    r"|\bfailed \d+ times; aborting job\b|EngineDeadError|[Ee]ngine core initialization failed"
    r"|[Cc]ouldn't start container|Failed to invoke spank plugin|required plugin spank_|task_init\w*\(?\)? failed"
)
CRASH: Final = re.compile(
    r"panic: |fatal error: |thread '[^'\n]{0,80}' (?:\(\d+\) )?panicked at |Exception in thread \""
    r"|ERROR: (?:(?:Load|Init)Error: )*[A-Z]\w{1,80}(?:Error|Exception|Mismatch)(?:: |:?$)"
    r"|terminate called (?:after|without|recursively)|Fatal Python error: |Unhandled exception\b|Uncaught "
    r"|\S{1,200}: .{0,200}Assertion [`'].{0,300} failed\.$|\*\*\* stack smashing detected"
    r"|.{0,120}(?:\] |: )Check fail(?:ed|ure)\b|\*\*\* (?:SIG[A-Z]{3,6}|Aborted) (?:received|at|\()"
    r"|(?:free|malloc|realloc|munmap_chunk)\(\): |double free or corruption|corrupted (?:size|double-linked)"
)
MESSAGE: Final = re.compile(
    r"(?!(?:INFO|WARN|WARNING|DEBUG|TRACE|NOTE|[Ww]arning|[Nn]ote)\b)(?:"
    # The level of a logger, after its time and what else it puts first.
    r"[EF]\d{4} [\d:.]{8,20} +\d{1,8} \S{1,200}\] "
    r"|\s{0,12}(?:ERROR|CRITICAL|FATAL)\b[: ]|[\w.-]{1,40} {1,4}(?:ERROR|CRITICAL|FATAL) {1,8}\S"
    r"|[\d:.,\-T/Z |+]{0,40}(?:\[[\w.-]{1,40}\] ?){0,2}[| \[]{0,3}"
    r"(?:ERROR|CRITICAL|FATAL|SEVERE)\b[\] |]{1,8}\S"
    r"|\{.{0,200}\"(?:level|severity|levelname|lvl)\": ?\"(?i:error|fatal|critical|panic|alert)\""
    r"|npm (?:ERR!|error) |ERROR \(|[A-Z]\w{1,20} Error at \S{1,200}:\d"
    r"|(?:Error|ERROR|Exception) (?:in|on|at|from|while|when|during|[a-z]{2,20}ing) \S|"
    r"(?:\d{4}-\d\d-\d\d[T ]\S{5,20} )?(?:\S{1,200}: ){0,2}"
    r"(?:FATAL|[Ff]atal|CRITICAL|ERROR|[Ee]rror)(?: \w{1,20}){0,3}(?:: ?|\] )(?!\s*[-+]?[\d.])"
    r"|E: |curl: \(\d+\) |wget: |make: \*\*\* |Can't open perl script "
    r"|\S{0,200}sh: (?:-c: )?(?:line )?\d+: "
    r"|\S{1,200}: (?:.{0,200}: )?(?:[Cc](?:an't|annot|ould not)|[Ff]ailed to|[Uu]nable to) |\S{0,200}: No module named "
    r"|.{0,200}: (?:No such file or directory|Permission denied|Is a directory|Not a directory|Exec format error)\b"
    r"|.{0,200}: undefined (?:reference to|symbol: )"
    r"|.{0,200}: (?:command )?not found$|.{1,300} at \S{1,200} line \d+\.$"
    r"|.{0,200}\b(?:No space left on device|Disk quota exceeded|Read-only file system|Input/output error)\b"
    r"|.{0,200}\b(?:CUDA|CUBLAS|NCCL|cuDNN|HIP) (?:error|ERROR|failure)\b|.{0,200}\bCUDA_ERROR_\w+"
    r"|(?:Segmentation fault|Aborted|Bus error|Illegal instruction|Floating point exception)\b)"
)


# Words that a report of a failure has in any form, in lines that are not a report of something else.
WORDS: Final = re.compile(
    r"(?i)\b(?:errors?|fail(?:ed|s|ure)?|fatal|can(?:not|'t)|could not|unable to|invalid|illegal|abort(?:ed|ing)?"
    r"|denied|refused|not found|no such|missing|exceed(?:ed|s)|panic|exception"
    r"|crash(?:ed)?|killed|corrupt(?:ed)?|undefined"
    r"|unknown|unsupported|mismatch|nan|diverged)\b"
    r"|(?:Fehler|nicht|erreur|introuvable|impossible|errore|ошибк|错误|失败|没有|エラー)"
)
WEAK_WORDS: Final = re.compile(
    r"(?i)\b(?:is|are|was|were|does|do|did|has|have|could|would|can|should|will) ?n[o']t\b"
    r"|\bnot (?:in|a|an|enough|supported|valid)\b"
    r"|\b(?:must|should) (?:be|have)\b|\bexpected\b|\brequired?\b|\bno longer\b|\bno [a-z]+ (?:available|left)\b"
    r"|\bout of\b|\bdied\b|\blost\b|\btime(?:d)?[ -]?out\b|\bwrong\b|\bbad\b|\bstopp?(?:ed|ing)\b|\bgiv(?:e|ing) up\b"
)
# What names no failure: a shell's code, advice, and where to read on.
NO_HINT: Final = re.compile(
    r"\s{0,40}(?:#|echo |export |set -)|.{0,200}(?:\$[({\w]| >> )"
    r"|(?:Set|Use|Try|Run|See|Consider|Tip|Hint|Note|For (?:more|debugging|further|help)|Did you mean"
    r"|To (?:append|initialize|trigger|fix)"
    r"|Please (?:see|check|refer|run|try|report|include|use|make sure)"
    r"|Complete log|The above exception|During handling of)\b"
)
# A place in the source, which loggers of C++ and Rust put before a message, and the level before it.
PLACE: Final = re.compile(
    r"(?:\([\w.-]{1,40}\) )?[\w./-]{1,120}\.(?:cc|cpp|cu|cuh|c|h|hpp|go|rs|py|pyx):\d{1,6}(?:\] |: )+"
)
LEVEL: Final = re.compile(r"[\d:.,\-T/ ]{8,40} ?(?:E|F|C|ERROR|FATAL|CRITICAL)\b")
# A line of a compiler that names a place.
COMPILER: Final = re.compile(r"\s{0,40}[^\s:]{1,300}:\d+(?::\d+)?: (?:fatal )?error: ")
# A line of a stack that a runtime or the C library wrote, and what stands above its first line.
FRAME: Final = re.compile(
    r"\s{0,40}(?:frame )?#\d{1,3}:? |\s{1,40}at [\w.$<>/]{1,200}[(:]|(?:\[bt\] )?(?:\[ ?\d{1,3}\]|\(\d{1,3}\)) [\w/]"
    r"|.{0,200}\+0x[0-9a-f]{1,16}\)? ?\[0x|\s{0,20}\d{1,3}: (?:0x)?[0-9a-fA-F]{8,16} |\s{0,20}\[\d{1,3}\] \S{1,200}$"
    r"|\s{1,20}\d{1,3}: [\w<>:]{1,200}(?:::|$)|goroutine \d+ \["
)
STACK: Final = re.compile(
    r"(?i:\W{0,20}(?:\w{1,10} )?(?:native |check failure |javascript |js |c\+\+ |driver )?"
    r"(?:exception trace|stack ?trace|back ?trace|call ?stack)"
    r"(?: returned \d{1,5} entries| information)?\b\W{0,20}$)|Exception raised from \S{1,100} at "
)
TERMINATED: Final = "terminate called "
WHAT: Final = "what(): "
# What stands between the head of a message and what it says.
NO_MESSAGE: Final = re.compile(
    r"\W*$|.*\(most recent call last\):$|Detected at node |Node: '|\d+ root error\(s\) found\.|\.\.\. \("
)
HEAD: Final = re.compile(r"\b\d+ validation errors? for [\w.]+$")
CAUSED_BY: Final = re.compile(r"\s{0,20}Caused by:(?: |$)|\s{0,20}\[cause\]: ")
# Where torchrun begins to report that a rank of its own failed.
LAUNCHER: Final = re.compile(r".{0,160}\bfailed \(exitcode: -?\d+\) local_rank: \d+|.{0,120}\bChildFailedError: ?$")
BY_SIGNAL: Final = re.compile(r".{0,160}\bfailed \(exitcode: -\d+\)")
STOPPING: Final = re.compile(r".{0,160}\bSending process \d+ closing signal\b")
NOT_A_FAILURE: Final = re.compile(
    r"(?i)(?:^\[[WI]\d{3,4} |\b(?:warn(?:ing)?|info|debug|note)\b"
    r"|\b(?:0|no) (?:errors?|failed|failures?)\b|\berror (?:rate|=|of\b)|\bset the environment variable\b"
    r"|[a-z]warning: )"
)


# A warning that a part of the program ended.
GRAVE: Final = re.compile(
    r"(?i)\b(?:terminat(?:ed|ion)|dead|died|lost|killed|crash(?:ed)?|unexpected(?:ly)?|aborted)\b"
)
RULE: Final = re.compile(r"[\W_]*$|Node\.js v\d")
