"""The command line on books of its own, for the contract tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from duebook.cli import main

if TYPE_CHECKING:
    from pathlib import Path


class Cli:
    """The command line on books of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, ["--database", str(self.path), *arguments])

    def ok(self, *arguments: str) -> str:
        result = self(*arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.ok(*arguments, "--json"))


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "books" / "duebook.db")
