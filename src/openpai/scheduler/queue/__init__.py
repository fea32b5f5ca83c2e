"""The gangs that wait: in what order, how long, and why."""
