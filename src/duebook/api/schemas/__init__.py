"""The shapes of requests, and of responses that are more than a value or a list of values, for
the OpenAPI document; nothing is parsed or serialized with them.

The model decides what a definition may be; tests compare every response with its shape.
"""
