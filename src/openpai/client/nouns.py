"""Everything both clients can ask, from the files of `calls`.

A new noun is a class whose methods are marked as `client.asking` says; here it joins the others.
"""

from __future__ import annotations

from openpai.client.calls.jobs import Jobs
from openpai.client.calls.logins import Logins
from openpai.client.calls.nodes import Nodes
from openpai.client.calls.people import Groups, Users
from openpai.client.calls.sharing import Sharing
from openpai.client.calls.storages import Storages
from openpai.client.calls.usage import Usage


class Nouns(Jobs, Logins, Users, Groups, Nodes, Sharing, Storages, Usage):
    """The methods of a client, a class per noun."""
