"""The secrets that an attempt has resolved by reference, and how they are hidden; pure.

They exist only during the attempt: nothing here is stored, shown or sent.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, quote_plus

from duebook.model.secret import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = [
    "SHORTEST_SECRET",
    "SecretValues",
    "as_reference",
    "mentions_secret",
    "names_in",
    "references_to",
]

SHORTEST_SECRET: Final = 4
"""Characters; a shorter value occurs in too many words to be hidden."""
_SHORTEST_ENCODED: Final = 8
_BEGINNING: Final = 12
"""Characters of a long value that identify a part of it that was cut off."""
_CUT: Final = "…"
"""Marks where a message was shortened."""
_TAG: Final = re.compile(r"\{\{[-+]? *secret\.([A-Za-z_][A-Za-z0-9_]*) *[-+]?\}\}")
_MENTION: Final = re.compile(r"\{\{[-+]?\s*secret\b")
_UNRESERVED: Final = "/:@!$&'()*+,;=~"
"""What stays unchanged in the path of a URL."""


def as_reference(name: str) -> str:
    """The reference to a secret in a definition."""
    return f"{{{{ secret.{name} }}}}"


def names_in(value: Any) -> set[str]:
    """The secrets that the texts of a JSON value refer to."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return set(_TAG.findall(text)) if "secret" in text else set()


def mentions_secret(value: Any) -> bool:
    """Whether a text of a JSON value seems to refer to a secret, validly or not."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _MENTION.search(text) is not None


def references_to(names: Iterable[str]) -> dict[str, str]:
    """For places where values must not appear: each name with its reference."""
    return {name: as_reference(name) for name in names}


class SecretValues:
    """Secrets by name. Any thread may add one; its value is hidden from then on."""

    __slots__ = ("_lock", "_values", "_words")

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values: dict[str, str] = {}
        self._words: tuple[str, ...] = ()
        self._lock = threading.Lock()
        for name, value in (values or {}).items():
            self.add(name, value)

    def add(self, name: str, value: str) -> None:
        with self._lock:
            self._values[name] = value
            words = {*self._words, *_forms(value)}
            self._words = tuple(sorted(words, key=lambda word: (-len(word), word)))

    def __bool__(self) -> bool:
        return bool(self._values)

    def __repr__(self) -> str:
        return f"SecretValues({', '.join(sorted(self._values))})"

    @property
    def by_name(self) -> dict[str, str]:
        return dict(self._values)

    def carried_by(self, *texts: str | bytes | None) -> bool:
        """Whether any of them contains a value, in any form that is hidden."""
        found = (
            text.decode(errors="replace") if isinstance(text, bytes) else text for text in texts
        )
        return any(word in text for text in found if text for word in self._words)

    def hide(self, text: str) -> str:
        """The text without the values, and without the beginning of a long one that was cut."""
        words = self._words
        for word in words:
            text = text.replace(word, HIDDEN)
        for word in words:
            if len(word) > _BEGINNING and word[:_BEGINNING] in text:
                text = _without_beginning(text, word)
        if _CUT in text:
            for beginning in _beginnings(words):
                text = text.replace(beginning + _CUT, HIDDEN + _CUT)
        return text

    def hide_cut(self, text: str) -> str:
        """Like `hide`, for a text whose end may have been cut off within a value."""
        text = self.hide(text)
        for beginning in _beginnings(self._words):
            if text.endswith(beginning):
                return text.removesuffix(beginning) + HIDDEN
        return text

    def hide_json(self, text: str) -> str:
        """JSON without the values, wherever they occur in it."""
        if not self.carried_by(text):
            return text
        return json.dumps(self._hidden(json.loads(text)), ensure_ascii=False)

    def _hidden(self, form: Any) -> Any:
        if isinstance(form, dict):
            return {self.hide(name): self._hidden(item) for name, item in form.items()}
        if isinstance(form, list):
            return [self._hidden(item) for item in form]
        if isinstance(form, str):
            return self.hide(form)
        written = json.dumps(form)
        return HIDDEN if self.hide(written) != written else form


def _beginnings(words: Iterable[str]) -> Iterator[str]:
    """The short beginnings of words, searched only where a text was cut."""
    for word in words:
        for size in range(min(len(word) - 1, _BEGINNING), SHORTEST_SECRET - 1, -1):
            yield word[:size]


def _without_beginning(text: str, word: str) -> str:
    """Hide as much of the beginning of a word as a text contains."""
    pieces, place = list[str](), 0
    while (found := text.find(word[:_BEGINNING], place)) >= 0:
        end, size = found, 0
        while size < len(word) and end < len(text) and text[end] == word[size]:
            end, size = end + 1, size + 1
        pieces += [text[place:found], HIDDEN]
        place = end
    return "".join(pieces) + text[place:]


def _forms(value: str) -> Iterator[str]:
    """A value and its common encodings: lines, JSON, Python, URLs and base64."""
    found = {quote(value, safe=""), quote(value, safe=_UNRESERVED), quote_plus(value)}
    found |= {repr(value)[1:-1], *_encoded(value.encode())}
    for text in (value, *value.splitlines()):
        found |= {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    yield from (form for form in found if len(form) >= SHORTEST_SECRET)


def _encoded(data: bytes) -> Iterator[str]:
    """Its base64 at any offset, as `Basic` joins a user and a password."""
    for before in range(3):
        shifted = bytes(before) + data
        first, last = (before * 8 + 5) // 6, len(shifted) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            text = encode(shifted).decode()[first:last]
            if len(text) >= _SHORTEST_ENCODED:
                yield text
