"""Encrypts short texts, so that only holders of the key can read, forge or change one; pure.

A synthetic IV (the pattern of RFC 5297) from the standard library alone: the tag is a MAC of the
text, and the tag and the key yield the stream that hides it.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256, shake_256
from typing import Final

__all__ = ["seal", "unseal"]

TAG: Final = 16
"""In bytes."""
STEP: Final = 32
"""Texts are padded to a multiple of this many bytes, so that their length reveals little."""


def seal(key: bytes, text: str) -> str:
    """Equal texts give equal results; trailing spaces are lost."""
    plain = text.encode()
    plain = plain.ljust(-(-len(plain) // STEP) * STEP)
    tag = _tag(key, plain)
    return urlsafe_b64encode(tag + _hidden(key, tag, plain)).decode().rstrip("=")


def unseal(key: bytes, sealed: str) -> str | None:
    """None for anything that `seal` did not return under this key."""
    try:
        raw = urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4))
    except ValueError:
        return None
    tag, plain = raw[:TAG], _hidden(key, raw[:TAG], raw[TAG:])
    return plain.decode().rstrip() if hmac.compare_digest(tag, _tag(key, plain)) else None


def _tag(key: bytes, plain: bytes) -> bytes:
    return hmac.digest(key, b"tag" + plain, sha256)[:TAG]


def _hidden(key: bytes, tag: bytes, text: bytes) -> bytes:
    stream = shake_256(hmac.digest(key, b"stream" + tag, sha256)).digest(len(text))
    return bytes(a ^ b for a, b in zip(text, stream, strict=True))
