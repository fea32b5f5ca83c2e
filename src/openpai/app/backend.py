"""Which backend runs the tasks, made from the settings. The others are not even imported."""

from __future__ import annotations

from openpai.app.datadir import DataDir
from openpai.app.settings import Settings
from openpai.ports.backend import Backend
from openpai.ports.clock import Clock
from openpai.protocol.errors import Refused
