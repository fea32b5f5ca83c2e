"""The whole command `pai`: the commands of the terminal, and those of this package, such as `pai up`.

Most uses of it are commands of the terminal, so nothing of a server is imported before one is called.
"""

from __future__ import annotations

from openpai.cli.lazy import extend, group
from openpai.cli.main import app, run
from openpai.cli.scheduler import app as scheduler_app
from openpai.cli.vc import app as vc_app

SERVER = {
    "up": ("openpai.app.up:up", "Run the platform here, in the foreground."),
    "simulate": ("openpai.app.simulate:simulate", "Replay a job trace over the real scheduler."),
}

VIRTUAL_CLUSTERS = {
    "plan": ("openpai.app.replay:plan", "Write a configuration for the existing nodes."),
}

SCHEDULER = {
    "replay": ("openpai.app.replay:replay", "Repeat the decisions on a snapshot, and explain them."),
    "extender": ("openpai.app.extender:extender", "Schedule pods of a Kubernetes cluster, as HiveD does."),
}

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

extend(app, SERVER)
app.add_typer(group("Maintain a data directory: backup, keys, passwords.", ADMIN), name="admin")
app.add_typer(group("Run the platform in a Kubernetes cluster.", CLUSTER), name="cluster")
app.add_typer(group("Serve FrameworkController's objects of a Kubernetes cluster.", FRAMEWORKS), name="frameworks")
extend(vc_app, VIRTUAL_CLUSTERS)
extend(scheduler_app, SCHEDULER)

__all__ = ["app", "run"]
