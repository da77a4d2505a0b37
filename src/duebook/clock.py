"""The only reader of the machine's clock; everything else is handed its time."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["utc_now"]


def utc_now() -> datetime:
    return datetime.now(UTC)
