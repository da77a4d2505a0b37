"""Which values of a payload are secrets, by their names; how they are hidden, and kept; pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

__all__ = [
    "HIDDEN",
    "fill_secrets",
    "hide_in_lines",
    "keep_secrets",
    "refuse_hidden",
    "secrets_in",
    "show_payload",
]

_NAMED: Final = re.compile(r"""(?<![\w.-])(?P<name>[\w.-]++)["']?[ \t]*+[:=][ \t]*+""")
"""A name in a line of YAML, or of an assignment, up to its value. Each character is looked at
once: a name begins where no other does, and gives nothing back."""
_VALUE: Final = re.compile(
    r""""(?:[^"\\]|\\.)*+"?|'[^']*+'?|\{[^{}]*+\}?"""
    r"""|(?:\$\{[^{}]*+\}|[^\s,{}\[\]#|>])(?:\$\{[^{}]*+\}|[^,}\]#])*+"""
)
_OPENS: Final = re.compile(
    r"""(?<![\w.-])(?P<name>[\w.-]++)["']?[ \t]*:[ \t]*(?:[|>][-+0-9]*[ \t]*)?(?:#.*)?$"""
)
"""A name whose value comes in the lines after it."""
LONGEST_LINE: Final = 2_000
_REFERENCE: Final = re.compile(r"\$\w+|\$\{[^{}]*\}|\{\{[^{}]*\}\}|")
HIDDEN: Final = "***"
"""What is shown instead of a value."""
_ENDINGS: Final = (
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
    "credentials",
    "authorization",
)


def is_secret(name: object) -> bool:
    """Whether a value of this name is hidden: `db_password`, `API-Key`, `accessToken`."""
    return isinstance(name, str) and re.sub(r"[^a-z]", "", name.lower()).endswith(_ENDINGS)


def show_payload(value: Any) -> Any:
    """A payload as it may be shown."""
    return _changed(value, _holds, HIDDEN)


def keep_secrets(value: Any, current: Any) -> Any:
    """A payload that replaces `current`: what it hides stays as it is."""
    if isinstance(value, dict) and isinstance(current, dict):
        return {
            name: current.get(name, item)
            if item == HIDDEN and is_secret(name)
            else keep_secrets(item, current.get(name))
            for name, item in value.items()
        }
    if isinstance(value, list) and isinstance(current, list) and len(value) == len(current):
        return [keep_secrets(item, was) for item, was in zip(value, current, strict=True)]
    return value


def fill_secrets(value: Any) -> Any:
    """A payload that was shown, with a word for each value that it hides."""
    return _changed(value, lambda item: item == HIDDEN, "hidden")


def _changed(value: Any, concerns: Callable[[Any], bool], word: str) -> Any:
    """With a word for the secrets that are concerned, at any depth."""
    if isinstance(value, dict):
        return {
            name: word if is_secret(name) and concerns(item) else _changed(item, concerns, word)
            for name, item in value.items()
        }
    return [_changed(item, concerns, word) for item in value] if isinstance(value, list) else value


def refuse_hidden(key: str, value: Any) -> None:
    """Raises Invalid for a payload with a value that was hidden when it was shown."""
    for name, item in _named(value):
        if item == HIDDEN and is_secret(name):
            raise Invalid(f'{key} "{shorten(name)}" is {HIDDEN}, which hides a value; give it')


def hide_in_lines(lines: list[str], only: Collection[int] | None = None) -> list[str]:
    """The lines of a text such as YAML as they may be shown: values by the names before them.

    What belongs to such a name, by its indent, is hidden too; a reference such as ${NAME} is no
    secret. A very long line is cut. `only` says which lines are shown, by their place; the others
    are empty.
    """
    shown, hidden_below = list[str](), None
    for number, whole in enumerate(lines):
        line = whole if len(whole) <= LONGEST_LINE else whole[:LONGEST_LINE] + "…"
        indent = len(line) - len(line.lstrip())
        if hidden_below is not None and (indent > hidden_below or not line.strip()):
            shown.append(line[:indent] + HIDDEN if line.strip() else line)
            continue
        hidden_below = None
        if (opened := _OPENS.search(line)) and _is_hidden(opened["name"]):
            hidden_below = opened.start("name")
        shown.append(_shown_line(line) if only is None or number in only else "")
    return shown


def _shown_line(line: str) -> str:
    pieces, place, looked = list[str](), 0, 0
    while (named := _NAMED.search(line, looked)) is not None:
        looked = named.end()
        value = _VALUE.match(line, looked) if _is_hidden(named["name"]) else None
        if value is not None and not _REFERENCE.fullmatch(value[0].strip("\"' \t")):
            pieces += [line[place:looked], HIDDEN]
            looked = place = value.end()
    return "".join(pieces) + line[place:]


def _is_hidden(name: str) -> bool:
    return is_secret(name) or name.lower().lstrip("-.0123456789") == "headers"


def secrets_in(payload: Any) -> Iterator[str]:
    """The texts that are hidden."""
    for name, item in _named(payload):
        if is_secret(name) and isinstance(item, str):
            yield item


def _holds(item: Any) -> bool:
    return item is not None and not isinstance(item, bool)


def _named(value: Any) -> Iterator[tuple[str, Any]]:
    """Every name at any depth, with its value."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield name, item
            yield from _named(item)
    elif isinstance(value, list):
        for item in value:
            yield from _named(item)
