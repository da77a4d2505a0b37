"""The worked examples of CONTRIBUTING.md, applied to a copy of the source, pass the tests that they
add; and the documents name only files that exist."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "CONTRIBUTING.md"
COPIED = ("src", "tests", "tools", "docs", "pyproject.toml")
LEFT_OUT = shutil.ignore_patterns("images", "chaos", "integration", "browser", "attack", "zones")
STEP = re.compile(
    r"(?:Create `(?P<new>[^`]+)`"
    r"|In `(?P<file>[^`]+)`, (?P<where>above|below) `(?P<anchor>[^`]+)`):\n\n"
    r"(?P<indent> *)```\w+\n(?P<text>.*?)\n(?P=indent)```"
    r"|In `(?P<changed>[^`]+)`, change `(?P<old>[^`]+)` to `(?P<by>[^`]+)`",
    re.DOTALL,
)
NAMED = re.compile(r"(?<![\w./{*-])(?:[\w-]+/)*[\w-]+\.(?:py|sql|html)\b")
FILES = [
    path.relative_to(ROOT).as_posix()
    for folder in ("src", "tests", "tools", "bench", "examples")
    for path in (ROOT / folder).rglob("*.*")
]
DOCUMENTS = [GUIDE, *sorted((ROOT / "docs").rglob("*.md"))]


def steps() -> list[re.Match[str]]:
    """The steps of all examples, in their order; lines that were wrapped are joined."""
    prose = re.split(
        r"(^ *```.*?^ *```$)", GUIDE.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    joined = [re.sub(r"(?<=\S)\n *(?=`|\w)", " ", part) for part in prose[::2]]
    text = "".join(a + b for a, b in zip(joined, [*prose[1::2], ""], strict=True))
    return list(STEP.finditer(text))


def apply(step: re.Match[str], root: Path) -> None:
    """Do to a copy of the source what a step says."""
    if step["changed"]:
        path, found = root / step["changed"], step["old"]
        text = path.read_text("utf-8")
        assert text.count(found) == 1, f"{path.name} has {text.count(found)} of: {found}"
        path.write_text(text.replace(found, step["by"]), "utf-8")
        return
    indent = re.compile(rf"^{step['indent']}", re.MULTILINE)
    added = indent.sub("", step["text"]) + "\n"
    if step["new"]:
        path = root / step["new"]
        assert not path.exists(), f"{step['new']} exists"
        path.write_text(added, "utf-8")
        return
    path = root / step["file"]
    lines = path.read_text("utf-8").splitlines(keepends=True)
    places = [n for n, line in enumerate(lines) if line.strip().startswith(step["anchor"])]
    assert len(places) == 1, f"{path.name} has {len(places)} lines that begin: {step['anchor']}"
    lines.insert(places[0] + (step["where"] == "below"), added)
    path.write_text("".join(lines), "utf-8")


def run(root: Path, *words: str) -> None:
    done = subprocess.run(  # noqa: S603
        [sys.executable, *words],
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        | {"PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"},
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.lengthy
def test_the_examples_can_be_followed(tmp_path: Path) -> None:
    for part in COPIED:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, tmp_path / part, ignore=LEFT_OUT)
        else:
            shutil.copy(ROOT / part, tmp_path / part)
    for step in steps():
        apply(step, tmp_path)
    changed = {step["new"] or step["file"] or step["changed"] for step in steps()}
    python = sorted(path for path in changed if path.endswith(".py"))
    tests = sorted(path for path in python if path.startswith("tests/"))
    assert tests
    run(tmp_path, "-m", "ruff", "format", "-q", *python)
    run(tmp_path, "-m", "ruff", "check", "-q", *python)
    run(tmp_path, "-m", "tools.derive")
    everywhere = "tests/contract/test_fields_everywhere.py"
    chosen = "not postgres and not declared_is_on_every_surface"
    words = ["-q", "-p", "no:cacheprovider", "-m", "", "-k", chosen]  # also what is marked `long`
    run(tmp_path, "-m", "pytest", *words, *tests, everywhere)


def test_a_guide_with_a_step_that_cannot_be_followed_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\n", "utf-8")
    step = STEP.search(
        dedent("""\
        In `a.py`, above `three`:

        ```python
        more
        ```
        """)
    )
    assert step is not None
    with pytest.raises(AssertionError, match="0 lines that begin: three"):
        apply(step, tmp_path)


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.name)
def test_the_files_that_a_document_names_exist(page: Path) -> None:
    """Examples for users name files of their own, which have no folder."""
    ours = page == GUIDE or page.parent.name == "adr" or page.name == "ARCHITECTURE.md"
    text = re.sub(r"```console.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    made = [step["new"] for step in steps() if step["new"]] if page == GUIDE else []
    for name in NAMED.findall(text):
        if "/" in name or ours:
            there = any(f"/{file}".endswith(f"/{name}") for file in [*FILES, *made])
            assert there, f"{page.name} names {name}"
