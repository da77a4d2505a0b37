"""Makes a picture of a page small: a PNG with a palette of the 256 colours that it has most of."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["with_palette"]

SIGN: Final = b"\x89PNG\r\n\x1a\n"
MOST_COLOURS: Final = 256


def with_palette(picture: bytes) -> bytes:
    """The same picture; a colour that is rare becomes the nearest of the others."""
    parts = list(_parts(picture))
    head = next(body for kind, body in parts if kind == b"IHDR")
    wide, high, depth, kind = struct.unpack(">IIBB", head[:10])
    size = {2: 3, 6: 4}[kind]
    raw = zlib.decompress(b"".join(body for name, body in parts if name == b"IDAT"))
    rows = [
        [row[x : x + 3] for x in range(0, wide * size, size)]
        for row in _unfiltered(raw, wide * size, high, size)
    ]
    counts = Counter(colour for row in rows for colour in row)
    palette = [colour for colour, _ in counts.most_common(MOST_COLOURS)]
    places = {colour: _nearest(palette, colour) for colour in counts}
    data = b"".join(b"\0" + bytes(places[colour] for colour in row) for row in rows)
    return SIGN + b"".join(
        (
            _part(b"IHDR", struct.pack(">IIBB", wide, high, depth, 3) + b"\0\0\0"),
            _part(b"PLTE", b"".join(palette)),
            _part(b"IDAT", zlib.compress(data, 9)),
            _part(b"IEND", b""),
        )
    )


def _parts(picture: bytes) -> Iterator[tuple[bytes, bytes]]:
    place = len(SIGN)
    while place < len(picture):
        (length,) = struct.unpack(">I", picture[place : place + 4])
        yield picture[place + 4 : place + 8], picture[place + 8 : place + 8 + length]
        place += 12 + length


def _part(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _unfiltered(raw: bytes, length: int, high: int, size: int) -> Iterator[bytes]:
    """The rows of a picture; each says how it differs from what is left of it and above."""
    above = bytes(length)
    for number in range(high):
        start = number * (length + 1)
        kind, row = raw[start], bytearray(raw[start + 1 : start + 1 + length])
        for x in range(length):
            left = row[x - size] if x >= size else 0
            corner = above[x - size] if x >= size else 0
            row[x] = (row[x] + _guess(kind, left, above[x], corner)) & 255
        above = bytes(row)
        yield above


def _guess(kind: int, left: int, up: int, corner: int) -> int:
    """As the PNG specification defines its five filters."""
    if kind == 4:
        whole = left + up - corner
        return min((left, up, corner), key=lambda value: abs(whole - value))
    return (0, left, up, (left + up) // 2)[kind]


def _nearest(palette: list[bytes], colour: bytes) -> int:
    def distance(place: int) -> int:
        return sum((a - b) ** 2 for a, b in zip(palette[place], colour, strict=True))

    return min(range(len(palette)), key=distance)
