"""Runs tasks as pods of a Kubernetes cluster."""
