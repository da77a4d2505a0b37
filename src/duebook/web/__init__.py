"""The dashboard: web pages around the client `book`; handlers make no scheduling decisions."""
