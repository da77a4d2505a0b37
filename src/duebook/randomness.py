"""Pseudo-random numbers that are the same for the same seed."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

__all__ = ["fraction"]

_SCALE: Final = 1 << 64


def fraction(*seed: object) -> float:
    """A number from 0 up to 1."""
    digest = blake2b("\0".join(map(str, seed)).encode(), digest_size=8).digest()
    return int.from_bytes(digest) / _SCALE
