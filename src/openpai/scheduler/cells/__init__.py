"""Cells, virtual clusters, gangs and preemption: who goes where."""
