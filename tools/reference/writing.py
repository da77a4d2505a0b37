"""Shared by the reference pages: tables, cells and the names of types."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Union, get_args, get_origin

from duebook.api.app import create_app

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "NOTE",
    "ROOT",
    "SOURCE",
    "api_document",
    "cell",
    "members",
    "paragraphs",
    "table",
    "type_text",
]

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src" / "duebook"
NOTE: Final = "<!-- Written by `make derive` from the code; do not edit. -->"


@cache
def api_document() -> dict[str, Any]:
    """The OpenAPI document, which needs no database."""
    nothing: Any = None
    document: dict[str, Any] = create_app(nothing, nothing).openapi()
    return document


def cell(text: str) -> str:
    """Text for a table cell: one line, in which `|` does not end the cell."""
    return " ".join(text.split()).replace("|", "\\|")


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """The lines of a table, and an empty one."""
    heads = list(heads)
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(map(cell, row))} |"
    yield ""


def paragraphs(text: str) -> Iterator[str]:
    """A docstring as Markdown: lines of a paragraph joined, examples as code."""
    for block in filter(None, re.split(r"\n\s*\n", text.strip())):
        lines = block.splitlines()
        if lines[0].strip().startswith(">>>"):
            yield from ("```text", *(line.strip() for line in lines), "```", "")
        else:
            yield " ".join(line.strip() for line in lines)
            yield ""


def type_text(hint: Any) -> str:
    """A type in the usual notation."""
    origin = get_origin(hint)
    if hint is None or hint is NoneType:
        return "None"
    if isinstance(hint, str):
        return hint
    if origin is Annotated:
        return type_text(get_args(hint)[0])
    if origin in (Union, UnionType):
        return " | ".join(dict.fromkeys(map(type_text, get_args(hint))))
    if origin is Literal:
        return " | ".join(map(repr, get_args(hint)))
    name = getattr(origin or hint, "__name__", str(hint))
    if name == "Listing":
        name = "list"
    if arguments := [one for one in get_args(hint) if one is not Ellipsis]:
        return f"{name}[{', '.join(map(type_text, arguments))}]"
    return str(name)


def members(path: str, name: str) -> Iterator[tuple[str, str]]:
    """The members of a class in the order of its source, each with its docstring."""
    tree = ast.parse((SOURCE / path).read_text("utf-8"))
    (found,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    for node, after in zip(found.body, [*found.body[1:], None], strict=True):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if isinstance(target, ast.Name):
                yield target.id, _docstring(after)


def _docstring(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return str(node.value.value)
    return ""
