"""Checks the structure of the code: `make house` prints its size, its largest classes, how deep
the store inherits, and where policies are still listed by hand. It fails if a bound is exceeded."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from duebook.model.schedule import POLICIES

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE: Final = Path(__file__).parents[1] / "src" / "duebook"
MOST_METHODS: Final = 25
DEEPEST: Final = 3
MOST_NAMED: Final = 7
"""Policies that a module may name: more of them are a list."""
DECLARED: Final = {"model/schedule.py", "model/policies.py"}
"""Where they are declared, and where derived parts list them."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield str(path.relative_to(SOURCE)), ast.parse(path.read_text("utf-8"))


def statements(tree: ast.AST) -> int:
    """Number of statements except docstrings: formatting cannot change it."""
    return sum(
        isinstance(node, ast.stmt)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for node in ast.walk(tree)
    )


def classes(trees: dict[str, ast.Module]) -> dict[str, tuple[str, ast.ClassDef]]:
    """By name; names are unique enough here."""
    return {
        node.name: (place, node)
        for place, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }


def methods(node: ast.ClassDef) -> int:
    return sum(
        isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and not item.name.startswith("_")
        for item in node.body
    )


def depth(name: str, found: dict[str, tuple[str, ast.ClassDef]]) -> int:
    """The depth of inheritance among our classes, including itself."""
    _, node = found[name]
    bases = [base.id for base in node.bases if isinstance(base, ast.Name) and base.id in found]
    return 1 + max((depth(base, found) for base in bases), default=0)


def policies_named(tree: ast.AST) -> set[str]:
    """Policies that appear as a text, an argument or a field."""
    named: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) | ast.keyword(arg=str(text)):
                named.add(text)
            case ast.AnnAssign(target=ast.Name(id=text)):
                named.add(text)
    return named & POLICIES.keys()


def main() -> int:
    wrong = 0
    trees = dict(modules())
    told = sum(map(statements, trees.values()))
    sys.stdout.write(f"{told:,} statements in {len(trees)} modules\n")
    found = classes(trees)
    for name, (place, node) in sorted(found.items(), key=lambda item: -methods(item[1][1])):
        if methods(node) > MOST_METHODS:
            wrong += 1
            sys.stdout.write(f"{place}: {name} has {methods(node)} public methods\n")
    for name, (place, _) in found.items():
        if place.startswith("store/") and depth(name, found) > DEEPEST:
            wrong += 1
            sys.stdout.write(f"{place}: {name} inherits {depth(name, found)} deep\n")
    for place, tree in trees.items():
        named = policies_named(tree)
        if place not in DECLARED and len(named) > MOST_NAMED:
            wrong += 1
            sys.stdout.write(f"{place} names {len(named)} policies: {', '.join(sorted(named))}\n")
    sys.stdout.write(f"{wrong} beyond their bounds\n" if wrong else "all within their bounds\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
