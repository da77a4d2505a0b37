"""Every visible sentence is plain English: phrases that were replaced do not return."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
import pytest

from duebook.api.openapi import document
from duebook.api.routes import OPERATIONS
from duebook.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src" / "duebook"

PHRASES: Final = {
    r"(?<!there )\b(?:is|was|are|were) no (?!longer\b|more\b|limit\b)[a-z]+": "is not a",
    r"\b(?:are|is) (?-i:none)\b": "say what is missing",
    r"\bwhoever\b": "anyone who",
    r"\bsomebody\b|\bnobody\b": '"a user", "no worker", or the passive',
    r"\b(?:take|taken|takes|took|taking) (?:it |that |them )?back\b": "undo, restore",
    r"\bis (?:paused|running|overdue|locked|held) since\b": '"has been … since"',
    r"\bruns flow \S+ since\b": '"has been running … since"',
    r"\b(?:the|their|its|your|other|old|empty) books\b": "the database, or the ledger",
    r"\bbooks (?:in|on|are|were|of|made|that)\b|\bbooks' clock\b": "the database",
    r"\bsigns? of life\b": "heartbeat",
    r"\bunder way\b": "running, in progress",
    r"\bin force\b": "in use, active",
    r"\banew\b|\bonce more\b": "again",
    r"\bby hand\b": "manually",
    r"\b(?:begun|began)\b": "started",
    r"\b(?:it|run|runs|flow|backlog|loop|step) (?:goes|go|went) on\b": "continues",
    r"\b(?:is|are|be|was) left out (?:by|and)\b": "skipped, excluded",
    r"\bstands? (?:there|beside|behind|twice|in its|inside|in \")": "is, appears",
    r"\bas whom\b|\bof whom\b|\bof which nobody\b": "split the sentence",
    r"\bfor people\b": "for readers; or say what it is for",
    r"\bknown are\b": "use one of",
    r"\bwrite it like\b": "use a form such as",
    r"\bis not a text\b|\ba text of\b|\bof texts\b": "string",
    r"\bhas to be given\b": "is required",
    r"\b(?:exists|revoked|decided|dead|ended) already\b": "already exists",
    r"\basked to end\b": "asked to stop",
    r"\bbroke off\b": "disconnected, was interrupted",
    r"\bburying\b|\bgood-bye\b|\bknows nothing\b": "say what happens",
    r"\bwhat became of\b": "what happened to",
    r"\bhave a look\b|\bit is made\b|\bit goes on\b|\ball is well\b": "a label of few words",
    r"\bnot taken\b|\bgiven? up\b|\bgives? (?:it|them|that) up\b": "dead letter, discard",
    r"\bmakes? (?:one|a token|a schedule|it again)\b": "create",
    r"\bof Duebook's own\b|\bare Duebook's own\b": "belongs to Duebook",
    r"\b(?:which|that|it) tells? (?:that|when|how|which|who)\b": "says, shows",
    r"\bis told\b|\bare told\b|\bis said\b|\bwas said\b|\bsaid about\b": "is reported, is shown",
    r"\bnothing is done\b|\bnothing is wrong with\b": "say what is the case",
    r"\b95 of 100\b": "p95",
    r"\bat most are kept\b|\bno database keeps\b": "allowed; cannot be stored",
}
"""Phrases to avoid, each with what to write instead."""

ANY: Final = re.compile("|".join(PHRASES), re.IGNORECASE)

ALLOWED: Final = ("or the books say why not", "the books balance", "the books do not balance")
"""Sentences that may contain one of the phrases nevertheless."""

PUBLIC: Final = {
    "app.py": ("Duebook",),
    "book/__init__.py": ("Book",),
    "book/consuming.py": ("Received",),
    "book/event_log.py": ("EventLog",),
    "book/event_reader.py": ("EventReader",),
    "book/events.py": ("Events",),
    "book/flows.py": ("Flows",),
    "book/listeners.py": ("Listeners",),
    "book/namespaces.py": ("Namespaces",),
    "book/queues.py": ("Queues",),
    "book/runs.py": ("Runs",),
    "book/schedule_reader.py": ("ScheduleReader",),
    "book/schedules.py": ("Schedules",),
    "book/templates.py": ("Templates",),
    "book/tokens.py": ("Tokens",),
    "errors.py": ("DuebookError", "Invalid", "InvalidTime", "InvalidTrigger", "NotFound"),
    "model/retry.py": ("Retry",),
    "targets/context.py": ("Context",),
    "targets/outcomes.py": ("Output", "Cancelled"),
    "testing/simulation.py": ("Simulation",),
    "triggers/at.py": ("at",),
    "triggers/cron.py": ("cron",),
    "triggers/daily.py": ("daily",),
    "triggers/every.py": ("every",),
    "triggers/rrule.py": ("rrule",),
    "triggers/weekly.py": ("weekly",),
}
"""Classes and functions whose docstrings are documentation, by their files."""

SQL: Final = re.compile(
    r"^\s*(?:--|SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|ALTER|DROP|BEGIN|COMMIT|ROLLBACK|PRAGMA|SET|COPY)\b"
)
QUOTED: Final = re.compile(r'"([^"\n]* [^"\n]*)"')
EXPRESSION: Final = re.compile(r"\{[{%].*?[%}]\}")
TAG: Final = re.compile(r"<[^>]*>")


class Sentence(NamedTuple):
    """Visible text with its place: a file, or a generated document."""

    place: str
    line: int
    text: str


def is_documented(node: ast.AST, names: tuple[str, ...]) -> Iterator[ast.AST]:
    """The public classes and functions of a module, with the public methods of the classes."""
    for child in getattr(node, "body", []):
        if getattr(child, "name", None) in names:
            yield child
            yield from (
                method
                for method in getattr(child, "body", [])
                if isinstance(method, ast.FunctionDef) and not method.name.startswith("_")
            )


def literals(path: Path) -> Iterator[Sentence]:
    """The strings of a module that users can see: not SQL, identifiers or docstrings."""
    place = str(path.relative_to(ROOT))
    left: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    while left:
        node: Any = left.pop()
        match node:
            case ast.Expr(value=ast.Constant()):
                continue
            case ast.JoinedStr(values=parts):
                words = [
                    str(getattr(part, "value", "")) if _is_text(part) else "…" for part in parts
                ]
                yield Sentence(place, node.lineno, "".join(words))
                left += [part for part in parts if not _is_text(part)]
                continue
            case ast.Constant(value=str(text)) if " " in text and not SQL.match(text):
                yield Sentence(place, node.lineno, text)
        left += ast.iter_child_nodes(node)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant)


def docstrings(path: Path, names: tuple[str, ...]) -> Iterator[Sentence]:
    place = str(path.relative_to(ROOT))
    for node in is_documented(ast.parse(path.read_text("utf-8")), names):
        text = ast.get_docstring(node, clean=False)  # type: ignore[arg-type]
        for number, line in enumerate((text or "").splitlines()):
            yield Sentence(place, node.body[0].lineno + number, line)  # type: ignore[attr-defined]


def lines(path: Path) -> Iterator[Sentence]:
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        yield Sentence(str(path.relative_to(ROOT)), number, line)


def template(path: Path) -> Iterator[Sentence]:
    """The lines of a page without tags; only the strings of expressions."""
    for sentence in lines(path):
        shown = EXPRESSION.sub(lambda found: " ".join(QUOTED.findall(found[0])), sentence.text)
        yield sentence._replace(text=TAG.sub(" ", shown))


def script(path: Path) -> Iterator[Sentence]:
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        for text in QUOTED.findall(line):
            yield Sentence(str(path.relative_to(ROOT)), number, text)


def descriptions(node: Any, where: str) -> Iterator[Sentence]:
    """Every summary and description of the OpenAPI document."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("summary", "description") and isinstance(value, str):
                yield Sentence(f"OpenAPI {where}", 0, value)
            else:
                yield from descriptions(value, f"{where}/{key}")
    elif isinstance(node, list):
        for value in node:
            yield from descriptions(value, where)


def helps(command: click.Command, name: str) -> Iterator[Sentence]:
    """What `--help` prints for a command and its subcommands."""
    place = f"command line: {name}"
    yield Sentence(place, 0, " ".join(filter(None, (command.help, command.epilog))))
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield Sentence(place, 0, parameter.help or "")
    if isinstance(command, click.Group):
        for child in command.commands.values():
            yield from helps(child, f"{name} {child.name}")


def everything() -> Iterator[Sentence]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield from literals(path)
    for name, names in PUBLIC.items():
        yield from docstrings(SOURCE / name, names)
    for path in sorted(SOURCE.rglob("*.html")):
        yield from template(path)
    for path in sorted(SOURCE.rglob("*.js")):
        yield from script(path)
    yield from descriptions(document([each for each in OPERATIONS if each.documented]), "")
    yield from helps(main, "duebook")
    pages = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
    for path in pages:
        yield from lines(path)


def judged(sentence: Sentence) -> Iterator[str]:
    """The phrases in a text that it must not contain, each with its place and a better word."""
    text = sentence.text
    for allowed in ALLOWED:
        text = text.replace(allowed, "")
    if not ANY.search(text):
        return
    for phrase, better in PHRASES.items():
        if found := re.search(phrase, text, re.IGNORECASE):
            place = f"{sentence.place}:{sentence.line}" if sentence.line else sentence.place
            yield f'{place}: "{found[0]}"; write: {better}'


def test_no_sentence_that_people_see_has_a_phrase_that_was_replaced() -> None:
    found = [told for sentence in everything() for told in judged(sentence)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        '"x" is no whole number',
        "the schedule is paused since 12:00",
        "Whoever uses the books from outside proves with a token who he is",
        "the books of a.db were moved",
        "Have a look.",
        "known are a, b and c",
        "nobody has begun it yet",
    ],
)
def test_sentences_that_were_stumbled_over_are_found(text: str) -> None:
    assert list(judged(Sentence("a page", 1, text)))


@pytest.mark.parametrize(
    "text",
    [
        '"x" is not a whole number',
        "it is no longer declared in code",
        "there is no such schedule",
        "the schedule has been paused since 12:00",
        "Remote clients authenticate with a token",
    ],
)
def test_plain_sentences_pass(text: str) -> None:
    assert list(judged(Sentence("a page", 1, text))) == []
