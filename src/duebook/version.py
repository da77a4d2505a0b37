"""Which Duebook this is."""

from __future__ import annotations

from typing import Final

__all__ = ["API_HEADER", "__version__"]

__version__ = "0.1.0.dev0"
API_HEADER: Final = "Duebook-Api"
"""In every answer of a server, so that who asks knows whom they speak to."""
