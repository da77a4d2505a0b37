"""Files that declare schedules: reads YAML, TOML and JSON, remembers the lines of schedules, and
writes TOML."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections import Counter
from dataclasses import field
from datetime import date, datetime, time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, json_problem, quoted, shorten
from duebook.flows.parse import Node, parse, plain
from duebook.flows.problems import Refused
from duebook.lazy_dataclasses import dataclass
from duebook.model.forms import CALENDARS, definition_of, is_completed, is_whole
from duebook.model.schedule import InvalidSchedule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["DeclaredFiles", "read_files", "write_toml"]

MOST_BYTES: Final = 16 * 1024 * 1024
MOST_VALUES: Final = 1_000_000
KEYS: Final = ("owner", "calendars", "schedules")
STDIN: Final = "-"
NONE: Final = "give `schedules` an empty list, []"
_PLACE: Final = re.compile(r"(schedules|calendars)\[([0-9]+)\](?:\.(\w+))?")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(slots=True)
class Entry:
    """A schedule or a calendar in a file."""

    form: Any
    file: str
    line: int = 0
    """0: unknown"""
    lines: dict[str, int] = field(default_factory=dict)
    """of its fields"""
    completed: bool = False
    """whether it is a whole schedule, as lists print it, that is completed"""
    owner: str | None = None
    """whose it is, if it is a whole schedule; empty: nobody declared it"""
    calendars: Sequence[Entry] = ()
    """that a whole schedule has with it"""

    @property
    def name(self) -> str:
        name = self.form.get("name") if isinstance(self.form, dict) else None
        return shorten(name) if isinstance(name, str) else ""

    def place(self, key: str | None) -> str:
        line = self.lines.get(key or "", self.line)
        return f"{self.file}:{line}" if line else self.file


@dataclass(frozen=True, slots=True)
class DeclaredFiles:
    """What several files declare together."""

    owner: str | None
    """None: none of them names an owner"""
    entries: Sequence[Entry]
    completed: Sequence[str] = ()
    """schedules that are left out, because they would start again"""
    calendar_entries: Sequence[Entry] = ()
    owners: Sequence[str] = ()
    """of whole schedules, if nothing says to whom they shall belong"""

    @property
    def definitions(self) -> list[Any]:
        return [entry.form for entry in self.entries]

    @property
    def calendars(self) -> list[Any]:
        return [entry.form for entry in self.calendar_entries]

    def placed(self, error: InvalidSchedule) -> InvalidSchedule:
        """The same problems, with their files and lines."""
        return InvalidSchedule(
            {key: self._placed(key, told) for key, told in error.problems.items()}
        )

    def _placed(self, key: str, told: str) -> str:
        found = _PLACE.fullmatch(key)
        if found is None:
            return told
        entries = self.entries if found[1] == "schedules" else self.calendar_entries
        if int(found[2]) >= len(entries):
            return told
        entry, item = entries[int(found[2])], f"{found[1]}[{found[2]}]"
        told = told.removeprefix(f"{item}: ")
        return f"{entry.place(found[3])}: {entry.name or item}: {told}"


def read_files(paths: Sequence[str]) -> DeclaredFiles:
    """Read the calendars and schedules of files, which may name their owner; `-` is stdin. Raises
    Invalid."""
    owners: dict[str, str] = {}
    entries: list[Entry] = []
    calendars: list[Entry] = []
    for path in paths:
        documents = [document for document in _documents(path) if _plain(document) is not None]
        if not documents:
            raise Invalid(f"{_title(path)}: it is empty; to declare no schedules, {NONE}")
        for document in documents:
            owner, more, found = _read(document, _title(path))
            entries += found
            calendars += more
            if owner is not None:
                owners.setdefault(owner, _title(path))
    if len(owners) > 1:
        told = " and ".join(f'"{owner}" in {file}' for owner, file in list(owners.items())[:2])
        raise Invalid(f"the files have different owners: {told}; use --owner, or one at a time")
    kept = [entry for entry in entries if not entry.completed]
    _refuse_twice("schedule", kept)
    calendars = _once([*calendars, *(found for entry in entries for found in entry.calendars)])
    return DeclaredFiles(
        next(iter(owners), None),
        kept,
        [entry.name for entry in entries if entry.completed],
        calendars,
        [] if owners else sorted({entry.owner for entry in kept if entry.owner is not None}),
    )


def _once(calendars: Iterable[Entry]) -> list[Entry]:
    """Several files may have a calendar, if they define it alike."""
    first: dict[str, Entry] = {}
    found = [
        entry
        for entry in calendars
        if (other := first.setdefault(entry.name, entry)) is entry or other.form != entry.form
    ]
    _refuse_twice("calendar", found)
    return found


def _refuse_twice(kind: str, entries: Sequence[Entry]) -> None:
    first: dict[str, Entry] = {}
    for entry in entries:
        other = first.setdefault(entry.name, entry) if entry.name else entry
        if other is not entry:
            raise Invalid(
                f'{entry.place("name")}: {kind} "{entry.name}" is also in {other.place("name")}; '
                "keep one of them"
            )


def _title(path: str) -> str:
    return "stdin" if path == STDIN else path


def _documents(path: str) -> list[Any]:
    """The documents of a file: values, or nodes with line numbers."""
    content = sys.stdin.buffer.read() if path == STDIN else _content(Path(path))
    if len(content) > MOST_BYTES:
        told = f"it has {len(content):,} bytes; at most {MOST_BYTES:,} are allowed"
        raise Invalid(f"{_title(path)}: {told}; split it")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Invalid(f"{_title(path)}: it is not UTF-8 text") from None
    kind = Path(path).suffix.lower()
    if kind == ".toml":
        return [_toml(text, path)]
    if kind == ".json" or (path == STDIN and text.lstrip()[:1] in ("[", "{")):
        return [_json(text, _title(path))]
    try:
        return list(parse(text, _title(path), MOST_BYTES, MOST_VALUES))
    except Refused as error:
        raise Invalid(str(error)) from None


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Invalid(f"{path}: {error.strerror or error}") from None


def _toml(text: str, path: str) -> Any:
    try:
        return _texts(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Invalid(f"{path}: it is not valid TOML: {json_problem(error)}") from None


def _json(text: str, title: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=partial(_object, title))
    except Invalid:
        raise
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{title}: it is not valid JSON: {json_problem(error)}") from None


def _object(title: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raises Invalid for a duplicate key, as the YAML reader does."""
    found = dict(pairs)
    if len(found) < len(pairs):
        numbers = Counter(key for key, _ in pairs)
        twice = next(key for key, number in numbers.items() if number > 1)
        name = found.get("name")
        where = f"{shorten(name)}: " if isinstance(name, str) and twice != "name" else ""
        told = f"key `{shorten(twice)}` appears twice in the same object; keep one of them"
        raise Invalid(f"{title}: {where}{told}")
    return found


def _texts(value: Any) -> Any:
    """Convert TOML's dates and times to text, as definitions have them."""
    match value:
        case dict():
            return {key: _texts(item) for key, item in value.items()}
        case list():
            return [_texts(item) for item in value]
        case datetime() | date():
            return value.isoformat()
        case time():
            return f"{value:%H:%M:%S}" if value.second else f"{value:%H:%M}"
    return value


def _read(document: Any, file: str) -> tuple[str | None, list[Entry], list[Entry]]:
    """The owner, if it is named, the calendars and the schedules."""
    value = document.value if isinstance(document, Node) else document
    if isinstance(value, list):
        schedules = [_entry(item, file) for item in value]
        return _only_owner(schedules), [], schedules
    if not isinstance(value, dict):
        raise Invalid(f"{file}: it is not a list of schedules, or an object with `schedules`")
    if "items" in value:
        value = _page(value, file)
    for key in value:
        if key not in KEYS:
            keys = document.keys if isinstance(document, Node) else {}
            place = f"{file}:{keys[key].line}" if key in keys else file
            raise Invalid(f"{place}: `{shorten(key)}` is unknown here; use {', '.join(KEYS)}")
    owner = _plain(value.get("owner"))
    if owner is not None and not isinstance(owner, str):
        raise Invalid(f"{file}: owner {quoted(owner)} is not a string")
    if _plain(value.get("schedules")) is None and (
        "schedules" in value or "calendars" not in value
    ):
        told = "has no value" if "schedules" in value else "is missing"
        raise Invalid(f"{file}: `schedules` {told}; to declare no schedules, {NONE}")
    calendars, schedules = (
        list(_entries(key, value.get(key), file)) for key in ("calendars", "schedules")
    )
    return _only_owner(schedules) if owner is None else owner, calendars, schedules


def _page(value: dict[str, Any], file: str) -> dict[str, Any]:
    """A page of schedules, as the API returns it, as a file."""
    if _plain(value.get("next_cursor")) is not None:
        raise Invalid(f"{file}: it is one page of several; export all of them: duebook export")
    named = {"schedules" if key == "items" else key: item for key, item in value.items()}
    return {key: item for key, item in named.items() if key != "next_cursor"}


def _only_owner(schedules: Sequence[Entry]) -> str | None:
    """The owner of all these whole schedules; None if they have several, or if programs or flow
    directories declare them."""
    owners = {entry.owner for entry in schedules}
    owner = owners.pop() if len(owners) == 1 else None
    return owner if owner and ":" not in owner else None


def _entries(key: str, found: Any, file: str) -> Iterator[Entry]:
    """Schedules or calendars, given as a list or as an object by name."""
    value = found.value if isinstance(found, Node) else found
    if isinstance(value, dict):
        for name, item in value.items():
            entry = _entry(item, file)
            if isinstance(entry.form, dict):
                entry.form = {"name": name, **entry.form}
            if isinstance(found, Node):
                entry.line = found.keys[name].line
            yield entry
    elif isinstance(value, list):
        yield from (_entry(item, file) for item in value)
    elif value is not None:
        raise Invalid(f"{file}: {key} {shorten(_plain(found))} is not a list")


def _entry(item: Any, file: str) -> Entry:
    form = _plain(item)
    entry = Entry(form, file)
    if isinstance(item, Node):
        entry.line = item.line
        entry.lines = {key: node.line for key, node in item.keys.items()}
    if isinstance(form, dict) and is_whole(form):
        entry.form = definition_of(form)
        entry.completed = is_completed(form)
        entry.owner = str(form.get("owner") or "")
        nodes = item.value if isinstance(item, Node) else item
        entry.calendars = list(_entries(CALENDARS, nodes.get(CALENDARS), file))
    return entry


def _plain(value: Any) -> Any:
    return plain(value) if isinstance(value, Node) else value


def write_toml(
    owner: str | None, forms: Sequence[dict[str, Any]], calendars: Sequence[dict[str, Any]] = ()
) -> str:
    """Write a file for `read_files`; raises Invalid for null, which TOML does not have."""
    parts = [] if owner is None else [f"owner = {_toml_text(owner)}\n"]
    if not forms:
        parts.append("schedules = []\n")
    listed = [("calendars", form) for form in calendars] + [("schedules", form) for form in forms]
    for title, form in listed:
        subject = f'{title.removesuffix("s")} "{form.get("name")}"'
        lines = [f"{_toml_key(key)} = {_toml_value(value, subject)}" for key, value in form.items()]
        parts.append("\n".join([f"[[{title}]]", *lines, ""]))
    return "\n".join(parts)


def _toml_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _toml_text(key)


def _toml_value(value: Any, subject: str) -> str:
    match value:
        case None:
            told = "has null in a value, which TOML cannot express; use --format yaml"
            raise Invalid(f"{subject} {told}")
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return _toml_text(value)
        case dict():
            items = (
                f"{_toml_key(key)} = {_toml_value(item, subject)}" for key, item in value.items()
            )
            return f"{{ {', '.join(items)} }}" if value else "{}"
    return f"[{', '.join(_toml_value(item, subject) for item in value)}]"


def _toml_text(text: str) -> str:
    """JSON escapes the same characters, except one."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
