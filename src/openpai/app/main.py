"""The whole command `pai`: the commands of the terminal, and `pai up`, which runs a server."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from openpai.app.config_file import ENVIRONMENT_PREFIX, origins_of, read_into
from openpai.app.extender import extender
from openpai.app.replay import plan, replay
from openpai.app.settings import Settings
from openpai.app.simulate import simulate
from openpai.cli.lazy import Command, group
from openpai.cli.main import app, run
from openpai.cli.options import fields_as_options, option
from openpai.cli.scheduler import app as scheduler_app
from openpai.cli.vc import app as vc_app
from openpai.protocol.errors import PaiError
from openpai.system.garbage import no_collections


def _configured(context: typer.Context, config: Path | None) -> Path | None:
    if not context.resilient_parsing:
        read_into(context, config)
    return config


@app.command(
    cls=Command,
    short_help="Run the platform here, in the foreground.",
    context_settings={"auto_envvar_prefix": ENVIRONMENT_PREFIX},
)
@fields_as_options(Settings, "settings")
def up(
    config: Annotated[
        Path | None,
        option(
            "--config",
            "Configuration file (YAML); environment variables and options override it.",
            envvar="PAI_CONFIG",
            callback=_configured,
            is_eager=True,
        ),
    ] = None,
    *,
    context: typer.Context,
    settings: Settings,
) -> None:
    """Run the platform here, in the foreground; Ctrl-C ends the server and leaves jobs running."""
    with no_collections():
        from openpai.app.console import set_up_logging
        from openpai.app.serve import serve
        from openpai.app.settings_check import add_origins, check
        from openpai.app.settings_shown import shown

    set_up_logging(settings.log_format)
    settings = replace(settings, data_dir=settings.data_dir.expanduser().absolute())
    origins = origins_of(context)
    check(settings, origins)
    try:
        serve(settings, os.environ.pop("PAI_ADMIN_PASSWORD", None), shown(context, settings, config))
    except PaiError as error:
        add_origins(error, settings, origins)
        raise


ADMIN = {
    "backup": ("openpai.app.backup:backup", "Write a backup to one file; the server may run."),
    "restore": ("openpai.app.restore:restore", "Create a data directory from a backup."),
    "check": ("openpai.app.check:check", "Check database, key, files and free space."),
    "doctor": ("openpai.app.doctor:doctor", "Say what is wrong with this installation, and what to do."),
    "bundle": ("openpai.app.support_bundle:bundle", "Write a report for support to one file, without secrets."),
    "config": ("openpai.app.admin:config", "Print a configuration file with every setting, explained."),
    "reset-password": ("openpai.app.admin:reset_password", "Make a user an administrator with a new password."),
    "import-jobs": ("openpai.app.import_jobs:import_jobs", "Import the jobs of an OpenPAI that are over."),
    "rotate-key": ("openpai.app.keys:rotate_key", "Seal all secrets with a new key."),
}

FRAMEWORKS = {
    "crd": ("openpai.app.frameworks:crd", "Print the definition of Framework objects."),
    "serve": ("openpai.app.frameworks:serve", "Turn Framework objects into jobs, in the foreground."),
}

CLUSTER = {
    "check": ("openpai.app.cluster_check:check", "Check whether a Kubernetes cluster can run jobs."),
    "up": ("openpai.app.cluster.up:up", "Install the platform in a cluster, or continue that."),
    "status": ("openpai.app.cluster.status:status", "Show the parts of the platform, and what is wrong."),
    "upgrade": ("openpai.app.cluster.upgrade:upgrade", "Bring the platform to another version; jobs run on."),
    "rollback": ("openpai.app.cluster.upgrade:rollback", "Go back to the version before; jobs run on."),
    "backup": ("openpai.app.cluster.backup:backup", "Write database, keys and values to one file."),
    "restore": ("openpai.app.cluster.restore:restore", "Put a backup in the place of what is there."),
    "bundle": ("openpai.app.cluster.bundle:bundle", "Write all that an installation without a network needs."),
    "down": ("openpai.app.cluster.down:down", "Remove the platform; data stay unless you say otherwise."),
}

app.command(cls=Command, short_help="Replay a job trace over the real scheduler.")(simulate)
app.add_typer(group("Maintain a data directory: backup, keys, passwords.", ADMIN), name="admin")
app.add_typer(group("Run the platform in a Kubernetes cluster.", CLUSTER), name="cluster")
app.add_typer(group("Serve FrameworkController's objects of a Kubernetes cluster.", FRAMEWORKS), name="frameworks")
vc_app.command(cls=Command, short_help="Write a configuration for the existing nodes.")(plan)
scheduler_app.command(cls=Command, short_help="Repeat the decisions on a snapshot, and explain them.")(replay)
scheduler_app.command(cls=Command, short_help="Schedule pods of a Kubernetes cluster, as HiveD does.")(extender)

__all__ = ["app", "run"]
