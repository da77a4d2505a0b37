"""The terminal sessions that documents show: `console` blocks, each `$ duebook …` with its output.

The sessions of a page share a directory, and so a database. The files that the page shows are in
it: those whose block follows a line that ends with their name, as in "Save this as `etl.yaml`:". A
page that waits for a run has a node beside it. `python -m tests.docs.sessions` writes the output
that the commands print now into the pages.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from contextlib import ExitStack, chdir
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from click.testing import CliRunner

from duebook import Duebook
from duebook.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PAGES", "ROOT", "Step", "alike", "run_page", "steps"]

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = [
    ROOT / "README.md",
    *(
        page
        for page in sorted((ROOT / "docs").rglob("*.md"))
        if page.parent.name not in {"adr", "reference"}
    ),
]
HERE: Final = "/srv/books"
"""What the directory of a session is called in pages."""
_FENCE: Final = re.compile(
    r"^(?:[^\n]*`(?P<file>[\w./-]+)`:\n\n)?```(?P<kind>\w+)\n(?P<text>.*?)^```",
    re.DOTALL | re.MULTILINE,
)
_COMMAND: Final = re.compile(r"^\$ ((?:[^\n]*\\\n)*[^\n]*)\n", re.MULTILINE)
_FIXED: Final = ("duebook next ", "duebook describe ", "duebook flow check ", "duebook flow graph ")
"""Commands whose output does not depend on the time of day."""
_DAY: Final = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?"
_VARYING: Final = (
    (re.compile(r"\b01[0-9a-f]{6}-[0-9a-f]{4}(?:-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})?\b"), "ID"),
    (re.compile(r"\b(?:dbk|whsec)_\S+"), "SECRET"),
    (re.compile(r'"cli:[^"]+"'), "USER"),
    (re.compile(rf"{_DAY}\d{{4}}-\d\d-\d\d(?:[T ][\d:.]+)?(?:Z| UTC)?"), "TIME"),
    (re.compile(rf"{_DAY}\b\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?: UTC)?"), "TIME"),
    (re.compile(r"\b\d{8}T\d{6}Z"), "TIME"),
    (re.compile(r"\b[\d,]+ bytes\b"), "SIZE"),
    (re.compile(r"\b[\d.,]+ (?:ms|s|min|h|d)\b(?: \d+ (?:s|min|h)\b)?"), "LENGTH"),
    (re.compile(r"\s+"), " "),
)


class Step(NamedTuple):
    """A file to write, or a command with what the page shows below it."""

    kind: str
    name: str
    text: str


def steps(page: Path) -> Iterator[Step]:
    """What a page tells its reader to do, in order."""
    for fence in _FENCE.finditer(page.read_text("utf-8")):
        if fence["kind"] == "console":
            parts = _COMMAND.split(fence["text"])
            for command, shown in zip(parts[1::2], parts[2::2], strict=True):
                if command.startswith("duebook "):
                    yield Step("command", command, shown.rstrip("\n"))
        elif fence["file"]:
            yield Step("file", fence["file"], fence["text"])


def run_page(page: Path, folder: Path) -> Iterator[tuple[str, str, str]]:
    """(command, what the page shows, what it printed) of each command, run in the folder."""
    todo = list(steps(page))
    environment = {name: None for name in os.environ if name.startswith("DUEBOOK_")}
    runner = CliRunner(env={**environment, "COLUMNS": "100", "NO_COLOR": "1"})
    with ExitStack() as stack:
        stack.enter_context(chdir(folder))
        while todo and todo[0].kind == "file":  # a node reads its settings when it starts
            _write(folder, todo.pop(0))
        if any(" --wait" in step.name for step in todo):
            book = stack.enter_context(Duebook(".duebook/duebook.db"))
            stack.enter_context(book.running())
        for step in todo:
            if step.kind == "file":
                _write(folder, step)
            else:
                yield step.name, step.text, _output(runner, step.name)


def _write(folder: Path, step: Step) -> None:
    path = folder / step.name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(step.text, "utf-8")


def _output(runner: CliRunner, command: str) -> str:
    """What a command prints; where it waits, only the end: how often it looks is up to chance."""
    words = shlex.split(command.replace("\\\n", " "))
    if words[-2:-1] == [">"]:
        result = runner.invoke(main, words[1:-2])
        Path(words[-1]).write_text(result.stdout, "utf-8")
        return result.stderr.rstrip("\n")
    output = runner.invoke(main, words[1:]).output.rstrip("\n").replace(str(Path.cwd()), HERE)
    return output.rpartition("\n")[2] if "--wait" in words else output


def alike(command: str, shown: str, printed: str) -> bool:
    """Whether they are the same, but for ids, secrets, users, times and the width of columns."""
    if command.startswith(_FIXED):
        return shown == printed
    return _plain(shown) == _plain(printed)


def _plain(text: str) -> str:
    for pattern, by in _VARYING:
        text = pattern.sub(by, text)
    return text.strip()


def refresh(page: Path) -> int:
    """Write into a page what its commands print now, and return how many of them changed."""
    text, changed = page.read_text("utf-8"), 0
    with tempfile.TemporaryDirectory() as folder:
        for command, shown, printed in run_page(page, Path(folder)):
            if not alike(command, shown, printed):
                old = f"$ {command}\n{shown}\n" if shown else f"$ {command}\n"
                new = f"$ {command}\n{printed}\n" if printed else f"$ {command}\n"
                text = text.replace(old, new, 1)
                changed += 1
    if changed:
        page.write_text(text, "utf-8")
    return changed


if __name__ == "__main__":
    chosen = [Path(name).resolve() for name in sys.argv[1:]] or PAGES
    for one in chosen:
        if count := refresh(one):
            sys.stdout.write(f"{one.relative_to(ROOT)}: {count} outputs are written again\n")
