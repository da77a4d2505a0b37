"""The traces of the response to a request: lines in the log, and the output of its run."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

from duebook.errors import counted
from duebook.lazy_dataclasses import dataclass
from duebook.model.secret import show_payload, show_text
from duebook.targets.outcomes import MOST_OUTPUT

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx2

    Output = Callable[[Literal["stdout", "stderr"], bytes], None]

__all__ = ["MOST_SHOWN", "HttpResponse"]

MOST_SHOWN: Final = 10_000
"""Maximum characters of a body in the log."""
_ROOM: Final = MOST_OUTPUT - 100
"""For the body in an output, beside the status."""
_CHARSET: Final = re.compile(r'charset="?([a-z0-9_-]+)')
_WESTERN: Final = frozenset({"iso-8859-1", "latin1", "us-ascii", "windows-1252"})
"""What browsers read as windows-1252; everything else is read as UTF-8."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response, as far as it was read."""

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

    @property
    def _kind(self) -> str:
        return str(self.headers.get("content-type", "")).lower()

    def show(self, hide: Callable[[str], str], output: Output, note: Callable[[str], None]) -> None:
        """Write the body to the log, within a limit."""
        size = counted(len(self.body), "byte") + ("" if self.whole else " and more")
        if not self._is_text:
            note(f"the body is not shown: {size}, not plain text")
            return
        text, parsed = self._read(hide)
        if not parsed:
            text = show_text(text)
        elif (shown := show_payload(parsed[0])) != parsed[0]:
            text = json.dumps(shown, ensure_ascii=False)
        if text:
            output("stdout", text[:MOST_SHOWN].rstrip("\n").encode() + b"\n")
        if len(text) > MOST_SHOWN or not self.whole:
            shown = counted(min(len(text), MOST_SHOWN), "character")
            note(f"… the first {shown} of {size}")

    def kept(self, hide: Callable[[str], str]) -> str:
        """The output of the run, as JSON: the status, and the body as `json` or `text`.

        Of a body that is too large the beginning is kept, as text, marked with `cut`.
        """
        form: dict[str, Any] = {"status": self.status}
        text, parsed = self._read(hide) if self._is_text else ("", ())
        if parsed and _size(parsed[0]) <= _ROOM:
            form["json"] = parsed[0]
        elif text:
            form["text"] = _within(text)
            if not self.whole or form["text"] != text:
                form["cut"] = True
        return json.dumps(form, ensure_ascii=False)

    def _read(self, hide: Callable[[str], str]) -> tuple[str, tuple[Any, ...]]:
        """The body without secrets; and its value, if it is declared and valid JSON.

        JSON can encode a secret in many ways, so its texts are examined one by one.
        """
        match = _CHARSET.search(self._kind)
        western = match is not None and match[1] in _WESTERN
        text = hide(self.body.decode("cp1252" if western else "utf-8", "replace"))
        if not (self._kind.partition(";")[0].strip().endswith("json") and self.whole):
            return text, ()
        try:
            value = json.loads(text, parse_constant=_refuse)
            hidden = _hidden(value, hide)
            _size(hidden)
        except (ValueError, RecursionError):  # the sender declared it wrongly
            return text, ()
        return text if hidden == value else json.dumps(hidden, ensure_ascii=False), (hidden,)


def _hidden(value: Any, hide: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, list):
        return [_hidden(item, hide) for item in value]
    if isinstance(value, dict):
        return {hide(key): _hidden(item, hide) for key, item in value.items()}
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not valid JSON")


def _size(value: Any) -> int:
    """In bytes of JSON; raises ValueError for lone surrogates."""
    return len(json.dumps(value, ensure_ascii=False).encode())


def _within(text: str) -> str:
    """As much of a text as fits in JSON, where a character may need six bytes."""
    text = text[:_ROOM]
    while (size := _size(text)) > _ROOM:
        text = text[: len(text) * _ROOM // size]
    return text
