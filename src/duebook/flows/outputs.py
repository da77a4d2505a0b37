"""Reads what a step returns: named values, and files for its output."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, quoted, shorten
from duebook.flows.parse import Node, plain
from duebook.flows.section import Section, items, text_of
from duebook.flows.variables import check_value, walk
from duebook.flows.words import OUTPUTS
from duebook.model.flow import NamedOutput

if TYPE_CHECKING:
    from duebook.flows.references import Scope

__all__ = ["read_file", "read_outputs"]

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")


def read_outputs(section: Section) -> tuple[NamedOutput, ...]:
    """The values that a step declares, each with its type."""
    node = section.get("outputs")
    if node is None:
        return ()
    if (both := section.get("output")) is not None:
        told = "a step cannot have both output and outputs"
        section.problem(both, "output", told, "print the value in a step of its own")
    if not isinstance(node.value, list) or not node.value:
        told = f"outputs {shorten(plain(node))} is not a list"
        section.problem(node, "outputs", told, "write `outputs: [{name: NAME}]`")
        return ()
    found: dict[str, NamedOutput] = {}
    for place, item in enumerate(items(node)):
        inner = Section(item, section.at(f"outputs[{place}]"), section.problems, OUTPUTS)
        made = section.judge(item, f"outputs[{place}]", None, _output, inner)
        if made is not None and made.name in found:
            section.problem(item, "outputs", f'two outputs are named "{made.name}"')
        if made is not None:
            found[made.name] = made
    return tuple(found.values())


def _output(inner: Section) -> NamedOutput:
    name = inner.read("name", text_of, "")
    if not _NAME.fullmatch(name):
        raise Invalid(f"name {quoted(name)} of an output is not letters, digits and underscores")
    kind = inner.read("type", text_of, "string")
    if kind not in ("string", "json"):
        raise Invalid(f"type {quoted(kind)} of an output is not one of string, json")
    return NamedOutput(name, kind == "json")


def read_file(section: Section, key: str, scope: Scope) -> str | None:
    """The file for the output of a step, as a template."""
    node = section.get(key)
    return None if node is None else section.judge(node, key, None, _file, key, node, scope)


def _file(key: str, node: Node, scope: Scope) -> str:
    value: Any = plain(node)
    if isinstance(value, dict):
        names = ", ".join(map(shorten, value))
        raise Invalid(f"{key} with {names} is not supported; write the name of a file")
    text: str = walk(text_of(key, value), scope)
    check_value(text, scope, key, "write the name literally, or with variables of env")
    path = PurePosixPath(text)
    if not text or path.is_absolute() or text.startswith("~") or ".." in path.parts:
        raise Invalid(
            f"{key} {quoted(value)} is not below the working directory; write a relative path, "
            "or redirect the output in the command"
        )
    return text
