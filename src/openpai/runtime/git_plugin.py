"""The plugin `git`: checks a repository out before the task's commands run.

The image needs git. Credentials reach git through a helper that reads variables of its own shell, so that they are
neither in the address, nor in the command line, nor in the checked out repository. The repository is asked for its
references first, so that one that cannot be reached fails the task within half a minute and says so.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

from openpai.protocol.findings import Finding
from openpai.protocol.references import entries
from openpai.runtime.plugin import PluginCommands, PluginContext

REACH_S: Final = 25
_TEXTS: Final = ("repo_uri", "repository", "ref", "clone_dir", "username", "password", "token")
_KNOWN: Final = (*_TEXTS, "options")
_CREDENTIALS_IN_URL: Final = re.compile(r"://[^/@]*:[^/@]*@")

_SCRIPT: Final = r"""repo=@REPO@ ref=@REF@ goal=@GOAL@
case $goal in /*) ;; *) goal="${PAI_WORK_DIR:-$PWD}/$goal" ;; esac
fail() { echo "[openpai-runtime] git: $*" >&2; exit 1; }
command -v git >/dev/null 2>&1 || fail "this image has no git; use one that has, or send code: pai job submit --code"
if [ -e "$goal" ] && [ -n "$(ls -A "$goal" 2>/dev/null)" ]; then
    fail "cannot check out into $goal: it is not empty; choose another clone_dir"
fi
aside=$(mktemp -d) || fail "no temporary directory can be made"
trap 'rm -rf "$aside"' EXIT
export GIT_TERMINAL_PROMPT=0 GIT_HTTP_LOW_SPEED_LIMIT=1000 GIT_HTTP_LOW_SPEED_TIME=30
ssh_options='-o BatchMode=yes -o ConnectTimeout=20 -o StrictHostKeyChecking=accept-new'
export GIT_SSH_COMMAND="${GIT_SSH_COMMAND:-ssh} $ssh_options"
@CREDENTIALS@
git ls-remote --quiet -- "$repo" HEAD >/dev/null 2>"$aside/said" &
asking=$! waited=0
while kill -0 "$asking" 2>/dev/null; do
    if [ "$waited" -ge @REACH@ ]; then
        kill "$asking" 2>/dev/null
        fail "$repo did not answer within @REACH@ s; check its address, and whether nodes may reach it"
    fi
    sleep 1
    waited=$((waited + 1))
done
wait "$asking" || fail "$repo cannot be read: $(tail -n 3 "$aside/said" | tr '\n' ' ')"
git clone --quiet @OPTIONS@ -- "$repo" "$goal" || fail "$repo could not be cloned into $goal"
if [ -n "$ref" ]; then
    cd "$goal"
    git checkout --quiet --detach "origin/$ref" -- 2>/dev/null || git checkout --quiet --detach "$ref" -- 2>/dev/null ||
        { git fetch --quiet origin -- "$ref" && git checkout --quiet --detach FETCH_HEAD --; } ||
        fail "$repo has no ref $ref"
fi
echo "[openpai-runtime] git: checked out $repo${ref:+ at $ref} in $goal"
"""

_ASK: Final = r"""export PAI_GIT_USER=@USER@ PAI_GIT_PASSWORD=@PASSWORD@
cat >"$aside/ask" <<'ASK'
#!/bin/sh
case $1 in Username*) echo "$PAI_GIT_USER" ;; *) echo "$PAI_GIT_PASSWORD" ;; esac
ASK
chmod 700 "$aside/ask"
export GIT_ASKPASS="$aside/ask"
"""


class GitPlugin:
    """Clones `repo_uri` into `clone_dir` and checks `ref` out."""

    def faults(self, parameters: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield a missing address, values that are no text, and passwords that are written out."""
        if not parameters.get("repo_uri") and not parameters.get("repository"):
            yield Finding(("repo_uri",), "is missing", "the address of a repository: https://host/team/code.git")
        for key in _TEXTS:
            if key in parameters and not isinstance(parameters[key], str):
                yield Finding((key,), "must be text", "text")
        options = parameters.get("options")
        if options is not None and not (isinstance(options, list) and all(isinstance(one, str) for one in options)):
            yield Finding(("options",), "must be a list of texts", "options of git clone, such as --depth=1")
        for at, option in enumerate(entries(options)):
            if isinstance(option, str) and _words(option) is None:
                yield Finding(("options", at), "has a quote that does not end", "options of git clone")
        for key in ("password", "token"):
            if isinstance(parameters.get(key), str) and "<%" not in parameters[key]:
                yield Finding((key,), "is written out", "a secret, referred to as <% $secrets.git_token %>")
        if _CREDENTIALS_IN_URL.search(str(parameters.get("repo_uri") or parameters.get("repository") or "")):
            yield Finding(("repo_uri",), "has a password in it", "username and password beside it, as secrets")
        for key in parameters:
            if key not in _KNOWN:
                yield Finding((key,), "is not a parameter of this plugin", ", ".join(_KNOWN))

    def commands(self, parameters: Mapping[str, Any], context: PluginContext) -> PluginCommands:
        """Return the script that clones the repository."""
        password = str(parameters.get("password") or parameters.get("token") or "")
        user = str(parameters.get("username") or ("oauth2" if password else ""))
        asks = _ASK.replace("@USER@", shlex.quote(user)).replace("@PASSWORD@", shlex.quote(password))
        options = [word for option in entries(parameters.get("options")) for word in _words(str(option)) or ()]
        values = {
            "REPO": shlex.quote(str(parameters.get("repo_uri") or parameters.get("repository"))),
            "REF": shlex.quote(str(parameters.get("ref") or "")),
            "GOAL": shlex.quote(str(parameters.get("clone_dir") or "code")),
            "OPTIONS": shlex.join(options),
            "REACH": str(REACH_S),
            "CREDENTIALS": asks if password else "",
        }
        # In one pass, since a value may look like a place for another.
        return PluginCommands(re.sub("@([A-Z]+)@", lambda place: values[place[1]], _SCRIPT))


def _words(option: str) -> list[str] | None:
    try:
        return shlex.split(option)
    except ValueError:
        return None
