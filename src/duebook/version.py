"""The version of Duebook, and the header in which servers report it."""

from __future__ import annotations

from typing import Final

__all__ = ["API_HEADER", "__version__"]

__version__ = "0.1.0"
API_HEADER: Final = "Duebook-Api"
"""A header of every response, which identifies a Duebook server to its clients."""
