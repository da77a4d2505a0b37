"""YAML text as it may be shown: secrets are found in its nodes, and hidden in its lines; pure.

Where the text stops being readable as YAML, the rest is checked line by line, which hides more.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from duebook.flows.parse import DEEPEST, events_of
from duebook.flows.problems import LONGEST_LINE, lines_of
from duebook.lazy_dataclasses import dataclass
from duebook.model.secret import HIDDEN, hide_in_lines, is_hidden_key, is_reference, is_secret

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from duebook.flows.problems import Problem

__all__ = ["show_source", "with_lines"]

SHORTEST: Final = 8
"""A secret with this many characters is hidden everywhere else in the text, too."""
MOST_KNOWN: Final = 100
"""Secrets of a text that are searched for in all of it."""
_VALUES: Final = frozenset({"default", "value", "enum", "const", "example", "examples"})
"""Keys beside a `name` that give its possible values."""
_ASSIGNED: Final = re.compile(r"(?<![\w.])([A-Za-z_]\w*)=")
_NOTHING: Final = frozenset({"", "~", "null", "true", "false"})


class _Scalar(NamedTuple):
    text: str
    first: tuple[int, int]
    end: tuple[int, int]
    """line and column where it starts and ends"""


@dataclass(slots=True)
class _Group:
    """A list or a mapping that is or was open, with everything in it."""

    is_mapping: bool
    anchor: str | None
    items: list[Any] = field(default_factory=list)
    key: str | None = None
    """the key whose value comes next"""
    name: str = ""
    """the value of its key `name`"""
    values: list[Any] = field(default_factory=list)
    """the values of keys such as `default`"""
    is_marked: bool = False


class _Finder:
    """Looks for the scalars of one text that must not be shown."""

    def __init__(self) -> None:
        self.secrets: list[_Scalar] = []
        self.line = 0
        """the line up to which the text could be read"""
        self._open: list[_Group] = []
        self._anchors: dict[str, Any] = {}

    def look(self, text: str) -> bool:
        """Whether all of the text could be read."""
        try:
            for event in events_of(text):
                self._read(event)
        except (yaml.YAMLError, UnicodeEncodeError):
            self._break_off()
            return False
        return True

    def _break_off(self) -> None:
        """End all groups that are open."""
        hidden = False
        for group in self._open:
            if hidden:
                self._mark(group.items)
            hidden = hidden or is_hidden_key(group.key or "")
            self._end(group)

    def _read(self, event: Any) -> None:
        match event:
            case ScalarEvent():
                self._scalar(event)
            case MappingStartEvent() | SequenceStartEvent():
                if len(self._open) > DEEPEST:
                    raise yaml.YAMLError
                self._open.append(_Group(isinstance(event, MappingStartEvent), event.anchor))
            case MappingEndEvent() | SequenceEndEvent():
                group = self._open.pop()
                self._end(group)
                self._add(group, group.anchor)
            case AliasEvent():
                self._add(self._anchors.get(event.anchor or ""), None)
            case DocumentEndEvent():
                self._anchors.clear()
        self.line = event.end_mark.line

    def _scalar(self, event: Any) -> None:
        first, end = event.start_mark, event.end_mark
        is_block = event.style in ("|", ">")
        scalar = _Scalar(event.value, (first.line, first.column), (end.line, end.column))
        if first.line < end.line and not is_block and _assigns(scalar.text):
            self.secrets.append(scalar)
        self._add(scalar, event.anchor)

    def _add(self, item: Any, anchor: str | None) -> None:
        """Add a key, or a complete value."""
        if anchor is not None:
            self._anchors[anchor] = item
        if not self._open:
            return
        group = self._open[-1]
        if group.is_mapping and group.key is None:
            group.key = item.text if isinstance(item, _Scalar) else ""
            return
        group.items.append(item)
        key, group.key = group.key or "", None
        if is_hidden_key(key):
            self._mark([item])
        elif key == "name" and isinstance(item, _Scalar):
            group.name = item.text
        elif key in _VALUES:
            group.values.append(item)

    def _end(self, group: _Group) -> None:
        if is_secret(group.name):
            self._mark(group.values)

    def _mark(self, items: Iterable[Any]) -> None:
        """Mark all scalars below these as secret, each once, however often aliases refer to
        them."""
        left = list(items)
        while left:
            item = left.pop()
            if isinstance(item, _Scalar):
                self.secrets.append(item)
            elif isinstance(item, _Group) and not item.is_marked:
                item.is_marked = True
                left.extend(item.items)


def _assigns(text: str) -> bool:
    return any(is_secret(name) for name in _ASSIGNED.findall(text))


def _found(text: str, only: Collection[int] | None = None) -> tuple[list[str], list[str]]:
    """The lines without their secrets, and the secrets."""
    finder = _Finder()
    is_whole = finder.look(text)
    secrets = {s for s in finder.secrets if not (s.text in _NOTHING or is_reference(s.text))}
    lines = lines_of(text)
    for number, spans in _spans(lines, secrets).items():
        lines[number] = _without(lines[number], sorted(spans))
    texts = {line.strip() for secret in secrets for line in lines_of(secret.text)}
    known = sorted((t for t in texts if len(t) >= SHORTEST), key=len, reverse=True)[:MOST_KNOWN]
    if known:
        lines = lines_of(_replaced("\n".join(lines), known))
    return hide_in_lines(lines, only, None if is_whole else finder.line), known


def _replaced(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text


def _spans(lines: list[str], secrets: Iterable[_Scalar]) -> dict[int, list[tuple[int, int]]]:
    """Where secrets are in each line: from which column to which."""
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (first, start), (last, end) in ((secret.first, secret.end) for secret in secrets):
        for number in range(first, min(last + 1, len(lines))):
            line = lines[number]
            begin = start if number == first else len(line) - len(line.lstrip())
            stop = end if number == last else len(line)
            if stop > begin:
                found[number].append((begin, stop))
    return found


def _without(line: str, spans: Iterable[tuple[int, int]]) -> str:
    pieces, place = list[str](), 0
    for begin, stop in spans:
        if begin >= place:
            pieces += [line[place:begin], HIDDEN]
        place = max(place, stop)
    return "".join(pieces) + line[place:]


def show_source(text: str) -> list[str]:
    """The lines of a flow file as they may be shown."""
    return _found(text)[0]


def with_lines(problems: Iterable[Problem], text: str) -> tuple[Problem, ...]:
    """The problems of a text, each with its line, in which secrets are hidden."""
    told = list(problems)
    lines, secrets = _found(text, {problem.line - 1 for problem in told})
    found = []
    for problem in told:
        line = lines[problem.line - 1] if 0 < problem.line <= len(lines) else problem.text
        message, hint = _replaced(problem.message, secrets), _replaced(problem.hint, secrets)
        found.append(replace(problem, text=line[:LONGEST_LINE], message=message, hint=hint))
    return tuple(found)
