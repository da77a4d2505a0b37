"""The client of a remote server: the same interface as `book`, over REST."""

from __future__ import annotations

from duebook.remote.book import RemoteBook

__all__ = ["RemoteBook"]
