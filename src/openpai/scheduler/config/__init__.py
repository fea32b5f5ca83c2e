"""Reads, checks and plans cluster configurations: what is promised to each virtual cluster."""
