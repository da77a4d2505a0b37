"""Reads the keys of one mapping of a flow file; each problem has its place and a correction."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any, Final, TypeVar

from duebook.errors import Invalid, quoted, shorten
from duebook.flows.parse import Node, plain
from duebook.flows.problems import Misplaced, did_you_mean
from duebook.flows.words import TABLES
from duebook.model.fields import read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duebook.flows.problems import Problems
    from duebook.flows.words import Table

__all__ = ["Section", "items", "read_description", "split_words", "text_of", "whole_of"]

FEW: Final = 12
"""A hint lists the keys if there are no more than this."""
LONGEST_LINE: Final = 10_000
"""Characters that may be split into words."""
T = TypeVar("T")
V = TypeVar("V")
D = TypeVar("D")


class Section:
    """A mapping whose keys are in a table; unknown and refused keys become problems at once."""

    def __init__(self, node: Node, path: str, problems: Problems, table: Table) -> None:
        self.node = node
        self.path = path
        self.problems = problems
        self._values: dict[str, Node] = {}
        self._said: dict[str, str] = {}
        problems.go_on()
        self.is_whole = True
        """whether all of its keys were accepted; if not, a missing key may already be reported"""
        if not isinstance(node.value, dict):
            self.is_whole = False
            name, first = path.rpartition(".")[2] or "a flow", next(iter(table.words))
            hint = (
                "write `steps:` and a list of steps" if not path else f"write `{first}:` below it"
            )
            problems.add(node, path, f"{name} is not a mapping, but {_kind(node)}", hint)
            return
        for key, value in node.value.items():
            self._take(table, key, value)

    def _take(self, table: Table, key: str, value: Node) -> None:
        word, place = table.find(key), self.node.keys[key]
        if word is None:
            self.is_whole = False
            hint = _meant(key, table) if self.problems.may_guess else ""
            self.problems.add(place, self.at(key), f"unknown key `{shorten(key)}`", hint)
        elif word.instead is not None:
            if value.value is False:  # it turns off a feature that does not exist
                return
            self.is_whole = False
            told = f"key `{key}` is not supported"
            self.problems.add(place, self.at(key), told, word.instead)
        elif (name := word.same_as or word.name) in self._values:
            told = f"key `{key}` means the same as `{self.said(name)}`"
            self.problems.add(place, self.at(key), told, "keep one of them")
        elif value.value is not None:
            self._values[name] = value
            self._said[name] = key

    def at(self, key: str) -> str:
        """The path to a key, or to a part of its value."""
        first = re.split(r"[.\[]", key)[0]
        said = self.said(first) + key[len(first) :]
        return f"{self.path}.{said}" if self.path and said else self.path or said

    def said(self, key: str) -> str:
        """How the file writes a key."""
        return self._said.get(key, key)

    def has_any(self, keys: frozenset[str]) -> bool:
        return not keys.isdisjoint(self._values)

    def among(self, keys: Mapping[str, V]) -> list[tuple[str, V, Node]]:
        """Its keys that are also in the given mapping, with both values."""
        return [(key, keys[key], node) for key, node in self._values.items() if key in keys]

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def get(self, key: str) -> Node | None:
        return self._values.get(key)

    def inherit(self, key: str, node: Node) -> None:
        """Use this node for the key unless the section has its own."""
        self._values.setdefault(key, node)

    def replace(self, key: str, node: Node) -> None:
        """Use this node for the key instead of the section's own."""
        self._values[key] = node

    def read(self, key: str, reader: Callable[[str, Any], T], default: D) -> T | D:
        """The value as a reader converts it; an error becomes a problem, and `default` is used."""
        node = self._values.get(key)
        if node is None:
            return default
        return self.judge(node, key, default, reader, self.said(key), plain(node))

    def judge(
        self, node: Node, key: str, default: D, work: Callable[..., T], *arguments: Any
    ) -> T | D:
        """The result of `work`; if it raises Invalid, that becomes a problem at `node`."""
        try:
            return work(*arguments)
        except Misplaced as error:
            place = error.node or node
            within = self.problems.within(place, error.text, error.offset) if error.text else place
            self.problems.add(within, self.at(key), str(error))
            return default
        except Invalid as error:
            self.problem(node, key, str(error))
            return default

    def problem(self, node: Node, key: str, message: str, hint: str = "") -> None:
        self.problems.add(node, self.at(key), message, hint)


def _meant(key: str, table: Table) -> str:
    """What an unknown key probably means."""
    if hint := did_you_mean(key, table.likely(key)):
        return hint
    for other in TABLES:
        if other is not table and did_you_mean(key, other.likely(key)):
            return f"{did_you_mean(key, other.likely(key))[:-1]}, a key of {other.title.lower()}?"
    known = [word.name for word in table.words.values() if word.supported]
    return f"use one of {', '.join(known)}" if len(known) <= FEW else "docs/dagu.md lists all keys"


def _kind(node: Node) -> str:
    if isinstance(node.value, list):
        return "a list"
    return "empty" if node.value is None else shorten(plain(node))


def items(node: Node) -> list[Node]:
    """The items of a list; any other node counts as a list of one."""
    return node.value if isinstance(node.value, list) else [node]


def text_of(key: str, value: Any) -> str:
    """A scalar as a string, numbers as they would be written; raises Invalid."""
    if isinstance(value, str):
        if "\0" in value:
            raise Invalid(f"{key} contains NUL")
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise Invalid(f"{key} {shorten(value)} is not a string")


def split_words(key: str, value: Any) -> list[str]:
    """The words of a line, split as in a shell; raises Invalid."""
    text = text_of(key, value)
    if len(text) > LONGEST_LINE:
        raise Invalid(f"{key} has more than {LONGEST_LINE:,} characters")
    try:
        return shlex.split(text)
    except ValueError:
        raise Invalid(f'{key} "{shorten(text)}" has an unclosed quote') from None


def read_description(key: str, value: Any) -> str:
    """A description, which may be a number."""
    return read_text(key, text_of(key, value))


def whole_of(low: int, high: int) -> Callable[[str, Any], int]:
    """A reader of whole numbers, which may be in quotes."""

    def read(key: str, value: Any) -> int:
        if isinstance(value, str) and value.strip().lstrip("-").isdecimal():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise Invalid(f"{key} {quoted(value)} is not a whole number from {low} to {high:,}")
        return value

    return read
