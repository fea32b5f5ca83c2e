"""Talks to Kubernetes: configuration and credentials, typed objects, a thin client, and caches that follow a kind.

Nothing here knows jobs or tasks. The libraries that it needs are those of the extra `openpai[kubernetes]`, so only what
uses Kubernetes imports this package.
"""
