"""The gangs that wait: in what order, for how long, and why."""
