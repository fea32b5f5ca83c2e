"""The documents of the REST API, each defined once, as typed dictionaries with one file per noun.

The server's shapes return them, so mypy checks their keys and values; the OpenAPI description is written from them;
and the client's model is held against them. Nothing is validated when a request is answered.
"""
