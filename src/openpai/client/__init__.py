"""The platform as a Python library."""

from openpai.client.client import Client as Client
from openpai.client.model import JobDetail as JobDetail
from openpai.client.model import JobSummary as JobSummary
from openpai.client.model import NodeView as NodeView
from openpai.client.model import TaskView as TaskView
