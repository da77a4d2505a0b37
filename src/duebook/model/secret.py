"""Which values are secrets, by their names; how they are hidden, and kept in edits; pure.

The only list of what is secret: everything shown to people goes through here.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_plus

from duebook.errors import Invalid, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

__all__ = [
    "HIDDEN",
    "fill_secrets",
    "hide_in_lines",
    "is_by_reference",
    "is_hidden_key",
    "is_reference",
    "is_secret",
    "keep_secrets",
    "refuse_hidden",
    "secrets_in",
    "show_payload",
    "show_text",
]

_NAMED: Final = re.compile(r"""(?<![\w.-])(?P<name>[\w.-]++)\\?["']?[ \t]*+[:=][ \t]*+""")
"""A name in a line of YAML, or of an assignment, up to its value. Each character is examined once:
a name starts only at a boundary, and the pattern does not backtrack."""
_VALUE: Final = re.compile(
    r""""(?:[^"\\]|\\.)*+"?|'[^']*+'?|\{[^{}]*+\}?"""
    r"""|(?:\$\{[^{}]*+\}|[^\s,{}\[\]#|>])(?:\$\{[^{}]*+\}|[^,}\]#])*+"""
)
_OPENS: Final = re.compile(
    r"""(?<![\w.-])(?P<name>[\w.-]++)["']?[ \t]*:[ \t]*(?:[|>][-+0-9]*[ \t]*)?(?:#.*)?$"""
)
"""A name whose value is in the lines after it."""
_DEFAULT: Final = re.compile(r"(?P<before>[-\s]*(?:default|value|enum|const|examples?):)\s*\S")
"""Keys that may hold a secret in a text whose structure is unknown."""
LONGEST_LINE: Final = 2_000
_REFERENCE: Final = re.compile(r"\$\w+|\$\{[^{}]*\}|\{\{[^{}]*\}\}|")
_BY_REFERENCE: Final = re.compile(
    r"\s*(?:(?:basic|bearer|token|apikey)\s+)?"
    r"(?:\{\{[-+]?\s*secret\.[A-Za-z_][A-Za-z0-9_]*\s*[-+]?\}\}\s*)+",
    re.IGNORECASE,
)
HIDDEN: Final = "***"
"""Shown instead of a hidden value."""
_ENDINGS: Final = (
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "secret",
    "secretkey",
    "signingkey",
    "encryptionkey",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
    "credentials",
    "authorization",
    "cookie",
)
_PASS: Final = re.compile(r"(?:.*[^A-Za-z])?(?:pass|PASS)|.*[a-z]Pass", re.DOTALL)
"""As a separate word: `DB_PASS`, but not `bypass`."""
_LOGIN: Final = re.compile(r"(?P<before>://[^\s/?#@:\"']*:)(?P<value>[^\s/?#@\"']+)(?=@)")
"""The password in a URL such as postgresql://ann:hunter22@db."""
_QUERY: Final = re.compile(
    r"(?P<before>(?:^|[?&;])(?P<name>[\w.%\[\]-]{1,100})=)"
    r"(?P<value>(?:\{\{[^{}]{0,200}\}\}|[^&;#\s\"'<>])+)"
)
"""A name and its value in the query of a URL, or in a form."""
_MEMBER: Final = re.compile(
    r"""(?P<before>(?P<q>\\?["'])(?P<name>[\w.-]{1,100})(?P=q)[ \t]*:[ \t]*)"""
    r"""(?P<value>(?P<r>\\?["'])(?P<text>(?:\\[^"']|[^"'\\])*)(?P=r)|[0-9][\w.+-]*)"""
)
"""A name and its value in a text that is JSON, or looks like it."""


def is_secret(name: object) -> bool:
    """Whether a value of this name is hidden: `db_password`, `API-Key`, `accessToken`."""
    if not isinstance(name, str):
        return False
    return _sounds_secret(name) if len(name) <= 100 else _sounds_secret.__wrapped__(name)


@lru_cache(4096)
def _sounds_secret(name: str) -> bool:
    return re.sub(r"[^a-z]", "", name.lower()).endswith(_ENDINGS) or bool(_PASS.fullmatch(name))


def is_reference(text: str) -> bool:
    """Whether a text is only a reference to a value, such as ${NAME}."""
    return _REFERENCE.fullmatch(text.strip("\"' \t")) is not None


def is_by_reference(value: object) -> bool:
    """Whether a text only refers to secrets of nodes, such as `Bearer {{ secret.NAME }}`."""
    return isinstance(value, str) and _BY_REFERENCE.fullmatch(value) is not None


def show_payload(value: Any, secrets: Iterable[str] = ()) -> Any:
    """A payload, or an output, as it may be shown; `secrets` are hidden wherever they occur."""
    words = sorted(secrets, key=len, reverse=True)

    def show(text: str) -> str:
        for word in words:
            text = text.replace(word, HIDDEN)
        return show_text(text)

    return _changed(value, _hidden_below, HIDDEN, show)


def show_text(text: str) -> str:
    """A text as it may be shown: hides passwords in URLs, and values with secret names in a query,
    a form or JSON."""
    if "://" in text:
        text = _LOGIN.sub(_shown_login, text)
    if "=" in text:
        text = _QUERY.sub(_shown_pair, text)
    return _MEMBER.sub(_shown_member, text) if ":" in text else text


def _shown_login(match: re.Match[str]) -> str:
    return match[0] if is_reference(match["value"]) else match["before"] + HIDDEN


def _shown_pair(match: re.Match[str]) -> str:
    hides = is_secret(match["name"]) and not is_reference(match["value"])
    return match["before"] + HIDDEN if hides else match[0]


def _shown_member(match: re.Match[str]) -> str:
    if not is_secret(match["name"]) or is_reference(match["text"] or "-"):
        return match[0]
    quote = match["r"] or match["q"]
    return f"{match['before']}{quote}{HIDDEN}{quote}"


def keep_secrets(value: Any, current: Any) -> Any:
    """A payload that replaces `current`: its hidden values are kept."""
    if isinstance(value, str) and isinstance(current, str):
        return current if HIDDEN in value and value == show_text(current) else value
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
    """A payload that was shown, with a word in place of each hidden value."""
    return _changed(value, lambda item: item == HIDDEN, "hidden", _filled_text)


def _filled_text(text: str) -> str:
    return text.replace(HIDDEN, "hidden") if _hides(text) else text


def _changed(
    value: Any, concerns: Callable[[Any], bool], word: str, change: Callable[[str], str]
) -> Any:
    """With `word` for those secrets that `concerns` selects, at any depth; changes other texts."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {
            name: word
            if is_secret(name) and concerns(item)
            else _changed(item, concerns, word, change)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [_changed(item, concerns, word, change) for item in value]
    return value


def refuse_hidden(key: str, value: Any) -> None:
    """Raises Invalid for a payload with a value that was hidden when it was shown."""
    for name, item in _named(value):
        if item == HIDDEN and is_secret(name):
            raise Invalid(
                f'{key} "{shorten(name)}" is {HIDDEN}, a placeholder for a hidden value; give '
                "the real value"
            )
    for text in _texts(value):
        if _hides(text):
            raise Invalid(
                f'{key} "{shorten(text)}" contains {HIDDEN}, a placeholder for a hidden value; '
                "give the real value"
            )


def _hides(text: str) -> bool:
    """Whether a text comes from a form in which something was hidden."""
    return HIDDEN in text and HIDDEN in _secrets_in_text(text)


def hide_in_lines(
    lines: list[str], only: Collection[int] | None = None, strict_from: int | None = None
) -> list[str]:
    """The lines of a text such as YAML as they may be shown, with values hidden by their names.

    Indented lines below such a name are hidden too; a reference such as ${NAME} is not a secret. A
    very long line is cut. `only` selects the lines to show, by position; the others are empty. From
    `strict_from` on, where the text could not be parsed, more is hidden.
    """
    shown, hidden_below = list[str](), None
    for number, whole in enumerate(lines):
        line = whole if len(whole) <= LONGEST_LINE else whole[:LONGEST_LINE] + "…"
        indent = len(line) - len(line.lstrip())
        if hidden_below is not None and (indent > hidden_below or not line.strip()):
            shown.append(line[:indent] + HIDDEN if line.strip() else line)
            continue
        hidden_below = None
        if (opened := _OPENS.search(line)) and is_hidden_key(opened["name"]):
            hidden_below = opened.start("name")
        told = _shown_line(line)
        if strict_from is not None and number >= strict_from:
            told, below = _strictly(line, told)
            hidden_below = indent if below else hidden_below
        shown.append(told if only is None or number in only else "")
    return shown


def _shown_line(line: str) -> str:
    line = _LOGIN.sub(_shown_login, line) if "://" in line else line
    pieces, place, looked = list[str](), 0, 0
    while (named := _NAMED.search(line, looked)) is not None:
        looked = named.end()
        value = _VALUE.match(line, looked) if is_hidden_key(named["name"]) else None
        if value is not None and not is_reference(value[0]):
            pieces += [line[place:looked], HIDDEN]
            looked = place = value.end()
    return "".join(pieces) + line[place:]


def _strictly(line: str, shown: str) -> tuple[str, bool]:
    """A line with everything hidden after the first secret, and whether there is one."""
    if shown != line:
        return shown.partition(HIDDEN)[0] + HIDDEN, True
    default = _DEFAULT.match(line)
    return (line, False) if default is None else (default["before"] + HIDDEN, True)


def is_hidden_key(name: str) -> bool:
    """Whether everything below a key of YAML is hidden."""
    return is_secret(name) or name.lower().lstrip("-.0123456789") == "headers"


def secrets_in(payload: Any) -> Iterator[str]:
    """The texts that are hidden, including those below a name that is hidden as a whole."""
    for name, item in _named(payload):
        if is_secret(name):
            yield from _texts(item)
    for text in _texts(payload):
        yield from _secrets_in_text(text)


def _secrets_in_text(text: str) -> Iterator[str]:
    """What `show_text` hides."""
    for sign, pattern in (("://", _LOGIN), ("=", _QUERY), (":", _MEMBER)):
        for match in pattern.finditer(text) if sign in text else ():
            found = match.groupdict()
            value = found.get("text") or found["value"]
            if is_secret(found.get("name", "password")) and not is_reference(value):
                yield from {value, unquote_plus(value)}


def _texts(value: Any) -> Iterator[str]:
    """Every text and number in a value, as text."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif _holds(value):
        yield str(value)


def _hidden_below(item: Any) -> bool:
    """Whether a value is hidden because of its name."""
    return _holds(item) and not is_by_reference(item)


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
