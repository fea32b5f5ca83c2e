"""The documents of the REST API, each defined once, as typed dictionaries with one file per noun.

The server's shapes return them, so mypy checks their keys and values; the OpenAPI description and the client's model
are generated from them. Nothing is validated when a request is answered.
"""
