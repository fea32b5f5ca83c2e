"""The plugin `ssh`: tasks of a job reach each other as `ssh ROLE-INDEX`, and its owner reaches them with their keys.

Nothing outside the task is changed: keys, configuration and wrappers of `ssh`, `scp` and `sftp` are in a directory of
the task's own that comes first in PATH, because on a machine without containers the home directory is a person's.
Only in a container the files are also where other programs look for them, in `~/.ssh`. The image needs OpenSSH; without
its server the task goes on with a message, since `pai job ssh` and `pai job exec` need none.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

from openpai.protocol.findings import Finding
from openpai.protocol.references import mapping
from openpai.runtime.plugin import PluginCommands, PluginContext

BARRIER_MINUTES: Final = 30
_KNOWN: Final = ("jobssh", "sshbarrier", "sshbarrierTimeout", "userssh")
_PUBLIC_KEY: Final = re.compile(r"(ssh-(rsa|ed25519|dss)|ecdsa-sha2-\S+|sk-\S+@openssh\.com) [A-Za-z0-9+/=]+( .*)?")

_SCRIPT: Final = r"""note() { echo "[openpai-runtime] ssh: $*" >&2; }
own=/usr/local/pai
[ -d "$own" ] && [ -w "$own" ] && dir=$own/ssh || dir=$PAI_WORK_DIR/.pai-ssh
umask 077
mkdir -p "$dir/bin" || { note "cannot make $dir"; exit 1; }
@KEYS@
cat >"$dir/authorized_keys" <<'AUTHORIZED'
@AUTHORIZED@
AUTHORIZED
: >"$dir/config"
if [ -n "@JOBSSH@" ] && [ -n "${PAI_HOSTS_FILE-}" ]; then
    me=$(id -un 2>/dev/null || id -u)
    while read -r role index host ports; do
        port=
        for one in $ports; do
            case $one in ssh=*) port=${one#ssh=} port=${port%%,*} ;; esac
        done
        printf 'Host %s-%s\n  HostName %s\n  Port %s\n  User %s\n' "$role" "$index" "$host" "${port:-22}" "$me"
        printf '  IdentityFile "%s/id"\n  IdentitiesOnly yes\n' "$dir"
        printf '  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n'
    done <"$PAI_HOSTS_FILE" >"$dir/config"
fi
for name in ssh scp sftp; do
    if program=$(command -v "$name"); then
        printf '#!/bin/sh\nexec "%s" -F "%s" "$@"\n' "$program" "$dir/config" >"$dir/bin/$name"
        chmod 755 "$dir/bin/$name"
    fi
done
if [ "$dir" = "$own/ssh" ] && [ -n "${HOME-}" ] && mkdir -p "$HOME/.ssh" 2>/dev/null; then
    cat "$dir/config" >>"$HOME/.ssh/config"
    cat "$dir/authorized_keys" >>"$HOME/.ssh/authorized_keys"
    if [ -n "@JOBSSH@" ] && [ ! -e "$HOME/.ssh/id_ed25519" ]; then cp "$dir/id" "$HOME/.ssh/id_ed25519"; fi
fi
export -p >"$dir/environment"
cat >"$dir/session" <<SESSION
. "$dir/environment"
PATH="$dir/bin:\$PATH"
if [ -n "\$SSH_ORIGINAL_COMMAND" ]; then exec "\${SHELL:-/bin/sh}" -c "\$SSH_ORIGINAL_COMMAND"; fi
exec "\${SHELL:-/bin/sh}"
SESSION
server=$(command -v sshd || for one in /usr/sbin/sshd /usr/local/sbin/sshd; do [ ! -x "$one" ] || echo "$one"; done)
port=${PAI_CONTAINER_SSH_PORT-}
if [ -z "$server" ]; then
    note "this image has no sshd, so no ssh into this task; 'pai job ssh' and 'pai job exec' need none"
elif [ -z "$port" ]; then
    note "the task has no port labelled ssh, so sshd is not started"
elif ! ssh-keygen -q -t ed25519 -N '' -f "$dir/host_key" </dev/null; then
    note "no key can be made for sshd, so it is not started"
else
    subsystem=
    for one in /usr/lib/openssh/sftp-server /usr/libexec/openssh/sftp-server /usr/lib/ssh/sftp-server; do
        [ ! -x "$one" ] || subsystem="Subsystem sftp $one"
    done
    cat >"$dir/sshd_config" <<CONFIG
Port $port
HostKey $dir/host_key
AuthorizedKeysFile $dir/authorized_keys
PidFile none
PermitRootLogin without-password
PasswordAuthentication no
ChallengeResponseAuthentication no
UsePAM no
StrictModes no
ForceCommand /bin/sh $dir/session
$subsystem
CONFIG
    [ "$(id -u)" != 0 ] || mkdir -p /run/sshd 2>/dev/null || true
    "$server" -D -e -f "$dir/sshd_config" </dev/null >"$dir/sshd.log" 2>&1 &
    note "sshd listens on port $port"
fi
@BARRIER@
"""

_BARRIER: Final = r"""left=@TRIES@
for peer in @PEERS@; do
    if [ "$peer" = "$PAI_CURRENT_TASK_ROLE_NAME-$PAI_TASK_INDEX" ]; then continue; fi
    until "$dir/bin/ssh" -o BatchMode=yes -o ConnectTimeout=5 "$peer" true 2>"$dir/barrier.log" </dev/null; do
        left=$((left - 1))
        if [ "$left" -le 0 ]; then
            note "SSH barrier reaches max retry count: $peer does not answer: $(tail -n 1 "$dir/barrier.log")"
            exit 10
        fi
        sleep 2
    done
done
note "all tasks of the job can be reached"
"""

_CLEAN: Final = r"""if [ ! -d /usr/local/pai/ssh ]; then rm -rf "$PAI_WORK_DIR/.pai-ssh"; fi"""


class SshPlugin:
    """Puts keys in place and starts sshd where the image has one."""

    def faults(self, parameters: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield switches that are none, a time limit that is none, and a public key that cannot be one."""
        for key in ("jobssh", "sshbarrier"):
            if key in parameters and not isinstance(parameters[key], bool):
                yield Finding((key,), "must be true or false", "true or false")
        limit = parameters.get("sshbarrierTimeout", BARRIER_MINUTES)
        if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not 0 < limit <= 60 * 24:
            yield Finding(("sshbarrierTimeout",), "is not a time limit", "minutes, at most a day")
        user = parameters.get("userssh")
        if user is not None and not isinstance(user, dict):
            yield Finding(("userssh",), "must be a mapping of keys to values", "type and value")
        value = mapping(user).get("value")
        if value is not None and not isinstance(value, str):
            yield Finding(("userssh", "value"), "must be text", "a public key")
        elif value and "<%" not in value and not all(_PUBLIC_KEY.fullmatch(line) for line in _keys(value)):
            yield Finding(("userssh", "value"), "is not a public key", "the content of a file such as id_ed25519.pub")
        for key in parameters:
            if key not in _KNOWN:
                yield Finding((key,), "is not a parameter of this plugin", ", ".join(_KNOWN))

    def commands(self, parameters: Mapping[str, Any], context: PluginContext) -> PluginCommands:
        """Return the script that puts everything in place, and waits for the other tasks if asked to."""
        # As in OpenPAI: without gang allocation a task does not know where the others will run.
        is_job_ssh = parameters.get("jobssh") is True and context.is_gang and bool(context.keys.private)
        user = mapping(parameters.get("userssh"))
        allowed = [context.keys.public] if is_job_ssh else []
        if user.get("type"):
            allowed += [key for text in (*context.keys.owner, str(user.get("value") or "")) for key in _keys(text)]
        values = {
            "KEYS": _key_file(context.keys.private) if is_job_ssh else ":",
            "AUTHORIZED": "\n".join(key for key in allowed if _PUBLIC_KEY.fullmatch(key)),
            "JOBSSH": "yes" if is_job_ssh else "",
            "BARRIER": _barrier(parameters, context) if is_job_ssh and parameters.get("sshbarrier") is True else ":",
        }
        text = re.sub("@([A-Z]+)@", lambda place: values[place[1]], _SCRIPT)
        path = {"PATH": "/usr/local/pai/ssh/bin:$PAI_WORK_DIR/.pai-ssh/bin:$PATH"}
        return PluginCommands(text, _CLEAN, environment=path)


def _barrier(parameters: Mapping[str, Any], context: PluginContext) -> str:
    minutes = parameters.get("sshbarrierTimeout", BARRIER_MINUTES)
    peers = [
        f"{role}-{index}" for role in context.roles if role in context.is_for for index in range(context.roles[role])
    ]
    values = {"TRIES": str(max(1, int(float(minutes) * 30))), "PEERS": shlex.join(peers)}
    return re.sub("@([A-Z]+)@", lambda place: values[place[1]], _BARRIER)


def _key_file(private: str) -> str:
    return f"cat >\"$dir/id\" <<'PRIVATE-KEY'\n{private.strip()}\nPRIVATE-KEY"


def _keys(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
