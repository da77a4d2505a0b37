"""Sealed texts: only whoever has the key reads, makes or changes one."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode

from hypothesis import given
from hypothesis import strategies as st

from duebook.sealing import TAG, seal, unseal

KEY = bytes(range(32))


@given(st.text().map(str.rstrip), st.binary(min_size=32, max_size=32))
def test_what_is_sealed_comes_back_with_its_key_alone(text: str, other: bytes) -> None:
    sealed = seal(KEY, text)
    assert unseal(KEY, sealed) == text
    assert sealed == seal(KEY, text)
    assert unseal(other, sealed) is None or other == KEY


@given(st.text(max_size=100), st.data())
def test_a_change_of_any_bit_is_noticed(text: str, data: st.DataObject) -> None:
    sealed = seal(KEY, text)
    raw = bytearray(urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4)))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert unseal(KEY, urlsafe_b64encode(raw).decode()) is None


@given(st.text())
def test_what_nobody_sealed_is_nothing(text: str) -> None:
    assert unseal(KEY, text) is None
    assert unseal(KEY, text.encode().hex()) is None


def test_texts_of_similar_length_look_alike() -> None:
    near, far = seal(KEY, "[1]"), seal(KEY, "[1234567890123]")
    assert len(near) == len(far)
    assert near[:20] != far[:20]
    assert len(urlsafe_b64decode(near + "=" * (-len(near) % 4))) == TAG + 32
