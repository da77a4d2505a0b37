"""What the answer to a request leaves behind: lines in the log, and the output of its run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

from duebook.targets.outcomes import MOST_OUTPUT

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx2

    Output = Callable[[Literal["stdout", "stderr"], bytes], None]

__all__ = ["MOST_SHOWN", "Answer"]

MOST_SHOWN: Final = 10_000
"""Characters of a body that go into the log."""
_ROOM: Final = MOST_OUTPUT - 100
"""For the body in an output, beside the status."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, as far as it was read."""

    url: httpx2.URL
    status: int
    words: str
    headers: httpx2.Headers
    body: bytes
    whole: bool

    @property
    def status_line(self) -> str:
        return f"{self.status} {self.words}".strip()

    @property
    def _is_text(self) -> bool:
        coding = self.headers.get("content-encoding", "identity").lower()
        return coding == "identity" and b"\0" not in self.body

    def _text(self, hide: Callable[[str], str]) -> str:
        return hide(self.body.decode("utf-8", "replace"))

    def show(self, hide: Callable[[str], str], output: Output, note: Callable[[str], None]) -> None:
        """Put the body into the log, within a bound."""
        size = f"{len(self.body):,} bytes" + ("" if self.whole else " and more")
        if not self._is_text:
            note(f"its body is not shown: {size}, no plain text")
            return
        text = self._text(hide)
        if text:
            output("stdout", text[:MOST_SHOWN].rstrip("\n").encode() + b"\n")
        if len(text) > MOST_SHOWN or not self.whole:
            note(f"… these are its first {min(len(text), MOST_SHOWN):,} characters, of {size}")

    def kept(self, hide: Callable[[str], str]) -> str:
        """The output of the run, as JSON: the status, and the body as `json` or `text`.

        Of a body that is too large the beginning is kept, as text, and `cut` says so.
        """
        text = self._text(hide) if self._is_text else ""
        form = {"status": self.status} | (self._body(text) if text else {})
        return json.dumps(form, ensure_ascii=False)

    def _body(self, text: str) -> dict[str, Any]:
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind.endswith("json") and self.whole:
            try:
                value = json.loads(text, parse_constant=_refuse)
                if _size(value) <= _ROOM:
                    return {"json": value}
            except (ValueError, RecursionError):  # the sender is wrong about it
                pass
        kept = _within(text)
        return {"text": kept} | ({} if self.whole and kept == text else {"cut": True})


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _size(value: Any) -> int:
    """In bytes of JSON; raises ValueError for halves of characters."""
    return len(json.dumps(value, ensure_ascii=False).encode())


def _within(text: str) -> str:
    """As much of a text as fits when it is JSON, where a character may need six bytes."""
    text = text[:_ROOM]
    while (size := _size(text)) > _ROOM:
        text = text[: len(text) * _ROOM // size]
    return text
