"""Finds the parameters of a function in source code, without importing it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["parameters_of"]

MOST_BYTES: Final = 2_000_000


def parameters_of(module: str, function: str, folder: Path) -> list[str] | None:
    """The names of positional parameters; None if the source file is not below the folder."""
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    base = folder.joinpath(*parts)
    for path in (base.with_name(f"{base.name}.py"), base / "__init__.py"):
        if path.is_file() and path.stat().st_size <= MOST_BYTES:
            return _in_source(path.read_bytes(), function)
    return None


def _in_source(source: bytes, function: str) -> list[str] | None:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function:
            return [one.arg for one in (*node.args.posonlyargs, *node.args.args)]
    return None
