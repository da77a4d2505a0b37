"""Parses text for a shell, far enough to see which words are programs, and if a value chooses one;
`shell_commands.py` knows what the words of a command mean.

It follows POSIX shells and what bash adds: quotes, substitutions, here-documents, `case`, `[[`. It
cannot see what the programs themselves do with their arguments.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from duebook.errors import Invalid, shorten
from duebook.targets.programs import Chosen, Word, assigned
from duebook.targets.shell_commands import MENTION, Commands, Known
from duebook.targets.shell_numbers import (
    parentheses_end,
    refuse_number,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["refuse_shell_text"]

DEEPEST: Final = 40
"""Maximum depth of nested substitutions."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]|[@*]", re.ASCII)
_BRACED: Final = re.compile(r"[#!]?([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*])", re.ASCII)
_BEFORE_COMMANDS: Final = frozenset(
    {"if", "then", "else", "elif", "do", "while", "until", "!", "{"}
)
_BROKEN_NAME: Final = re.compile(r"\$\{?[#!]?\w*\\\n\w", re.ASCII)
_ESCAPED_QUOTE: Final = re.compile(r"\$'[^']*\\'")
_FUNCTION: Final = re.compile(r"\(\s*\)|\bfunction\b")
MOST_PASSES: Final = 4
_PLAIN: Final = re.compile(r"""[^\s;&|()<>\\'"$`]+""")
_PLAIN_QUOTED: Final = re.compile(r"""[^\\"$`]+""")
_SPACE: Final = " \t"
_BREAKS: Final = ";&|\n"


def refuse_shell_text(text: str, is_loose: Callable[[str], bool], has_values: bool = False) -> None:
    """Raises Chosen when a variable for which `is_loose` holds would choose what runs.

    `has_values`: its arguments, such as $1, are values that others can change.
    """
    if not has_values and not any(map(is_loose, set(MENTION.findall(text)))):
        return  # no values can occur
    if _BROKEN_NAME.search(text):
        raise Chosen("a variable name continues after a line break; write it on one line")
    known = Known(is_loose, has_positions=_FUNCTION.search(text) is not None)
    for _ in range(MOST_PASSES):  # a loop or function may use what is assigned further down
        size = known.size
        _Reader(text, known, has_values=has_values).read()
        if known.size == size:
            return
    raise Chosen(
        "values pass through too many variables, each assigned below its use; assign them in order"
    )


def _refuse_depth(depth: int) -> None:
    if depth > DEEPEST:
        raise Invalid(f"values and commands are nested more than {DEEPEST} levels deep")


class _Reader:
    """Reads one text; other readers for its substitutions share what is tainted."""

    def __init__(
        self,
        text: str,
        known: Known,
        depth: int = 0,
        at: int = 0,
        is_list: bool = False,
        has_values: bool = False,
    ) -> None:
        _refuse_depth(depth)
        self._braces = 0
        self._text = text
        self._at = at
        self._known = known
        self._has_values = has_values
        self._depth = depth
        self._is_list = is_list
        """whether its words are values rather than commands"""
        self._commands = Commands(known, has_values, self._refuse_text)
        self._words: list[Word] = []
        self._is_test = False
        """whether it is within [[ … ]], where signs end no command"""
        self._computed = 0
        """where the last line with $[…] ends"""
        self._cases: list[bool] = []
        """for each open `case`, whether patterns come next"""
        self._heres: list[tuple[str, bool]] = []
        """delimiters of here-documents that start on this line, and whether they are quoted"""
        self._begin()

    def _begin(self) -> None:
        self._start = self._at
        self._literal = ""
        self._value: str | None = None
        self._leads = self._splits = self._is_word = False

    @property
    def seen(self) -> str | None:
        """The first value anywhere in it."""
        return self._commands.seen

    def read(self, until: str = "") -> int:
        """All commands up to a parenthesis, if that ends the text; returns the place."""
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == until == ")" and not self._expects_pattern:
                self._end_command("")
                return self._at + 1
            self._step(character)
        self._end_command("")
        return self._at

    def read_quoted(self) -> None:
        """The whole text as if it were in double quotes."""
        self._quoted("")

    def _step(self, character: str) -> None:
        text, at = self._text, self._at
        if character in _SPACE:
            self._at += 1
            self._end_word()
        elif character == "#" and not self._is_word:
            end = text.find("\n", at)
            self._at = len(text) if end < 0 else end
        elif character in _BREAKS:
            self._break(character)
        elif character in "()":
            self._parenthesis(character)
        elif character in "<>":
            self._redirect()
        else:
            self._part(character)

    @property
    def _expects_pattern(self) -> bool:
        return bool(self._cases) and self._cases[-1]

    def _break(self, character: str) -> None:
        if character == "&" and self._text[self._at - 1 : self._at] in ("<", ">"):
            self._at += 1  # 2>&1
            return
        run = re.compile(r";;&|;;|;&|&&|\|\||\|&|.", re.DOTALL).match(self._text, self._at)
        found = run[0] if run else character
        self._at += len(found)
        if self._is_test:
            self._end_word()
            return
        if found == "|" and self._expects_pattern:
            self._words = []
            self._begin()
            return
        self._end_command(found)
        if found.startswith(";") and len(found) > 1 and self._cases:
            self._cases[-1] = True
        if character == "\n":
            self._skip_heres()

    def _parenthesis(self, character: str) -> None:
        self._at += 1
        if self._is_test:
            self._end_word()
        elif character == "(" and self._is_word and self._literal.endswith("="):
            self._nested(self._at, is_quoted=True, is_list=True)
        elif character == "(" and self._text.startswith("(", self._at) and not self._is_word:
            self._arithmetic(self._at - 1)
        elif self._expects_pattern:
            self._words, self._cases[-1] = [], character == "("
            self._begin()
        else:
            self._end_command("(")

    def _redirect(self) -> None:
        """What a command reads or writes is not a word of it; but `<(…)` is one."""
        if not self._literal.isdigit():
            self._end_word()
        found = re.compile(r"<<<|<<-?|>>|>\||<>|>&|<&|[<>]").match(self._text, self._at)
        sign = found[0] if found else ">"
        self._at += len(sign)
        if sign in "<>" and self._text.startswith("(", self._at):
            self._is_word = True
            self._nested(self._at + 1)
            return
        self._begin()
        self._skip_space()
        start = self._at
        while self._at < len(self._text) and self._text[self._at] not in " \t\n;&|()<>":
            self._part(self._text[self._at])
        if sign in ("<<", "<<-"):
            raw = self._text[start : self._at]
            self._heres.append((self._literal, raw != self._literal))
        elif sign in ("<", "<<<", "<>"):
            self._commands.pipe(self._value)
            self._commands.feed(self._value)
        self._commands.has_input |= sign.startswith("<")
        self._begin()

    def _skip_space(self) -> None:
        while self._at < len(self._text) and self._text[self._at] in _SPACE:
            self._at += 1

    def _skip_heres(self) -> None:
        for delimiter, is_quoted in self._heres:
            while self._at < len(self._text):
                end = self._text.find("\n", self._at)
                end = len(self._text) if end < 0 else end
                line = self._text[self._at : end]
                self._at = end + 1
                if line.strip("\t") == delimiter:
                    break
                if not is_quoted:
                    self._here_line(line)
        self._heres, self._commands.reads_input = [], False

    def _here_line(self, line: str) -> None:
        inner = self._inner(line, 0)
        inner.read_quoted()
        self._commands.feed(inner.seen)
        if inner.seen is not None and self._commands.reads_input:
            self._commands.refuse_input(inner.seen)

    def _inner(self, text: str, at: int, is_list: bool = False) -> _Reader:
        return _Reader(text, self._known, self._depth + 1, at, is_list, self._has_values)

    # -- numbers

    def _arithmetic(self, start: int) -> None:
        """((…)), in which bash also executes commands inside the values of variables."""
        end = parentheses_end(self._text, start)
        inside = self._text[start:end]
        if not inside.endswith("))"):
            raise Chosen(
                f'"{shorten(inside)}" may be a number or commands; write a space between "(("'
            )
        self._commands.refuse_numbers(inside)
        reader = self._inner(inside, 2)
        reader.read_quoted()
        if reader.seen is not None:
            refuse_number(inside, reader.seen)
        self._at = end

    # -- words

    def _part(self, character: str) -> None:
        """The next part of a word."""
        if self._text.startswith("\\\n", self._at):
            self._at += 2  # the line continues
            return
        self._is_word = True
        if character == "\\":
            self._literal += self._text[self._at + 1 : self._at + 2]
            self._at += 2
        elif character == "'":
            end = self._text.find("'", self._at + 1)
            end = len(self._text) if end < 0 else end
            self._literal += self._text[self._at + 1 : end]
            self._at = end + 1
        elif character == '"':
            self._at += 1
            self._quoted('"')
        elif character in "$`":
            self._expansion(is_quoted=False)
        else:
            self._plain(_PLAIN)

    def _plain(self, characters: re.Pattern[str]) -> None:
        found = characters.match(self._text, self._at)
        end = self._at + 1 if found is None else found.end()
        self._literal += self._text[self._at : end]
        self._at = end

    def _quoted(self, end: str) -> None:
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == end:
                self._at += 1
                return
            if character == "\\":
                self._literal += self._text[self._at + 1 : self._at + 2]
                self._at += 2
            elif character in "$`":
                self._expansion(is_quoted=True)
            else:
                self._plain(_PLAIN_QUOTED)

    def _expansion(self, is_quoted: bool) -> None:
        text, at = self._text, self._at
        if text[at] == "`":
            end = at + 1
            while end < len(text) and text[end] != "`":
                end += 2 if text[end] == "\\" else 1
            inner = re.sub(r"\\([\\`$])", r"\1", text[at + 1 : end])
            reader = self._inner(inner, 0)
            reader.read()
            self._take(reader.seen, is_quoted)
            self._at = end + 1
        elif text.startswith("$((", at):
            self._arithmetic(at + 1)
            self._literal += "\0"
        elif text.startswith("$(", at):
            self._nested(at + 2, is_quoted)
        elif text.startswith("${", at):
            self._braced(is_quoted)
        elif found := _NAME.match(text, at + 1):
            self._at = found.end()
            self._take(self._commands.loose(found[0]), is_quoted)
        elif text.startswith("$[", at):
            self._old_arithmetic()
        else:
            self._refuse_escaped_quote(is_quoted)
            self._literal += "$"
            self._at = at + 1

    def _old_arithmetic(self) -> None:
        """$[…], which is $((…)) in bash."""
        if self._at >= self._computed:
            end = self._text.find("\n", self._at)
            self._computed = len(self._text) if end < 0 else end
            self._commands.refuse_numbers(self._text[self._at : self._computed])
        self._literal += "$"
        self._at += 1

    def _refuse_escaped_quote(self, is_quoted: bool) -> None:
        """In $'…', bash and other shells disagree where the text ends after an escaped quote."""
        found = None if is_quoted else _ESCAPED_QUOTE.match(self._text, self._at)
        if found is not None:
            raise Chosen(
                f'shells read "{shorten(found[0])}" in different ways; write it in double quotes'
            )

    def _nested(self, start: int, is_quoted: bool = False, is_list: bool = False) -> None:
        """Commands whose output is inserted here, or a list of values, up to a parenthesis."""
        reader = self._inner(self._text, start, is_list)
        self._at = reader.read(")")
        self._take(reader.seen, is_quoted)

    def _braced(self, is_quoted: bool) -> None:
        """${NAME}, and ${NAME:-…} with its inner text."""
        self._braces += 1
        _refuse_depth(self._depth + self._braces)
        found = _BRACED.match(self._text, self._at + 2)
        if found is None:
            self._at += 2
            self._braces -= 1
            return
        self._at = found.end()
        length = self._text.startswith("#", found.start())
        value = None if length else self._commands.loose(found[1])
        rest = self._text[self._at : self._at + 3]
        if self._text.startswith("!", found.start()) and rest not in ("[@]", "[*]"):
            value = self._indirect(found[1])
        before, is_word = self._literal, self._value
        self._value = None
        start = self._at
        while self._at < len(self._text) and self._text[self._at] != "}":
            character = self._text[self._at]
            if character in "$`":
                self._expansion(is_quoted)
            elif character in "'\"\\":
                self._part(character)
            else:
                self._at += 1
        inner, self._value, self._literal = self._value, is_word, before
        self._refuse_operator(found[1], self._text[start : self._at], value, inner)
        self._at += 1
        self._braces -= 1
        self._take(value or (None if length else inner), is_quoted)

    def _indirect(self, name: str) -> str:
        """${!NAME}: NAME selects the variable, and bash executes code in its subscript."""
        if self._commands.loose(name) is not None:
            raise Chosen(
                f'"${{!{shorten(name)}}}" lets "{shorten(name)}" choose a variable, and run '
                f'commands in its name; use "case" to choose'
            )
        return name

    def _refuse_operator(
        self, name: str, operator: str, value: str | None, inner: str | None
    ) -> None:
        """The operator after the name in ${NAME…}."""
        plain = operator
        if operator.startswith("["):
            index, _, plain = operator[1:].partition("]")
            self._commands.refuse_computed(index, inner)
        if plain.startswith("@") and value is not None:
            raise Chosen(
                f'"${{{shorten(name + operator)}}}" may run commands in "{shorten(value)}"; '
                f'write "${name}"'
            )
        if plain.startswith(":") and plain[1:2] not in ("-", "=", "?", "+"):
            self._commands.refuse_computed(plain[1:], inner)
        elif plain.startswith(("=", ":=")) and inner is not None:
            self._commands.assign(name, Word(name, inner))

    def _take(self, value: str | None, is_quoted: bool) -> None:
        if value is None:
            self._literal += "\0"  # a text from the file itself
            return
        self._commands.see(value)
        self._leads |= not self._literal and self._value is None
        self._splits |= not is_quoted
        self._value = self._value or value

    def _end_word(self) -> None:
        if self._is_word:
            shown = self._text[self._start : self._at].strip()
            text = self._literal if self._value is None or assigned(self._literal) else shown
            self._words.append(Word(text, self._value, self._leads, self._splits))
            if self._literal == "[[" and len(self._words) == 2 and self._words[0].text == "time":
                self._words = self._words[1:]
            self._is_test = (
                self._words[0].text == "[["
                and self._literal != "]]"
                and (self._is_test or len(self._words) == 1)
            )
            if len(self._words) > 1 and self._literal == "in" and self._words[0].text == "case":
                self._words = []
                self._cases.append(True)
            elif self._literal == "esac" and len(self._words) == 1 and self._cases:
                self._cases.pop()
                self._words = []
            elif (len(self._words) == 1 and self._literal in _BEFORE_COMMANDS) or (
                len(self._words) == 2 and self._words[0].text == "function"
            ):
                self._words = []
        self._begin()

    def _end_command(self, sign: str) -> None:
        self._end_word()
        words, self._words, self._is_test = self._words, [], False
        if self._is_list:
            self._commands.refuse_subscripts(words)
        elif words:
            self._commands.read(words)
        self._commands.end(words, sign)

    def _refuse_text(self, text: str, has_values: bool) -> None:
        """Text that this shell passes to another one, and whether its arguments are values."""
        _Reader(text, self._known, self._depth + 1, has_values=has_values).read()
