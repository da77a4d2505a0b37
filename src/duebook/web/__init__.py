"""The dashboard: pages for people around the client `book`; handlers decide nothing."""
