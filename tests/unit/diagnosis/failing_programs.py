"""Programs that fail, each with what is to be quoted of its log: some are run by the tests, some were run once.

Those that were run once need a compiler or a runtime that a machine of tests may lack; their logs are as they came.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Program(NamedTuple):
    """A failing program, the row of the exit-code table for it, and the line to quote."""

    text: str
    row: int
    quoted: str
    """A regular expression for the whole line."""


class Recorded(NamedTuple):
    """What a failing program wrote."""

    exit_code: int
    log: str
    row: int
    quoted: str


PYTHON: Final = {
    "matmul": Program(
        "def matmul(a, b):\n"
        "    raise ValueError(f'matmul: Input operand 1 has a mismatch in its core dimension 0 (size {b} vs {a})')\n"
        "def step(): matmul(3, 4)\n"
        "print('epoch 1 loss 0.25')\nstep()\n",
        236,
        r"ValueError: matmul: Input operand 1 has a mismatch in its core dimension 0 \(size 4 vs 3\)",
    ),
    "key error": Program("config = {}\nconfig['lr']\n", 236, "KeyError: 'lr'"),
    "assertion without a message": Program("assert 1 == 2\n", 236, "AssertionError"),
    "assertion": Program("assert 1 == 2, 'the shapes differ'\n", 236, "AssertionError: the shapes differ"),
    "type error": Program("len(3)\n", 236, r"TypeError: object of type 'int' has no len\(\)"),
    "zero division": Program("1 / 0\n", 236, "ZeroDivisionError: division by zero"),
    "exception of a module's own": Program(
        "class Boom(Exception): pass\nBoom.__module__ = 'model.errors'\nraise Boom('no checkpoint')\n",
        236,
        r"model\.errors\.Boom: no checkpoint",
    ),
    "missing module": Program("import torchh\n", 232, "ModuleNotFoundError: No module named 'torchh'"),
    "import error": Program("from os import no_such\n", 232, r"ImportError: cannot import name 'no_such' from 'os'.*"),
    "missing file": Program(
        "open('/no/data.bin')\n", 229, r"FileNotFoundError: \[Errno 2\] No such file or directory: '/no/data\.bin'"
    ),
    "syntax error": Program("def f(:\n", 231, "SyntaxError: invalid syntax"),
    "name error": Program("print(modle)\n", 231, "NameError: name 'modle' is not defined"),
    "attribute error": Program("''.nope\n", 231, "AttributeError: 'str' object has no attribute 'nope'"),
    "index error": Program("[][0]\n", 233, "IndexError: list index out of range"),
    "recursion": Program("def f(): f()\nf()\n", 236, "RecursionError: maximum recursion depth exceeded.*"),
    "out of memory": Program("x = bytearray(1 << 60)\n", 236, "MemoryError"),
    "handled import error before another": Program(
        "import logging\ntry:\n    import apex\nexcept ImportError:\n    logging.exception('going on without apex')\n"
        "raise ValueError('batch size 0')\n",
        236,
        "ValueError: batch size 0",
    ),
    "chain by from": Program(
        "try:\n    {}['lr']\nexcept KeyError as error:\n    raise RuntimeError('cannot start') from error\n",
        236,
        r"RuntimeError: cannot start \(after KeyError: 'lr'\)",
    ),
    "chain of three": Program(
        "try:\n  try:\n    int('x')\n  except ValueError:\n    {}['lr']\n"
        "except KeyError:\n  raise RuntimeError('late')\n",
        236,
        r"RuntimeError: late \(after ValueError: invalid literal for int\(\) with base 10: 'x'\)",
    ),
    "cause that decides": Program(
        "try:\n    open('/no/such')\nexcept OSError as error:\n    raise RuntimeError('no data') from error\n",
        229,
        r"FileNotFoundError: \[Errno 2\] No such file or directory: '/no/such'",
    ),
    "exception group": Program(
        "def fail():\n"
        "    raise ExceptionGroup('two shards', [ValueError('shard 3 is empty'), KeyError('b')])\nfail()\n",
        236,
        r"ExceptionGroup: two shards \(2 sub-exceptions\) \(after ValueError: shard 3 is empty\)",
    ),
    "nested group of raised exceptions": Program(
        "import asyncio\n"
        "async def bad(): raise KeyError('rank 2')\n"
        "async def main():\n    async with asyncio.TaskGroup() as group: group.create_task(bad())\n"
        "asyncio.run(main())\n",
        236,
        r"ExceptionGroup: unhandled errors in a TaskGroup \(1 sub-exception\) \(after KeyError: 'rank 2'\)",
    ),
    "message of several lines": Program(
        "raise RuntimeError('Error(s) in loading state_dict for Net:\\n\\tsize mismatch for fc.weight')\n",
        229,
        r"RuntimeError: Error\(s\) in loading state_dict for Net: size mismatch for fc\.weight",
    ),
    "progress bar": Program(
        "import sys\nsys.stderr.write('\\r 10%|#   | 1/10')\n"
        "sys.stderr.write('\\r 20%|##  | 2/10')\nraise KeyError('loss')\n",
        236,
        "KeyError: 'loss'",
    ),
    "coloured": Program(
        "import sys\nsys.stderr.write('\\x1b[31mfatal: \\x1b[1mno data\\x1b[0m\\n')\nsys.exit(3)\n",
        237,
        "fatal: no data",
    ),
    "failure while it ends": Program(
        "class A:\n    def __del__(self): raise RuntimeError('late')\na = A()\nraise ValueError('first')\n",
        236,
        "ValueError: first",
    ),
    "worker process": Program(
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'raise ValueError(5)'], check=True)\n",
        236,
        "ValueError: 5",
    ),
    "sys.exit with a message": Program("import sys\nsys.exit('give --data')\n", 255, "give --data"),
    "arguments": Program(
        "import argparse\np = argparse.ArgumentParser('train.py')\n"
        "p.add_argument('--lr', required=True)\np.parse_args([])\n",
        228,
        r"train\.py: error: the following arguments are required: --lr",
    ),
    "abort": Program(
        "import faulthandler, os\nfaulthandler.enable()\nos.abort()\n", 134, "Fatal Python error: Aborted"
    ),
    "segmentation fault": Program(
        "import faulthandler\nfaulthandler.enable()\nfaulthandler._sigsegv()\n",
        139,
        "Fatal Python error: Segmentation fault",
    ),
    "silent": Program("import sys\nsys.exit(7)\n", 255, ""),
}

SHELL: Final = {
    "missing script": Program(
        "python3 train.py", 238, r"\S*python3: can't open file '.*train\.py': \[Errno 2\] No such .*"
    ),
    "missing main module": Program("python3 -m trainer", 232, r"\S*python3: No module named trainer"),
    "missing directory": Program("cd /no/data", 237, r"\S*sh: (?:(?:line )?\d+: cd: |cd: line \d+: ).*/no/data.*"),
    "missing file": Program("cat /no/data.csv", 237, r"cat: /no/data\.csv: No such file or directory"),
    "missing shell script": Program("sh no.sh", 238, r"sh: (?:0: cannot open )?no\.sh.*"),
    "missing program": Program("trian --lr 1", 220, r"\S*sh: (?:line )?\d+: trian: .*not found"),
    "no permission": Program("touch f; ./f", 220, r"\S*sh: (?:line )?\d+: \./f: Permission denied"),
    "full disk": Program("cp /etc/passwd /dev/full", 242, r"cp: .*No space left on device"),
    "unset variable": Program("set -u; echo $NO_SUCH", 237, r"\S*sh: .*NO_SUCH.*"),
    "archive": Program("tar xf no.tar", 237, r"tar: no\.tar: Cannot open: No such file or directory"),
    "error in the standard output": Program(
        "echo 'ERROR: the data set is empty'; exit 4", 237, "ERROR: the data set is empty"
    ),
    "words only": Program("echo 'loss is 3.5'; echo 'error: 0.25'; exit 4", 255, "error: 0.25"),
}

RECORDED: Final = {
    "C++ exception": Recorded(
        134,
        "terminate called after throwing an instance of 'std::out_of_range'\n"
        "  what():  vector::_M_range_check: __n (which is 7) >= this->size() (which is 3)\n",
        134,
        "terminate called after throwing an instance of 'std::out_of_range' what():  vector::_M_range_check: "
        "__n (which is 7) >= this->size() (which is 3)",
    ),
    "C++ thread": Recorded(
        134, "terminate called without an active exception\n", 134, "terminate called without an active exception"
    ),
    "C assertion": Recorded(
        134,
        "b: b.cc:2: int main(int, char**): Assertion `c==2' failed.\n",
        134,
        "b: b.cc:2: int main(int, char**): Assertion `c==2' failed.",
    ),
    "C heap": Recorded(
        134, "free(): double free detected in tcache 2\n", 134, "free(): double free detected in tcache 2"
    ),
    "C null pointer": Recorded(139, "", 139, ""),
    "C null pointer in a script": Recorded(
        139,
        "/data/user.sh: line 4: 77 Segmentation fault      (core dumped) ./work\n",
        139,
        "/data/user.sh: line 4: 77 Segmentation fault      (core dumped) ./work",
    ),
    "Java": Recorded(
        1,
        'Exception in thread "main" java.lang.RuntimeException: cannot train\n'
        "\tat M.f(M.java:1)\n\tat M.main(M.java:1)\n"
        'Caused by: java.lang.NullPointerException: Cannot invoke "Object.hashCode()" because "<local0>" is null\n'
        "\tat M.f(M.java:1)\n\tat M.main(M.java:1)\n"
        "\tat java.base/java.lang.reflect.Method.invoke(Method.java:569)\n",
        236,
        'Exception in thread "main" java.lang.RuntimeException: cannot train (after java.lang.NullPointerException: '
        'Cannot invoke "Object.hashCode()" because "<local0>" is null)',
    ),
    "Java without the class": Recorded(
        1,
        "Error: Could not find or load main class Nope\nCaused by: java.lang.ClassNotFoundException: Nope\n",
        220,
        "Error: Could not find or load main class Nope",
    ),
    "Node.js": Recorded(
        1,
        "/tmp/x.js:1\nconst c={}; c.model.layers\n                    ^\n\n"
        "TypeError: Cannot read properties of undefined (reading 'layers')\n"
        "    at Object.<anonymous> (/tmp/x.js:1:21)\n"
        "    at Module._compile (node:internal/modules/cjs/loader:1521:14)\n"
        "    at node:internal/main/run_main_module:28:49\n\nNode.js v20.20.2\n",
        236,
        "TypeError: Cannot read properties of undefined (reading 'layers')",
    ),
    "Node.js without the script": Recorded(
        1,
        "node:internal/modules/cjs/loader:1210\n  throw err;\n  ^\n\nError: Cannot find module '/tmp/nope.js'\n"
        "    at Module._resolveFilename (node:internal/modules/cjs/loader:1207:15)\n"
        "  code: 'MODULE_NOT_FOUND',\n  requireStack: []\n}\n\nNode.js v20.20.2\n",
        232,
        "Error: Cannot find module '/tmp/nope.js'",
    ),
    "Rust": Recorded(
        101,
        "\nthread 'main' (1039) panicked at r.rs:1:81:\nindex out of bounds: the len is 3 but the index is 10\n"
        "stack backtrace:\n   0: __rustc::rust_begin_unwind\n"
        "note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.\n",
        236,
        "thread 'main' (1039) panicked at r.rs:1:81: index out of bounds: the len is 3 but the index is 10",
    ),
    "Perl": Recorded(255, "no data at -e line 1.\n", 237, "no data at -e line 1."),
    "git": Recorded(
        128,
        "Cloning into 'x'...\nfatal: '/nope/x' does not appear to be a git repository\n"
        "fatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights\n"
        "and the repository exists.\n",
        237,
        "fatal: '/nope/x' does not appear to be a git repository",
    ),
    "pip": Recorded(
        1,
        "ERROR: Could not find a version that satisfies the requirement nopenope (from versions: none)\n"
        "ERROR: No matching distribution found for nopenope\n",
        232,
        "ERROR: Could not find a version that satisfies the requirement nopenope (from versions: none)",
    ),
    "curl": Recorded(
        7,
        "curl: (7) Failed to connect to 127.0.0.1 port 1 after 0 ms: Couldn't connect to server\n",
        241,
        "curl: (7) Failed to connect to 127.0.0.1 port 1 after 0 ms: Couldn't connect to server",
    ),
    "make": Recorded(
        2, "make: *** No rule to make target 'nope'.  Stop.\n", 237, "make: *** No rule to make target 'nope'.  Stop."
    ),
}
