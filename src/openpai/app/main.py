"""The whole command `pai`: the commands of the terminal, and `pai up`, which runs a server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from openpai.app.config_file import ENVIRONMENT_PREFIX, read_into
from openpai.app.connection_limits import PER_ADDRESS
from openpai.app.replay import plan, replay
from openpai.app.settings import (
    AUDIT_DAYS_DEFAULT,
    LOG_DAYS_DEFAULT,
    LOG_GB_DEFAULT,
    LOG_MAX_MB_DEFAULT,
    PORT_DEFAULT,
    WORK_HOURS_DEFAULT,
    BackendName,
    Settings,
)
from openpai.app.simulate import simulate
from openpai.cli.lazy import Command, group
from openpai.cli.main import app, run
from openpai.cli.scheduler import app as scheduler_app
from openpai.cli.vc import app as vc_app

DATA_DIR_DEFAULT = Path("~/.local/share/openpai")


def _configured(context: typer.Context, config: Path | None) -> Path | None:
    if not context.resilient_parsing:
        read_into(context, config)
    return config


@app.command(
    cls=Command,
    short_help="Run the platform here, in the foreground.",
    context_settings={"auto_envvar_prefix": ENVIRONMENT_PREFIX},
)
def up(
    config: Annotated[
        Path | None,
        typer.Option(
            help="Configuration file (YAML); environment variables and options override it.",
            envvar="PAI_CONFIG",
            callback=_configured,
            is_eager=True,
        ),
    ] = None,
    data_dir: Annotated[
        Path, typer.Option(help="Directory of the database, logs and keys.", envvar="PAI_DATA_DIR")
    ] = DATA_DIR_DEFAULT,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes any free one.")] = PORT_DEFAULT,
    backend: Annotated[BackendName, typer.Option(help="What runs the tasks.")] = "process",
    nodes: Annotated[int | None, typer.Option(help="Number of virtual nodes [default: this machine as it is].")] = None,
    gpus_per_node: Annotated[int | None, typer.Option(help="GPUs of each node [default: those found].")] = None,
    cpus_per_node: Annotated[
        int | None, typer.Option(help="CPUs each node offers [default: those found, at least 8].")
    ] = None,
    database_url: Annotated[
        str | None, typer.Option(help="PostgreSQL instead of SQLite: postgresql://...", envvar="PAI_DATABASE_URL")
    ] = None,
    docker_url: Annotated[
        str | None, typer.Option(help="Engine API of Docker or Podman [default: the local one].", envvar="DOCKER_HOST")
    ] = None,
    node_address: Annotated[
        str | None, typer.Option(help="Address under which tasks and users reach tasks on this node [default: found].")
    ] = None,
    host_network: Annotated[
        bool, typer.Option("--host-network", help="Give containers the machine's own network, without separation.")
    ] = False,
    task_subnets: Annotated[
        str | None, typer.Option(help="Addresses for the networks of jobs in containers [default: 10.213.0.0/16].")
    ] = None,
    pids_per_task: Annotated[
        int | None, typer.Option(help="Limit on processes and threads of a container [default: 8192].")
    ] = None,
    allow_setuid: Annotated[
        bool, typer.Option("--allow-setuid", help="Allow sudo and other setuid programs in containers.")
    ] = False,
    allow_infiniband: Annotated[
        bool, typer.Option("--allow-infiniband", help="Give InfiniBand to containers whose job asks for it.")
    ] = False,
    task_user: Annotated[
        str | None, typer.Option(help="Run tasks as this user of the machine; the server must be root.")
    ] = None,
    task_uids: Annotated[
        str | None,
        typer.Option(help="Run each user's tasks as a system user of their own, from a range: 200000-265535."),
    ] = None,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Allow other machines to reach a server with the process backend.")
    ] = False,
    cluster: Annotated[
        Path | None, typer.Option(help="File that defines the virtual clusters, in HiveD's format.")
    ] = None,
    share: Annotated[str | None, typer.Option(help="The same as text: 'team-a: 3 nodes, team-b: 8 GPUs'.")] = None,
    identity: Annotated[
        Path | None,
        typer.Option(help="File that configures an OpenID provider or a directory for logins."),
    ] = None,
    api_only: Annotated[
        bool, typer.Option("--api-only", help="Answer requests only; another server runs the jobs.")
    ] = False,
    audit_retention_days: Annotated[
        float, typer.Option(help="How long entries of the audit log are kept; 0 keeps them for ever.")
    ] = AUDIT_DAYS_DEFAULT,
    event_retention_days: Annotated[
        float, typer.Option(help="How long events of jobs are kept; 0 keeps them as long as the job.")
    ] = 0.0,
    log_max_mb: Annotated[
        int,
        typer.Option(
            help="Limit on the logs of a task attempt, in MiB; the middle of larger logs is cut out. 0 keeps all."
        ),
    ] = LOG_MAX_MB_DEFAULT,
    work_max_mb: Annotated[
        int,
        typer.Option(
            help="Limit on a task's working directory and container, in MiB, beyond which it is killed; "
            "0 sets no limit."
        ),
    ] = 0,
    work_retention_hours: Annotated[
        float,
        typer.Option(
            help="How long the working directories of ended tasks are kept for `pai job fetch`; 0 keeps nothing. "
            "Of containers, PAI_WORK_DIR is kept, if the server runs as root."
        ),
    ] = WORK_HOURS_DEFAULT,
    log_retention_days: Annotated[
        float, typer.Option(help="How long the logs of ended tasks are kept; 0 sets no limit on their age.")
    ] = LOG_DAYS_DEFAULT,
    log_retention_gb: Annotated[
        float,
        typer.Option(help="Limit on all logs together, in GiB, beyond which the oldest are removed; 0 sets no limit."),
    ] = LOG_GB_DEFAULT,
    connections_per_address: Annotated[
        int, typer.Option(help="Limit on open connections of one address or IPv6 network of 64 bits.")
    ] = PER_ADDRESS,
    trusted_proxies: Annotated[
        str | None,
        typer.Option(
            help="Proxies before the platform, such as 127.0.0.1,10.0.0.0/8: their X-Forwarded-For is believed, and "
            "their connections are not counted by address [default: this machine is believed, and counted].",
        ),
    ] = None,
    ready_file: Annotated[
        Path | None, typer.Option(help="Write {url, pid} here, as JSON, once the server answers.")
    ] = None,
) -> None:
    """Run the platform here, in the foreground; Ctrl-C ends the server and leaves jobs running."""
    from openpai.app.console import set_up_logging
    from openpai.app.serve import serve

    settings = Settings(
        data_dir=data_dir.expanduser().absolute(),
        host=host,
        port=port,
        backend=backend,
        nodes=nodes,
        gpus_per_node=gpus_per_node,
        cpus_per_node=cpus_per_node,
        database_url=database_url,
        docker_url=docker_url,
        node_address=node_address,
        host_network=host_network,
        task_subnets=task_subnets,
        pids_per_task=pids_per_task,
        allow_setuid=allow_setuid,
        allow_infiniband=allow_infiniband,
        task_user=task_user,
        task_uids=task_uids,
        allow_remote=allow_remote,
        ready_file=ready_file,
        api_only=api_only,
        cluster=cluster,
        share=share,
        identity=identity,
        audit_retention_days=audit_retention_days,
        event_retention_days=event_retention_days,
        log_max_mb=log_max_mb,
        work_max_mb=work_max_mb,
        work_retention_hours=work_retention_hours,
        log_retention_days=log_retention_days,
        log_retention_gb=log_retention_gb,
        connections_per_address=connections_per_address,
        trusted_proxies=None if trusted_proxies is None else tuple(trusted_proxies.replace(",", " ").split()),
    )
    set_up_logging()
    serve(settings, os.environ.pop("PAI_ADMIN_PASSWORD", None))


ADMIN = {
    "backup": ("openpai.app.backup:backup", "Write a backup to one file; the server may run."),
    "restore": ("openpai.app.restore:restore", "Create a data directory from a backup."),
    "check": ("openpai.app.check:check", "Check database, key, files and free space."),
    "config": ("openpai.app.admin:config", "Print a configuration file with every setting, explained."),
    "reset-password": ("openpai.app.admin:reset_password", "Make a user an administrator with a new password."),
    "rotate-key": ("openpai.app.keys:rotate_key", "Seal all secrets with a new key."),
}

app.command(cls=Command, short_help="Replay a job trace over the real scheduler.")(simulate)
app.add_typer(group("Maintain a data directory: backup, keys, passwords.", ADMIN), name="admin")
vc_app.command(cls=Command, short_help="Write a configuration for the existing nodes.")(plan)
scheduler_app.command(cls=Command, short_help="Repeat the decisions on a snapshot, and explain them.")(replay)

__all__ = ["app", "run"]
