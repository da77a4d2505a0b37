"""The meaning of the words of a shell's command: which variables it sets, what it runs, and whether
a value chooses either."""

from __future__ import annotations

import re
from dataclasses import field
from typing import TYPE_CHECKING, Final

from duebook.errors import shorten
from duebook.lazy_dataclasses import dataclass
from duebook.targets.programs import Chosen, Word, assigned, refuse_words, steers
from duebook.targets.shell_numbers import number_operands, refuse_number, refuse_tests, subscripts

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MENTION", "Commands", "Known"]

MENTION: Final = re.compile(r"\w+|[@*]", re.ASCII)
"""What may be the name of a variable."""
_ENDS: Final = frozenset({"fi", "done", "esac", "}"})
_SETTERS: Final = frozenset({"export", "readonly", "local", "declare", "typeset"})
_FILLERS: Final = frozenset({"read", "mapfile", "readarray", "getopts", "unset"})
"""Commands that set the variables they name; some execute code in such a name."""
_POSITIONS: Final = frozenset("0123456789@*")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(slots=True)
class Known:
    """What the readers of one text know about its variables; it only grows."""

    is_loose: Callable[[str], bool]
    has_positions: bool
    """whether $1 and the like may be values: those of functions, and after `set`"""
    tainted: set[str] = field(default_factory=set)
    integers: set[str] = field(default_factory=set)
    """variables whose values bash evaluates as arithmetic"""
    fed: str | None = None
    """a value in the input of any command"""
    runs_input: bool = False
    """whether a shell or interpreter runs the input of the group or function that it is in"""

    @property
    def size(self) -> int:
        return len(self.tainted) + len(self.integers) + self.has_positions


class Commands:
    """The commands of one text, in order."""

    def __init__(
        self, known: Known, has_values: bool, refuse_text: Callable[[str, bool], None]
    ) -> None:
        """`refuse_text` checks the text that this shell passes to another one; its second argument
        is whether that has values."""
        self._known = known
        self._has_values = has_values
        self._refuse_text = refuse_text
        self.seen: str | None = None
        """the first value anywhere in the text"""
        self.reads_input = False
        """whether a shell or interpreter of this line runs its input"""
        self.has_input = False
        """whether the command has its own input"""
        self._piped: str | None = None
        """a value in the input of the command"""
        self._directory: str | None = None

    def see(self, value: str | None) -> None:
        self.seen = self.seen or value

    def pipe(self, value: str | None) -> None:
        """A value in the input of the command."""
        self._piped = self._piped or value

    def end(self, words: list[Word], sign: str) -> None:
        """A command ends with a sign; its output may be the input of the next one."""
        if sign in ("|", "|&"):
            value = next((word.value for word in words if word.value is not None), None)
            is_group = not words or words[0].text in _ENDS
            is_group |= bool(words) and words[0].text == "printenv"
            self.pipe(self.seen if is_group else value)
            self.feed(self._piped)
            self.has_input = True
        elif sign != "(":
            self._piped, self.has_input = None, False

    def refuse_subscripts(self, words: list[Word]) -> None:
        """a[…]=b, and the words of a list, some of which may be [a]=b."""
        for word in words:
            for index in subscripts(word.text):
                self.refuse_computed(index, word.value if "$" in index else None)

    def read(self, words: list[Word]) -> None:
        place = 0
        while place < len(words) and (name := assigned(words[place].text)) is not None:
            self.assign(name, words[place])
            place += 1
        while place + 1 < len(words) and words[place].text in ("command", "builtin"):
            if words[place + 1].text.startswith("-"):
                break
            place += 1
        rest = words[place:]
        if not rest or rest[0].text in _ENDS:
            return
        self.refuse_subscripts(rest[:1])
        self._special(rest)

    def _special(self, words: list[Word]) -> None:
        """Commands of the shell itself, and all others."""
        first = words[0].text
        values = [word.value for word in words[1:] if word.value is not None]
        if first in ("for", "select") and len(words) > 1:
            is_given = values or (len(words) == 2 and self.loose("@"))
            self._known.tainted.update([words[1].text] if is_given else [])
        elif first in _SETTERS:
            self._set(words[1:])
        elif first in _FILLERS or (first == "printf" and words[1:2] and words[1].text[:2] == "-v"):
            self._fill(words)
        elif first == "set" and values:
            self._known.has_positions = True
        elif first in ("cd", "pushd"):
            self._directory = self._directory or (values[0] if values else None)
        elif first in ("[[", "[", "test", "let"):
            refuse_tests(words)
            for text in number_operands(words):
                self.refuse_numbers(text)
        elif first not in ("case", "function"):
            if first == "printenv":
                self._print_variables(words[1:])
            self._run(words)

    def _print_variables(self, words: list[Word]) -> None:
        """What printenv prints is a value, like $X."""
        value = next((word.text for word in words if self.loose(word.text)), None)
        self.seen = self.seen or (value if words else "printenv")

    def _set(self, words: list[Word]) -> None:
        """declare, export and the like."""
        options = "".join(word.text[1:] for word in words if word.text[:1] in ("-", "+"))
        for word in words:
            name = assigned(word.text)
            if name is None and word.value is not None:
                raise Chosen(
                    f'"{shorten(word.text)}" lets "{shorten(word.value)}" choose which variable is '
                    "set; write the variable name literally"
                )
            if "i" in options:
                self._known.integers.add(name or word.text)
                self.refuse_numbers(word.text.partition("=")[2])
            if name is not None:
                self.assign(name, word)
                if "n" in options and (word.value or self.loose(word.text.partition("=")[2])):
                    refuse_number(word.text, word.value or name)

    def _fill(self, words: list[Word]) -> None:
        """read, printf -v and the like: what they set may be a value."""
        named = words[1:3] if words[0].text == "printf" else words[1:]
        for word in named:
            if word.value is not None:
                raise Chosen(
                    f'"{shorten(word.text)}" lets "{shorten(word.value)}" choose which variable '
                    f"{words[0].text} sets; write the variable name literally"
                )
            name = word.text.removeprefix("-v").partition("[")[0]
            self.refuse_subscripts([word])
            if words[0].text != "unset" and _IDENTIFIER.fullmatch(name):
                self.assign(name, Word(name, name))
        self._known.tainted.update({"REPLY", "MAPFILE", "OPTARG"})

    def _run(self, words: list[Word]) -> None:
        if refuse_words(words, self._refuse_text, self._directory, "the input of xargs"):
            return
        self.reads_input = True
        if self._piped is not None:
            self.refuse_input(self._piped)
        if not self.has_input:
            self._known.runs_input = True
            self.feed(None)

    def refuse_input(self, value: str) -> None:
        raise Chosen(
            f'a shell or interpreter would execute its input, which contains "{shorten(value)}"; '
            "write the script literally, and pass the value as an argument or a variable"
        )

    def assign(self, name: str, word: Word) -> None:
        if word.value is None:
            if name in self._known.integers:
                self.refuse_numbers(word.text.partition("=")[2])
            return
        if name in self._known.integers:
            refuse_number(word.text, word.value)
        if steers(name):
            raise Chosen(
                f'"{shorten(name)}" lets "{shorten(word.value)}" choose what runs; write its value '
                "itself"
            )
        self._known.tainted.add(name)

    def feed(self, value: str | None) -> None:
        """A value in the input of a command, which may be a group or a function."""
        self._known.fed = self._known.fed or value
        if self._known.fed is not None and self._known.runs_input:
            self.refuse_input(self._known.fed)

    def refuse_numbers(self, text: str) -> None:
        for name in MENTION.findall(text):
            if name not in _POSITIONS and self.loose(name) is not None:
                refuse_number(text, name)

    def refuse_computed(self, text: str, inner: str | None) -> None:
        if inner is not None:
            refuse_number(text, inner)
        self.refuse_numbers(text)

    def loose(self, name: str) -> str | None:
        known = self._known
        if name in _POSITIONS and (self._has_values or known.has_positions):
            return name
        return name if name in known.tainted or known.is_loose(name) else None
