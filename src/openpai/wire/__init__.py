"""The documents of the REST API, each defined once, as typed dictionaries with one file per noun.

The server's shapes return them, so mypy checks their keys and values; the OpenAPI description is generated from them;
and a test compares the client's model with them. Nothing is validated when a request is answered.
"""
