"""The shapes of requests, and of answers that are more than a value or a list of values, for the
OpenAPI document; nothing is read or written by them.

What a definition may be decides the model; tests hold every answer against its shape.
"""
