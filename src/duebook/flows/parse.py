"""Reads YAML into nodes that know their line and column; knows nothing about flows.

Scalars follow YAML 1.2. Tags, duplicate keys, keys that are not strings and merge keys are refused;
aliases share what they refer to, but count as if it were written out. Events of PyYAML are read one
by one: its own composer recurses, and a file full of brackets would crash the process.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from duebook.errors import shorten
from duebook.flows.mistakes import mistake_of
from duebook.flows.problems import Problem, Refused, lines_of
from duebook.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DEEPEST", "MOST_BYTES", "SMALLER", "Node", "events_of", "parse", "plain", "read_scalar"]

MOST_BYTES: Final = 1_000_000
SMALLER: Final = "put long scripts in separate files"
MOST_NODES: Final = 50_000
"""All documents of a file together, with aliases written out."""
MOST_DOCUMENTS: Final = 100
DEEPEST: Final = 40
LONGEST_NUMBER: Final = 40

_INTEGER: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader of libyaml, where PyYAML has it, is ten times as fast."""


@dataclass(slots=True)
class Node:
    """A scalar, a list of nodes, or nodes by their keys, with their place in the file."""

    value: Any
    line: int
    column: int
    size: int = 1
    """how many nodes it has when aliases are written out"""
    keys: dict[str, Node] = field(default_factory=dict)
    """for a mapping: the place of each key"""
    is_block: bool = False
    """whether it is text on the lines below its key, after `|`"""


def parse(
    text: str,
    file: str,
    most_bytes: int = MOST_BYTES,
    most_nodes: int = MOST_NODES,
    most_documents: int = MOST_DOCUMENTS,
) -> list[Node]:
    """The documents of a text; raises Refused at the first error."""
    if len(text) > most_bytes:
        told = f"it has {len(text):,} characters; at most {most_bytes:,} are allowed"
        raise Refused(Problem(file, 0, 0, "", told, SMALLER))
    return _Reader(file, most_nodes, most_documents).documents(text)


def plain(node: Node) -> Any:
    """The value as in JSON, without places."""
    match node.value:
        case list():
            return [plain(item) for item in node.value]
        case dict():
            return {key: plain(item) for key, item in node.value.items()}
    return node.value


class _Reader:
    """Reads one file; keeps open nodes in a list instead of recursing."""

    def __init__(
        self, file: str, most_nodes: int = MOST_NODES, most_documents: int = MOST_DOCUMENTS
    ) -> None:
        self._file = file
        self._most_nodes = most_nodes
        self._most_documents = most_documents
        self._count = 0
        self._open: list[tuple[Node, str | None]] = []
        """the nodes that are not yet closed, with their anchors"""
        self._key: list[Node | None] = []
        """for each open node: the key whose value comes next"""
        self._anchors: dict[str, Node] = {}
        self._done: list[Node] = []

    def documents(self, text: str) -> list[Node]:
        try:
            for event in events_of(text):
                self._read(event)
        # half a surrogate pair, as JSON may have it, cannot be encoded
        except (yaml.YAMLError, UnicodeEncodeError) as error:
            raise self._refusal(*mistake_of(error, lines_of(text))) from None
        return self._done

    def _read(self, event: Any) -> None:
        match event:
            case ScalarEvent():
                self._check(event)
                value = read_scalar(event.value) if event.style in (None, "") else event.value
                node = self._node(event, value)
                if event.style == "|":
                    node.is_block = True
                self._add(node, event.anchor)
            case MappingStartEvent():
                self._start(event, {})
            case SequenceStartEvent():
                self._start(event, [])
            case MappingEndEvent() | SequenceEndEvent():
                node, anchor = self._open.pop()
                self._key.pop()
                self._add(node, anchor, counted=True)
            case AliasEvent():
                self._alias(event)
            case DocumentStartEvent():
                if len(self._done) >= self._most_documents:
                    told = f"it has more than {self._most_documents:,} documents"
                    raise self._refused(event, told, "put the others in separate files")
            case DocumentEndEvent():
                self._anchors.clear()

    def _start(self, event: Any, value: Any) -> None:
        self._check(event)
        if len(self._open) >= DEEPEST:
            raise self._refused(event, f"it is nested more than {DEEPEST} levels deep")
        self._open.append((self._node(event, value), event.anchor))
        self._key.append(None)

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            within = any(event.anchor == anchor for _, anchor in self._open)
            told = "contains itself" if within else "refers to nothing before it"
            raise self._refused(event, f"alias *{shorten(event.anchor)} {told}")
        node = self._anchors[event.anchor]
        self._spend(event, node.size)
        self._add(node, None, counted=True)

    def _check(self, event: NodeEvent) -> None:
        """Raises Refused for a tag."""
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise self._refused(event, f"tag {shorten(tag)} is not allowed", "leave it out")

    def _node(self, event: Any, value: Any) -> Node:
        self._spend(event, 1)
        mark = event.start_mark
        return Node(value, mark.line + 1, mark.column + 1)

    def _spend(self, event: Any, size: int) -> None:
        self._count += size
        if self._count > self._most_nodes:
            raise self._refused(
                event, f"it has more than {self._most_nodes:,} values with aliases expanded"
            )

    def _add(self, node: Node, anchor: str | None, counted: bool = False) -> None:
        if anchor is not None:
            self._anchors[anchor] = node
        if not self._open:
            self._done.append(node)
            return
        parent, _ = self._open[-1]
        parent.size += node.size if counted else 1
        if isinstance(parent.value, list):
            parent.value.append(node)
        elif (key := self._key[-1]) is None:
            self._key[-1] = self._checked_key(parent, node)
        else:
            parent.value[key.value] = node
            self._key[-1] = None

    def _checked_key(self, parent: Node, node: Node) -> Node:
        key = node.value
        if key == "<<":
            raise self._at(
                node, "merge keys (`<<`) are not supported in YAML 1.2", "write the keys out"
            )
        if not isinstance(key, str):
            if not isinstance(key, int | float) or isinstance(key, bool):
                told = f"key {shorten(plain(node))} is not a string"
                raise self._at(node, told, "put it in quotes")
            node = Node(str(key), node.line, node.column)
        if (first := parent.keys.get(node.value)) is not None:
            told = f"key `{shorten(node.value)}` appears twice, first on line {first.line}"
            raise self._at(node, told, "keep one of them")
        parent.keys[node.value] = node
        return node

    def _refused(self, event: Any, message: str, hint: str = "") -> Refused:
        mark = event.start_mark
        return self._refusal(mark.line + 1, mark.column + 1, message, hint)

    def _at(self, node: Node, message: str, hint: str) -> Refused:
        return self._refusal(node.line, node.column, message, hint)

    def _refusal(self, line: int, column: int, message: str, hint: str = "") -> Refused:
        return Refused(Problem(self._file, line, column, "", message, hint))


def events_of(text: str) -> Iterator[Any]:
    """The events of PyYAML, one by one."""
    loader = _Loader(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()


def read_scalar(text: str) -> Any:
    """A plain scalar by the core schema of YAML 1.2: `no` and `2026-01-01` are strings."""
    if text in _WORDS:
        return _WORDS[text]
    if not (text[0].isdigit() or text[0] in "+-.") or len(text) > LONGEST_NUMBER:
        return text
    if _INTEGER.fullmatch(text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text
