"""`python -m openpai.cli`: the client's half of `pai`, without the server."""

from openpai.cli.main import run

run()
