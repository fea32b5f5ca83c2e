"""The command `pai` with everything: the terminal's commands, and `pai up`, which runs a server."""

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
            help="Configuration file (YAML); the environment and options go before it.",
            envvar="PAI_CONFIG",
            callback=_configured,
            is_eager=True,
        ),
    ] = None,
    data_dir: Annotated[
        Path, typer.Option(help="Where everything is kept: database, logs, keys.", envvar="PAI_DATA_DIR")
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
        str | None, typer.Option(help="Address by which tasks, and people, reach tasks here [default: found].")
    ] = None,
    host_network: Annotated[
        bool, typer.Option("--host-network", help="Let containers use the machine's own network: no separation.")
    ] = False,
    task_subnets: Annotated[
        str | None, typer.Option(help="Addresses for the networks of jobs in containers [default: 10.213.0.0/16].")
    ] = None,
    pids_per_task: Annotated[
        int | None, typer.Option(help="Processes and threads of a container at a time [default: 8192].")
    ] = None,
    allow_setuid: Annotated[
        bool, typer.Option("--allow-setuid", help="Let sudo and other setuid programs in containers give rights.")
    ] = False,
    allow_infiniband: Annotated[
        bool, typer.Option("--allow-infiniband", help="Give InfiniBand to containers whose job asks for it.")
    ] = False,
    task_user: Annotated[
        str | None, typer.Option(help="Run tasks as this user of the machine; the server must be root.")
    ] = None,
    task_uids: Annotated[
        str | None,
        typer.Option(help="Run each person's tasks as a user of their own, out of these numbers: 200000-265535."),
    ] = None,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Let a process backend serve other machines.")
    ] = False,
    cluster: Annotated[
        Path | None, typer.Option(help="Define the virtual clusters by this file, in HiveD's format.")
    ] = None,
    share: Annotated[
        str | None, typer.Option(help="Share them out in a few words: 'team-a: 3 nodes, team-b: 8 GPUs'.")
    ] = None,
    identity: Annotated[
        Path | None,
        typer.Option(help="File naming an OpenID provider or a directory that logs people in."),
    ] = None,
    api_only: Annotated[
        bool, typer.Option("--api-only", help="Only answer requests, beside a server that runs the jobs.")
    ] = False,
    audit_retention_days: Annotated[
        float, typer.Option(help="How long entries of the audit log are kept; 0 keeps them for ever.")
    ] = AUDIT_DAYS_DEFAULT,
    event_retention_days: Annotated[
        float, typer.Option(help="How long events of jobs are kept, running or over; 0 keeps them as long as the job.")
    ] = 0.0,
    log_max_mb: Annotated[
        int,
        typer.Option(
            help="How much of its logs a task attempt may keep, in MiB; of what is more the middle is cut out. "
            "0 keeps all."
        ),
    ] = LOG_MAX_MB_DEFAULT,
    work_max_mb: Annotated[
        int,
        typer.Option(
            help="How much a task may have in its working directory and its container, in MiB, before it is ended; "
            "0 sets no limit."
        ),
    ] = 0,
    work_retention_hours: Annotated[
        float,
        typer.Option(
            help="How long what tasks left in their working directories is kept for `pai job fetch`; 0 keeps nothing. "
            "Containers leave something only with a server that runs as root, in PAI_WORK_DIR."
        ),
    ] = WORK_HOURS_DEFAULT,
    log_retention_days: Annotated[
        float, typer.Option(help="How long the logs of ended tasks are kept; 0 keeps them until there are too many.")
    ] = LOG_DAYS_DEFAULT,
    log_retention_gb: Annotated[
        float,
        typer.Option(help="How much all logs may take, in GiB, before the oldest go; 0 goes by their age only."),
    ] = LOG_GB_DEFAULT,
    connections_per_address: Annotated[
        int, typer.Option(help="Connections that one address, or IPv6 network of 64 bits, may have open.")
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
    "backup": ("openpai.app.backup:backup", "Write the platform to one file; the server may run."),
    "restore": ("openpai.app.restore:restore", "Make a data directory of a backup."),
    "check": ("openpai.app.check:check", "Check database, key, files and free space."),
    "config": ("openpai.app.admin:config", "Print a configuration file with every setting, explained."),
    "reset-password": ("openpai.app.admin:reset_password", "Make a user an administrator with a new password."),
    "rotate-key": ("openpai.app.keys:rotate_key", "Seal all secrets with a new key."),
}

app.command(cls=Command, short_help="Replay a job trace over the real scheduler.")(simulate)
app.add_typer(group("Look after a platform where it runs: backup, keys, passwords.", ADMIN), name="admin")
vc_app.command(cls=Command, short_help="Write a configuration for the machines there are.")(plan)
scheduler_app.command(cls=Command, short_help="Decide again on a snapshot, and explain each decision.")(replay)

__all__ = ["app", "run"]
