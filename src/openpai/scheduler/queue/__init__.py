"""Who waits, in what order, how long, and why."""
