"""Measurements: each module is a program that prints one JSON document."""

import sys

import structlog

# What the platform logs is no part of the document.
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
