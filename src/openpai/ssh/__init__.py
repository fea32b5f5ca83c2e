"""The SSH gateway: shells, copies and forwarded ports of running tasks for any SSH client."""
