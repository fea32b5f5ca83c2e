"""Metrics as they are measured, kept and published: sources, the embedded store, Prometheus's text and queries."""
