"""The REST API: an edge of HTTP around the client `book`; handlers decide nothing."""
