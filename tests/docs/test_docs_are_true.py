"""The documents: every `$ duebook …` in them is run, and its output is what they show."""

from __future__ import annotations

import doctest
import importlib
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import duebook
from tests.docs.sessions import PAGES, ROOT, alike, run_page, steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duebook.testing import Simulation

PROGRAM = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", re.DOTALL)
ID = re.compile(r"\b01[0-9a-f]{6}-[0-9a-f]{4}\b")


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(step.kind == "command" for step in steps(page))],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_the_output_shown_is_the_real_one(page: Path, tmp_path: Path) -> None:
    for command, shown, printed in run_page(page, tmp_path):
        if not alike(command, shown, printed):
            assert printed == shown, f"{command}; to write it: python -m tests.docs.sessions"


def test_every_test_that_the_protocol_names_exists() -> None:
    sources = [path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    named = re.findall(r"`(test_\w+)`", (ROOT / "docs" / "protocol.md").read_text("utf-8"))
    assert named
    for name in named:
        assert any(f"def {name}(" in source for source in sources), name


def test_the_readme_can_be_read_in_five_minutes() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 150


def programs() -> Iterator[tuple[str, str, str | None]]:
    """(page, program, what the page says it prints, if it says so)"""
    for page in PAGES:
        for program, printed in PROGRAM.findall(page.read_text("utf-8")):
            yield page.name, program, printed or None


@pytest.mark.parametrize(("page", "program", "printed"), list(programs()))
def test_the_python_examples_run_and_print_what_is_shown(
    page: str,
    program: str,
    printed: str | None,
    simulation: Callable[..., Simulation],
    capsys: pytest.CaptureFixture[str],
) -> None:
    names: dict[str, Any] = {}
    exec(compile(program, page, "exec"), names)  # noqa: S102 - our own words
    for name, test in list(names.items()):
        if name.startswith("test_"):
            test(simulation)
    if printed is not None:
        assert ID.sub("an id", capsys.readouterr().out) == ID.sub("an id", printed)


def test_the_examples_in_docstrings_are_true() -> None:
    """Modules without any are left out: to look through all takes many seconds."""
    tried = 0
    for path in sorted(Path(duebook.__file__).parent.rglob("*.py")):
        if ">>> " in path.read_text("utf-8"):
            parts = path.relative_to(ROOT / "src").with_suffix("").parts
            name = ".".join(parts).removesuffix(".__init__")
            result = doctest.testmod(importlib.import_module(name))
            assert result.failed == 0, name
            assert result.attempted > 0, name
            tried += result.attempted
    assert tried > 0


def test_every_module_says_what_it_knows() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        assert path.read_text("utf-8").startswith('"""'), path


def test_nobody_is_told_to_install_what_is_not_on_pypi() -> None:
    """To be deleted with the first release on PyPI."""
    advice = re.compile(r"(?:pip|pipx|uv)[a-z ]* (?:install|add)\s+(?:-\S+\s+)*['\"]?duebook\b")
    texts = [*PAGES, ROOT / "CHANGELOG.md", *(ROOT / "src").rglob("*.py")]
    found = [str(path.relative_to(ROOT)) for path in texts if advice.search(path.read_text())]
    assert found == []


@pytest.mark.parametrize(
    ("extra", "module"),
    [
        ("postgres", "store/opening.py"),
        ("kafka", "sinks/kafka.py"),
        ("holidays", "book/calendar_days.py"),
        ("jq", "builtin_steps/jq.py"),
    ],
)
def test_the_advice_about_a_missing_driver_is_what_the_project_needs(
    extra: str, module: str
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (needed,) = project["optional-dependencies"][extra]
    assert f"pip install '{needed}'" in (ROOT / "src" / "duebook" / module).read_text()
