"""The client of a server far away: the surface of `book`, spoken over REST."""

from __future__ import annotations

from duebook.remote.book import RemoteBook

__all__ = ["RemoteBook"]
