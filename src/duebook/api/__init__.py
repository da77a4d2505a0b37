"""The REST API: an HTTP layer around the client `book`; handlers make no decisions."""
