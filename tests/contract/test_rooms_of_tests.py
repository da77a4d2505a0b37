"""Where tests are: unit tests mirror the source; code shared by directories is in tests/support."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
OPEN_TO_ALL = {"support", "attack", "chaos"}
"""Directories that others import from; the last two are programs with their own commands."""


def modules(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def imported(path: Path) -> Iterator[list[str]]:
    """The modules of tests that a module imports, as the parts of their names."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests."):
            yield (node.module or "").split(".")[1:]


def test_every_folder_of_unit_tests_is_one_of_the_source() -> None:
    for path in (TESTS / "unit").rglob("test_*.py"):
        folder = path.parent.relative_to(TESTS / "unit")
        known = (ROOT / "src" / "duebook" / folder, ROOT / folder)
        assert any(place.is_dir() or place.with_suffix(".py").is_file() for place in known), path


def test_shared_helpers_contain_no_tests() -> None:
    for path in modules(TESTS / "support"):
        assert not path.name.startswith(("test_", "conftest")), path
        assert "\ndef test_" not in path.read_text(), path


def test_rooms_import_from_no_test_and_from_no_other_room() -> None:
    for path in modules(TESTS):
        room = path.relative_to(TESTS).parts[0]
        for parts in imported(path):
            assert not any(part.startswith("test_") for part in parts), f"{path} imports {parts}"
            assert parts[0] in OPEN_TO_ALL | {room}, f"{path} imports {parts}"
