"""The shapes of requests and answers, for the OpenAPI document; nothing is read or written by them.

What a definition may be decides the model; tests hold every answer against its shape here.
"""
