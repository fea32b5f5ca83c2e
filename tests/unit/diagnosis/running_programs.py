"""Programs that fail when they are run, each with the cause that its log shows.

They run in bash in an empty directory, most of them Python: `$PY` is the interpreter, `$FREE` a port not in use.
Those with `is_mounting` run in a mount namespace of their own, which takes the rights of root.
"""

# ruff: noqa: E501  # a program is read better in one line

from __future__ import annotations

from typing import Final, NamedTuple


class Running(NamedTuple):
    """A script that fails, the causes that are right for it, and what is to be quoted."""

    script: str
    causes: str
    """Separated by blanks, the best first; `unknown` for what no rule can know."""
    quoted: str
    """A regular expression that is in the quoted line."""
    needs: str = ""
    """The programs that must be installed, separated by blanks."""
    is_mounting: bool = False


def python(text: str) -> str:
    """Return a script that runs a Python program."""
    return f"cat > train.py <<'END'\n{text}\nEND\n$PY train.py\n"


_TMPFS: Final = "mkdir -p full && mount -t tmpfs -o size=64k tmpfs full\n"
_TLS: Final = """
import ssl, threading, socket, urllib.request
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain('cert.pem', 'key.pem')
server = socket.create_server(('127.0.0.1', 0))
def serve():
    try:
        context.wrap_socket(server.accept()[0], server_side=True)
    except OSError:
        pass
threading.Thread(target=serve, daemon=True).start()
urllib.request.urlopen(f'https://127.0.0.1:{server.getsockname()[1]}/data.tar')
"""
_HTTP: Final = """
import http.server, threading, urllib.request
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_error(STATUS)
    def log_message(self, *_): pass
server = http.server.HTTPServer(('127.0.0.1', 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
urllib.request.urlopen(f'http://127.0.0.1:{server.server_port}/data.tar')
"""
_RESET: Final = """
import socket, struct, threading
server = socket.create_server(('127.0.0.1', 0))
def serve():
    taken = server.accept()[0]
    taken.recv(1)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    taken.close()
threading.Thread(target=serve).start()
peer = socket.create_connection(server.getsockname())
peer.send(b'xx')
peer.recv(1)
peer.recv(1)
"""
_LIBRARY: Final = """
echo 'int f(void){return 1;}' > f.c; echo 'int f(void); int main(void){return f();}' > main.c
gcc -shared -fPIC -o libgrad.so f.c && gcc -o work main.c -L. -lgrad || exit 9
rm libgrad.so; ./work
"""

PROGRAMS: Final = {
    # modules and packages
    "missing module": Running(python("import flash_attn_nope"), "missing_module", "flash_attn_nope"),
    "module in a package": Running(
        python("import numpy.nope"), "missing_module", "No module named 'numpy.nope'", "numpy"
    ),
    "missing main module": Running("$PY -m trainer.main", "missing_module", "No module named"),
    "moved name": Running(python("from collections import Mapping"), "version_conflict", "cannot import name 'Mapping'"),
    "shared library that is missing": Running(_LIBRARY, "missing_module", r"libgrad\.so", "gcc"),
    "shared library by name": Running(
        python("import ctypes; ctypes.CDLL('libnccl_nope.so.2')"), "missing_module version_conflict", "libnccl_nope"
    ),
    "numpy's removed name": Running(python("import numpy\nnumpy.float(3)"), "version_conflict", "float", "numpy"),
    "package that is not there": Running(
        "$PY -m pip install --no-index nopenope", "version_conflict", "nopenope", "pip"
    ),
    # A wheel made by hand: what builds one differs between machines.
    "packages that conflict": Running(
        python(
            "import zipfile\n"
            "wheel = zipfile.ZipFile('a-1-py3-none-any.whl', 'w')\n"
            "said = 'Metadata-Version: 2.1\\nName: a\\nVersion: 1\\nRequires-Python: >=99\\n'\n"
            "wheel.writestr('a-1.dist-info/METADATA', said)\n"
            "wheel.writestr('a-1.dist-info/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n"
            "wheel.writestr('a-1.dist-info/RECORD', '')\n"
            "wheel.close()"
        )
        + "\n$PY -m pip install --no-index --no-deps ./a-1-py3-none-any.whl",
        "version_conflict unknown",
        "requires a different Python",
        "pip",
    ),
    # code
    "syntax": Running(python("def f(:"), "syntax_error", "SyntaxError"),
    "indentation": Running(python("def f():\nreturn 1"), "syntax_error", "IndentationError"),
    "tabs": Running(python("if 1:\n\tx = 1\n        y = 2"), "syntax_error", "TabError"),
    "shell syntax": Running("echo 'if then fi' > a.sh; bash a.sh", "syntax_error", "syntax error"),
    "shell quote": Running("printf 'echo \"a\\n' > a.sh; bash a.sh", "syntax_error", "unexpected EOF"),
    "key": Running(python("{}['optimizer']"), "type_or_key_error", "KeyError: 'optimizer'"),
    "attribute": Running(python("None.shape"), "type_or_key_error", "'NoneType' object has no attribute 'shape'"),
    "name": Running(python("print(modle)"), "type_or_key_error", "name 'modle' is not defined"),
    "type": Running(python("len(3)"), "type_or_key_error", "has no len"),
    "recursion": Running(python("def f(): f()\nf()"), "type_or_key_error", "RecursionError"),
    "pickle of a lambda": Running(
        python("import pickle; pickle.dumps(lambda: 1)"), "type_or_key_error unknown", "pickle"
    ),
    "value": Running(python("int('ten')"), "value_or_shape_error", "invalid literal"),
    "index": Running(python("[1][5]"), "value_or_shape_error", "list index out of range"),
    "division": Running(python("1 / 0"), "value_or_shape_error", "division by zero"),
    "shapes": Running(
        python("import numpy as n\nn.ones((3, 4)) @ n.ones((3, 4))"), "value_or_shape_error", "matmul", "numpy"
    ),
    "broadcast": Running(
        python("import numpy as n\nn.ones(3) + n.ones(4)"), "value_or_shape_error", "could not be broadcast", "numpy"
    ),
    "reshape": Running(python("import numpy as n\nn.ones(10).reshape(3, 4)"), "value_or_shape_error", "reshape", "numpy"),
    "singular matrix": Running(
        python("import numpy as n\nn.linalg.inv(n.zeros((2, 2)))"), "value_or_shape_error", "Singular", "numpy"
    ),
    "shapes in PyTorch": Running(
        python("import torch\ntorch.ones(3, 4) @ torch.ones(3, 4)"), "value_or_shape_error", "mat1 and mat2", "torch"
    ),
    "assertion": Running(python("assert 1 == 2, 'the ranks differ'"), "assertion_user", "the ranks differ"),
    "loss that is no number": Running(
        python("loss = float('nan')\nif loss != loss: raise FloatingPointError(f'loss is {loss} at step 3')"),
        "nan_loss_stop",
        "loss is nan",
    ),
    "warning as an error": Running(
        python("import numpy as n\nn.seterr(all='raise')\nn.float32(1e38) * n.float32(1e38)"), "unknown value_or_shape_error", "overflow",
        "numpy",
    ),
    # configuration
    "yaml": Running(python("import yaml\nyaml.safe_load('a: b: c')"), "value_or_shape_error", "mapping values|yaml", "yaml"),
    "toml": Running(python("import tomllib\ntomllib.loads('a = ')"), "value_or_shape_error", "TOMLDecodeError"),
    "ini": Running(
        python("import configparser\nconfigparser.ConfigParser().read_string('lr = 1')"), "value_or_shape_error", "section header"
    ),
    "json": Running(python("import json\njson.loads('{')"), "dataset_corrupt value_or_shape_error", "JSONDecodeError"),
    "missing argument": Running(
        python("import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr', required=True)\np.parse_args()"), "wrong_argument",
        "--lr",
    ),
    "unknown option": Running("ls --nope", "wrong_argument", "unrecognized option"),
    "keyword argument": Running(python("def f(): ...\nf(lr=1)"), "wrong_argument type_or_key_error", "unexpected keyword"),
    # files
    "missing file": Running(python("open('/no/train.csv')"), "file_not_found", "/no/train.csv"),
    "missing file of a tool": Running("cat /no/train.csv", "file_not_found", "/no/train.csv"),
    "missing script": Running("$PY no_such.py", "script_not_found file_not_found", "no_such.py"),
    "directory instead of a file": Running(python("open('/')"), "unknown file_not_found", "IsADirectoryError"),
    "directory that is not empty": Running("mkdir -p a/b; rmdir a", "unknown", "not empty"),
    "no right to read": Running(
        "touch secret; chmod 0 secret; chmod 777 .; setpriv --reuid 65534 --clear-groups cat secret", "permission_denied",
        "Permission denied", "setpriv",
    ),
    "no right in Python": Running(
        "chmod 755 .; setpriv --reuid 65534 --clear-groups /usr/bin/python3 -c \"open('out.pt', 'w')\"", "permission_denied",
        "Permission denied", "setpriv",
    ),
    "full device": Running(python("with open('/dev/full', 'w') as f: f.write('x' * 99999)"), "disk_full", "No space left"),
    "full file system": Running(_TMPFS + python("open('full/model.pt', 'wb').write(bytes(1 << 20))"), "disk_full", "No space left", is_mounting=True),
    "full file system and a tool": Running(_TMPFS + "head -c 1000000 /dev/zero > full/a", "disk_full", "No space left", is_mounting=True),
    "no inodes": Running(
        "mkdir -p full; mount -t tmpfs -o nr_inodes=3 tmpfs full; touch full/1 full/2 full/3 full/4", "disk_full", "No space left", is_mounting=True
    ),
    "read-only file system": Running(
        "mkdir -p ro; mount -t tmpfs -o ro tmpfs ro\n" + python("open('ro/a', 'w')"), "mount_failed permission_denied", "Read-only", is_mounting=True
    ),
    "small shared memory": Running(
        "mount -t tmpfs -o size=64k tmpfs /dev/shm; head -c 1000000 /dev/zero > big; cp big /dev/shm/torch_7_1", "shm_too_small", "/dev/shm",
        is_mounting=True,
    ),
    "mount that fails": Running("mkdir -p m; mount -t ext4 /dev/null m", "mount_failed", "mount: ", is_mounting=True),
    "unknown file system": Running("mkdir -p m; mount -t nopefs none m", "mount_failed", "mount: ", is_mounting=True),
    "file size limit": Running(
        "ulimit -f 1\n" + "$PY -c \"open('a', 'wb').write(bytes(1 << 20))\"", "quota_exceeded disk_full", "File too large|File size limit"
    ),
    "open files": Running("ulimit -n 16\n" + python("a = [open('/dev/null') for _ in range(99)]"), "open_files", "Too many open files"),
    # data and checkpoints
    "encoding": Running(python("open('a', 'wb').write(b'\\xff')\nopen('a', encoding='utf-8').read()"), "dataset_corrupt", "can't decode"),
    "no gzip": Running("echo x > a.gz; gzip -t a.gz", "dataset_corrupt", "not in gzip format", "gzip"),
    "gzip in Python": Running(python("open('a', 'w').write('x' * 20)\nimport gzip\ngzip.open('a').read()"), "dataset_corrupt", "Not a gzipped"),
    "cut archive": Running(
        "head -c 100000 /dev/urandom > d; tar cf a.tar d; head -c 5000 a.tar > b.tar; tar xf b.tar", "dataset_corrupt", "Unexpected EOF", "tar"
    ),
    "no zip": Running(python("open('a', 'w').write('x')\nimport zipfile\nzipfile.ZipFile('a')"), "dataset_corrupt", "BadZipFile"),
    "zlib": Running(python("import zlib\nzlib.decompress(b'abc')"), "dataset_corrupt", "zlib.error"),
    "cut pickle": Running(
        python("import pickle\npickle.loads(pickle.dumps([1] * 9)[:-3])"), "checkpoint_corrupt_or_mismatch dataset_corrupt", "truncated|Ran out"
    ),
    "empty pickle": Running(python("import pickle\npickle.loads(b'')"), "dataset_corrupt", "Ran out of input"),
    "cut numpy file": Running(
        python("import numpy as n\nn.save('a.npy', n.ones(99))\nopen('b.npy', 'wb').write(open('a.npy', 'rb').read()[:200])\nn.load('b.npy')"),
        "dataset_corrupt value_or_shape_error", "reshape|read", "numpy",
    ),
    "state of another model": Running(
        python("import torch\ntorch.nn.Linear(2, 2).load_state_dict({})"), "checkpoint_corrupt_or_mismatch", "loading state_dict", "torch"
    ),
    "sqlite": Running(
        python("import sqlite3\nopen('a', 'w').write('x' * 4096)\nsqlite3.connect('a').execute('select * from t')"), "unknown dataset_corrupt",
        "not a database",
    ),
    # the network
    "port in use": Running(
        python("import socket\na = socket.create_server(('', 0))\nsocket.create_server(a.getsockname()[:2])"), "port_in_use", "in use"
    ),
    "name in Python": Running(
        python("import urllib.request\nurllib.request.urlopen('http://data.invalid/x')"), "download_failed", "Name or service|Temporary failure|URLError"
    ),
    "name in curl": Running("curl -sS http://data.invalid/x", "download_failed", "Could not resolve host", "curl"),
    "name in wget": Running("wget -q --tries=1 http://data.invalid/x || wget --tries=1 http://data.invalid/x", "download_failed", "[Rr]esolv", "wget"),
    "name in git": Running("git clone -q https://data.invalid/a.git", "download_failed", "Could not resolve host", "git"),
    "repository that is not there": Running("git clone -q /no/repository r", "file_not_found unknown", "does not (exist|appear)", "git"),
    "branch that is not there": Running(
        "git init -q a; git -C a checkout -q nope", "unknown", "pathspec 'nope'", "git"
    ),
    "refused": Running(python("import os, socket\nsocket.create_connection(('127.0.0.1', int(os.environ['FREE'])))"), "download_failed", "refused"),
    "refused to curl": Running("curl -sS http://127.0.0.1:$FREE/", "download_failed", "Failed to connect|Couldn't connect", "curl"),
    "403": Running(python(_HTTP.replace("STATUS", "403")), "download_failed permission_denied", "403"),
    "404": Running(python(_HTTP.replace("STATUS", "404")), "download_failed", "404"),
    "503": Running(python(_HTTP.replace("STATUS", "503")), "download_failed", "503"),
    "certificate": Running(
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 1 -subj /CN=a 2> /dev/null\n" + python(_TLS),
        "download_failed", "CERTIFICATE_VERIFY_FAILED", "openssl",
    ),
    "time-out of a connection": Running(
        python("import socket\ns = socket.create_server(('127.0.0.1', 0))\nc = socket.create_connection(s.getsockname(), timeout=0.2)\nc.recv(1)"),
        "download_failed peer_lost unknown", "timed out",
    ),
    "reset": Running(python(_RESET), "peer_lost", "Connection reset by peer"),
    "pipe": Running(python("import os, signal\nr, w = os.pipe()\nos.close(r)\nos.write(w, b'x')"), "peer_lost", "Broken pipe"),
    # commands
    "missing command": Running("trian --lr 1", "entrypoint_not_found", "trian: command not found"),
    "command without the right": Running("echo x > run; ./run", "entrypoint_not_found permission_denied", "Permission denied"),
    "other processor": Running(
        "printf '\\x7fELF\\x02\\x01\\x01\\0\\0\\0\\0\\0\\0\\0\\0\\0\\x02\\0\\xb7\\0\\x01\\0\\0\\0' > a; head -c 200 /dev/zero >> a; chmod +x a; ./a",
        "wrong_architecture", "Exec format error|cannot execute binary",
    ),
    "missing interpreter": Running("printf '#!/bin/nope\\n' > a; chmod +x a; ./a", "entrypoint_not_found", "interpreter|No such file|required file"),
    "CRLF": Running("printf '#!/usr/bin/env python3\\r\\n' > a; chmod +x a; ./a", "entrypoint_not_found", "python3|interpreter"),
    "env without the command": Running("env nope_cmd", "entrypoint_not_found", "nope_cmd"),
    "missing class": Running("node -e \"require('./nope')\"", "missing_module", "Cannot find module", "node"),
    "node": Running("node -e 'null.x'", "type_or_key_error", "Cannot read properties", "node"),
    "perl module": Running("perl -e 'use Nope::Nope;'", "missing_module", "Nope", "perl"),
    "make": Running("echo 'all: ; $(PY) -c \"{}[1]\"' > Makefile; make", "type_or_key_error", "KeyError: 1", "make"),
    "compiler": Running("echo '#include <nope.h>' > a.c; gcc -c a.c", "missing_module", r"nope\.h", "gcc"),
    # memory, signals, processes
    "memory": Running("ulimit -v 400000\n" + python("x = bytearray(1 << 34)"), "host_memory_refused", "MemoryError"),
    "memory of numpy": Running(python("import numpy as n\nn.ones(1 << 50)"), "host_memory_refused", "Unable to allocate|Maximum allowed", "numpy"),
    "C++ memory": Running(
        "echo 'int main(){ new char[1L << 60]; }' > a.cc; g++ -O0 -o a a.cc 2> /dev/null; ./a", "host_memory_refused", "bad_alloc|bad_array", "g++"
    ),
    "segmentation fault": Running("$PY -X faulthandler -c 'import ctypes; ctypes.string_at(0)'", "segfault", "Segmentation fault"),
    "segmentation fault in silence": Running("exec $PY -c 'import ctypes; ctypes.string_at(0)'", "segfault", ""),
    "abort": Running("echo '#include <assert.h>\nint main(){ assert(1 == 2); }' > a.c; gcc -o a a.c; ./a", "assertion_user", "1 == 2", "gcc"),
    "double free": Running(
        "printf '#include <stdlib.h>\\nint main(){ char*volatile a=malloc(9); free(a); free(a); }' > a.c; gcc -w -o a a.c; exec ./a", "unknown core_dumped",
        "double free", "gcc",
    ),
    "illegal instruction": Running("exec $PY -c 'import os; os.kill(os.getpid(), 4)'", "illegal_instruction", ""),
    "killed": Running("$PY -c 'import os; os.kill(os.getpid(), 9)'; exit $?", "python_killed_signal9_unknown unknown", "Killed|"),
    "terminated": Running("exec $PY -c 'import os; os.kill(os.getpid(), 15)'", "unknown", ""),
    "interrupted": Running(
        python("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)"), "keyboard_interrupt_or_user_stop", "KeyboardInterrupt"
    ),
    "floating point signal": Running("exec $PY -c 'import os; os.kill(os.getpid(), 8)'", "unknown", ""),
    "deadlock until the time-out": Running(
        "timeout -v 0.5 $PY -c 'import threading as t; a = t.Lock(); a.acquire(); a.acquire()'", "time_limit", "sending signal", "timeout"
    ),
    "child process": Running(
        python("import subprocess, sys\nsubprocess.run([sys.executable, '-c', '{}[7]'], check=True)"), "type_or_key_error", "KeyError: 7"
    ),
    "worker of a group of processes": Running(
        python("import concurrent.futures as f, os\nif __name__ == '__main__':\n  with f.ProcessPoolExecutor(1) as p: p.submit(os._exit, 3).result()"),
        "unknown peer_lost python_killed_signal9_unknown", "BrokenProcessPool",
    ),
    "worker that raises": Running(
        python("import multiprocessing as m\nif __name__ == '__main__':\n  with m.Pool(1) as p: p.map(int, ['x'])"), "value_or_shape_error", "invalid literal"
    ),
    "exception group": Running(python("raise ExceptionGroup('g', [KeyError('shard')])"), "type_or_key_error", "shard"),
    "thread": Running(
        python("import threading, sys\ndef f(): {}['x']\nt = threading.Thread(target=f)\nt.start(); t.join(); sys.exit(1)"), "type_or_key_error", "KeyError: 'x'"
    ),
    "message only": Running("echo 'FATAL: no licence'; echo bye; exit 3", "unknown", "no licence"),
    "words only": Running("echo 'the solver diverged at step 9'; echo bye; exit 3", "unknown", "diverged"),
    "nothing": Running("exit 7", "unknown", ""),
}  # fmt: skip
