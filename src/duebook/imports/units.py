"""Reads systemd unit files: sections, repeated keys, drop-ins, durations; pure."""

from __future__ import annotations

import re
from dataclasses import field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duebook.errors import shorten
from duebook.imports.found import NotCarried
from duebook.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Setting", "Unit", "is_true", "read_span", "read_unit"]

_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zMµμ]*)")
_SECONDS: Final = {
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("us", "usec", "µs", "μs"), 1e-6),
    **dict.fromkeys(("ms", "msec"), 1e-3),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3_600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
    **dict.fromkeys(("w", "week", "weeks"), 604_800.0),
    **dict.fromkeys(("M", "month", "months"), 2_629_800.0),
    **dict.fromkeys(("y", "year", "years"), 31_557_600.0),
}
_SPECIFIER: Final = re.compile(r"%(.)")
_ESCAPED: Final = re.compile(r"(?:\\x[0-9a-fA-F]{2})+")


@dataclass(frozen=True, slots=True)
class Setting:
    """A line of a unit file."""

    key: str
    value: str
    place: str


@dataclass(slots=True)
class Unit:
    """A unit and its drop-ins; settings by section, in their order."""

    name: str
    sections: dict[str, list[Setting]] = field(default_factory=dict)
    is_masked: bool = False
    """whether its file is empty or a link to /dev/null, so that it must not start"""

    def all(self, section: str, key: str) -> list[Setting]:
        """The values of a key that may repeat; an empty one discards those before it."""
        found: list[Setting] = []
        for one in self.sections.get(section, ()):
            if one.key == key and one.value:
                found.append(one)
            elif one.key == key:
                found.clear()
        return found

    def last(self, section: str, key: str) -> Setting | None:
        found = self.all(section, key)
        return found[-1] if found else None

    def keys(self, section: str) -> Iterable[Setting]:
        return self.sections.get(section, ())

    def expanded(self, text: str) -> str:
        """The text with its specifiers replaced; raises NotCarried for those that only the machine
        knows."""
        return _SPECIFIER.sub(self._specifier, text)

    def _specifier(self, match: re.Match[str]) -> str:
        stem = self.name.rpartition(".")[0]
        prefix, at, instance = stem.partition("@")
        known = {"%": "%", "n": self.name, "N": stem, "p": prefix}
        known |= {"i": instance, "I": _unescaped(instance)} if at else {}
        if match[1] not in known:
            raise NotCarried(f"the specifier {match[0]} depends on the machine; write it out")
        return known[match[1]]


def _unescaped(instance: str) -> str:
    """The name as `systemd-escape --unescape` decodes it."""
    plain = instance.replace("-", "/")
    return _ESCAPED.sub(
        lambda match: bytes.fromhex(match[0].replace("\\x", "")).decode(errors="replace"), plain
    )


def read_unit(name: str, files: Iterable[tuple[str, str]]) -> Unit:
    """A unit from the titles and texts of its file and drop-ins."""
    unit = Unit(name)
    for title, text in files:
        section = ""
        for number, line in _lines(text):
            if line.startswith("[") and line.endswith("]"):
                section = line[1:-1]
            elif "=" in line:
                key, _, value = line.partition("=")
                setting = Setting(key.strip(), value.strip(), f"{title}:{number}")
                unit.sections.setdefault(section, []).append(setting)
    return unit


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; a backslash at the end continues one."""
    first, kept = 0, ""
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if line.startswith(("#", ";")) or (not line and not kept):
            continue
        first = first or number
        if line.endswith("\\"):
            kept += line[:-1].rstrip() + " "
            continue
        yield first, (kept + line).strip()
        first, kept = 0, ""
    if kept.strip():
        yield first, kept.strip()


def is_true(setting: Setting | None) -> bool:
    return setting is not None and setting.value.lower() in ("1", "yes", "y", "true", "t", "on")


def read_span(setting: Setting) -> timedelta:
    """A duration such as `1h 30min`, or a number of seconds; raises NotCarried."""
    text, total, place = setting.value, 0.0, 0
    for match in _SPAN.finditer(text):
        if text[place : match.start()].strip() or match[2] not in _SECONDS:
            break
        total, place = total + float(match[1]) * _SECONDS[match[2]], match.end()
    if text[place:].strip() or not text or total > 3e9:
        raise NotCarried(f"{setting.key}={shorten(text)} is not a length of time")
    return timedelta(seconds=total)
