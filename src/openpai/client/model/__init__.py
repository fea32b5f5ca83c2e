"""What the platform answers, as plain frozen values a Python program can lean on.

Names are in snake case and times are milliseconds since the epoch. Whatever a newer server says beyond these
fields is not lost: `document` holds its answer as it came, and `--json` prints that.
"""

from openpai.client.model.histories import Event as Event
from openpai.client.model.histories import Wait as Wait
from openpai.client.model.jobs import JobDetail as JobDetail
from openpai.client.model.jobs import JobPage as JobPage
from openpai.client.model.jobs import JobSummary as JobSummary
from openpai.client.model.jobs import Submitted as Submitted
from openpai.client.model.logs import LogPiece as LogPiece
from openpai.client.model.nodes import Amount as Amount
from openpai.client.model.nodes import NodeView as NodeView
from openpai.client.model.people import Checked as Checked
from openpai.client.model.people import Group as Group
from openpai.client.model.people import Login as Login
from openpai.client.model.people import NewToken as NewToken
from openpai.client.model.people import TokenView as TokenView
from openpai.client.model.people import User as User
from openpai.client.model.tasks import FINAL_STATES as FINAL_STATES
from openpai.client.model.tasks import SUCCEEDED as SUCCEEDED
from openpai.client.model.tasks import TaskView as TaskView
