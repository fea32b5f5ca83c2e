"""Cells, virtual clusters, gangs and preemption: decides where each gang runs."""
