"""Reads text for a shell, far enough to see which words are programs, and if a value chooses one.

It follows POSIX shells and what bash adds: quotes, substitutions, here-documents, `case`, `[[`.
What it cannot see is what the programs themselves do with their arguments.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from duebook.errors import Invalid, shorten
from duebook.targets.programs import Chosen, Word, assigned, refuse_words, steers
from duebook.targets.shell_numbers import (
    number_operands,
    parentheses_end,
    refuse_number,
    refuse_tests,
    subscripts,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["refuse_shell_text"]

DEEPEST: Final = 40
"""Substitutions within each other."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]|[@*]", re.ASCII)
_BRACED: Final = re.compile(r"[#!]?([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*])", re.ASCII)
_BEFORE_COMMANDS: Final = frozenset(
    {"if", "then", "else", "elif", "do", "while", "until", "!", "{"}
)
_ENDS: Final = frozenset({"fi", "done", "esac", "}"})
_SETTERS: Final = frozenset({"export", "readonly", "local", "declare", "typeset"})
_FILLERS: Final = frozenset({"read", "mapfile", "readarray", "getopts", "unset"})
"""Commands that set the variables they name; some run code that stands in such a name."""
_POSITIONS: Final = frozenset("0123456789@*")
_MENTION: Final = re.compile(r"\w+|[@*]", re.ASCII)
_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
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
    if not has_values and not any(map(is_loose, set(_MENTION.findall(text)))):
        return  # no value is in reach
    if _BROKEN_NAME.search(text):
        raise Chosen("the name of a variable goes on after a line break; write it on one line")
    known = _Known(is_loose, has_positions=_FUNCTION.search(text) is not None)
    for _ in range(MOST_PASSES):  # a loop or function may use what is assigned below it
        size = known.size
        _Reader(text, known, has_values=has_values).read()
        if known.size == size:
            return
    raise Chosen(
        "values pass through too many variables, each assigned below its use; assign them in order"
    )


@dataclass(slots=True)
class _Known:
    """What the readers of one text know of its variables; it only grows."""

    is_loose: Callable[[str], bool]
    has_positions: bool
    """whether $1 and the like may be values: those of functions, and after `set`"""
    tainted: set[str] = field(default_factory=set)
    integers: set[str] = field(default_factory=set)
    """variables whose values bash computes"""
    fed: str | None = None
    """a value in the input of any command"""
    runs_input: bool = False
    """whether a shell or interpreter runs the input of the group or function it stands in"""

    @property
    def size(self) -> int:
        return len(self.tainted) + len(self.integers) + self.has_positions


def _refuse_depth(depth: int) -> None:
    if depth > DEEPEST:
        raise Invalid(f"values and commands stand more than {DEEPEST} deep in each other")


class _Reader:
    """Reads one text; those of substitutions are read by others, which share what is tainted."""

    def __init__(
        self,
        text: str,
        known: _Known,
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
        """whether its words are values, and no commands"""
        self.seen: str | None = None
        """the first value that stands anywhere in it"""
        self._reads_input = False
        """whether a shell or interpreter of this line runs what it gets as its input"""
        self._words: list[Word] = []
        self._is_test = False
        """whether it is within [[ … ]], where signs end no command"""
        self._computed = 0
        """where the last line with $[…] ends"""
        self._has_input = False
        """whether the command has an input of its own"""
        self._piped: str | None = None
        """a value in what the command gets as its input"""
        self._directory: str | None = None
        self._cases: list[bool] = []
        """for each `case` that is open, whether patterns come next"""
        self._heres: list[tuple[str, bool]] = []
        """delimiters of here-documents that begin on this line, and whether they are quoted"""
        self._begin()

    def _begin(self) -> None:
        self._start = self._at
        self._literal = ""
        self._value: str | None = None
        self._leads = self._splits = self._is_word = False

    def read(self, until: str = "") -> int:
        """All commands up to a parenthesis, if that is where the text ends; returns the place."""
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == until == ")" and not self._expects_pattern:
                self._end_command("")
                return self._at + 1
            self._step(character)
        self._end_command("")
        return self._at

    def read_quoted(self) -> None:
        """All of it as if it stood in double quotes."""
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
            self._piped = self._piped or self._value
            self._feed(self._value)
        self._has_input |= sign.startswith("<")
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
        self._heres, self._reads_input = [], False

    def _here_line(self, line: str) -> None:
        inner = self._inner(line, 0)
        inner.read_quoted()
        self._feed(inner.seen)
        if inner.seen is not None and self._reads_input:
            self._refuse_input(inner.seen)

    def _inner(self, text: str, at: int, is_list: bool = False) -> _Reader:
        return _Reader(text, self._known, self._depth + 1, at, is_list, self._has_values)

    def _feed(self, value: str | None) -> None:
        """A value in the input of a command, which may be a group or a function."""
        self._known.fed = self._known.fed or value
        if self._known.fed is not None and self._known.runs_input:
            self._refuse_input(self._known.fed)

    # -- numbers

    def _arithmetic(self, start: int) -> None:
        """((…)), in which bash also runs commands that stand in the values of variables."""
        end = parentheses_end(self._text, start)
        inside = self._text[start:end]
        if not inside.endswith("))"):
            raise Chosen(
                f'"{shorten(inside)}" may be a number or commands; write a space between "(("'
            )
        self._refuse_numbers(inside)
        reader = self._inner(inside, 2)
        reader.read_quoted()
        if reader.seen is not None:
            refuse_number(inside, reader.seen)
        self._at = end

    def _refuse_numbers(self, text: str) -> None:
        for name in _MENTION.findall(text):
            if name not in _POSITIONS and self._loose(name) is not None:
                refuse_number(text, name)

    # -- words

    def _part(self, character: str) -> None:
        """What a word has next."""
        if self._text.startswith("\\\n", self._at):
            self._at += 2  # the line goes on
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
            self._take(self._loose(found[0]), is_quoted)
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
            self._refuse_numbers(self._text[self._at : self._computed])
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
        """Commands whose output stands here, or a list of values, up to a parenthesis."""
        reader = self._inner(self._text, start, is_list)
        self._at = reader.read(")")
        self._take(reader.seen, is_quoted)

    def _braced(self, is_quoted: bool) -> None:
        """${NAME}, and ${NAME:-…} with what stands in it."""
        self._braces += 1
        _refuse_depth(self._depth + self._braces)
        found = _BRACED.match(self._text, self._at + 2)
        if found is None:
            self._at += 2
            self._braces -= 1
            return
        self._at = found.end()
        length = self._text.startswith("#", found.start())
        value = None if length else self._loose(found[1])
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
        """${!NAME}: NAME says which variable it is, and bash runs what stands in its subscript."""
        if self._loose(name) is not None:
            raise Chosen(
                f'"${{!{shorten(name)}}}" lets "{shorten(name)}" choose a variable, and run what '
                f'stands in its name; use "case" to choose'
            )
        return name

    def _refuse_operator(
        self, name: str, operator: str, value: str | None, inner: str | None
    ) -> None:
        """What follows the name in ${NAME…}."""
        plain = operator
        if operator.startswith("["):
            index, _, plain = operator[1:].partition("]")
            self._refuse_computed(index, inner)
        if plain.startswith("@") and value is not None:
            raise Chosen(
                f'"${{{shorten(name + operator)}}}" may run what stands in "{shorten(value)}"; '
                f'write "${name}"'
            )
        if plain.startswith(":") and plain[1:2] not in ("-", "=", "?", "+"):
            self._refuse_computed(plain[1:], inner)
        elif plain.startswith(("=", ":=")) and inner is not None:
            self._assign(name, Word(name, inner))

    def _refuse_computed(self, text: str, inner: str | None) -> None:
        if inner is not None:
            refuse_number(text, inner)
        self._refuse_numbers(text)

    def _loose(self, name: str) -> str | None:
        known = self._known
        if name in _POSITIONS and (self._has_values or known.has_positions):
            return name
        return name if name in known.tainted or known.is_loose(name) else None

    def _take(self, value: str | None, is_quoted: bool) -> None:
        if value is None:
            self._literal += "\0"  # something that the file says
            return
        self.seen = self.seen or value
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

    # -- commands

    def _end_command(self, sign: str) -> None:
        self._end_word()
        words, self._words, self._is_test = self._words, [], False
        value = next((word.value for word in words if word.value is not None), None)
        if self._is_list:
            self._refuse_subscripts(words)
        elif words:
            self._command(words)
        if sign in ("|", "|&"):
            is_group = not words or words[0].text in _ENDS
            is_group |= bool(words) and words[0].text == "printenv"
            self._piped = self._piped or (self.seen if is_group else value)
            self._feed(self._piped)
            self._has_input = True
        elif sign != "(":
            self._piped, self._has_input = None, False

    def _refuse_subscripts(self, words: list[Word]) -> None:
        """a[…]=b, and the words of a list, of which some may be [a]=b."""
        for word in words:
            for index in subscripts(word.text):
                self._refuse_computed(index, word.value if "$" in index else None)

    def _command(self, words: list[Word]) -> None:
        place = 0
        while place < len(words) and (name := assigned(words[place].text)) is not None:
            self._assign(name, words[place])
            place += 1
        while place + 1 < len(words) and words[place].text in ("command", "builtin"):
            if words[place + 1].text.startswith("-"):
                break
            place += 1
        rest = words[place:]
        if not rest or rest[0].text in _ENDS:
            return
        self._refuse_subscripts(rest[:1])
        self._special(rest)

    def _special(self, words: list[Word]) -> None:
        """Commands of the shell itself, and all others."""
        first = words[0].text
        values = [word.value for word in words[1:] if word.value is not None]
        if first in ("for", "select") and len(words) > 1:
            is_given = values or (len(words) == 2 and self._loose("@"))
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
                self._refuse_numbers(text)
        elif first not in ("case", "function"):
            if first == "printenv":
                self._print_variables(words[1:])
            self._run(words)

    def _print_variables(self, words: list[Word]) -> None:
        """What printenv prints is a value, as $X is."""
        value = next((word.text for word in words if self._loose(word.text)), None)
        self.seen = self.seen or (value if words else "printenv")

    def _set(self, words: list[Word]) -> None:
        """declare, export and the like."""
        options = "".join(word.text[1:] for word in words if word.text[:1] in ("-", "+"))
        for word in words:
            name = assigned(word.text)
            if name is None and word.value is not None:
                raise Chosen(
                    f'"{shorten(word.text)}" lets "{shorten(word.value)}" choose which variable is '
                    "set; write its name itself"
                )
            if "i" in options:
                self._known.integers.add(name or word.text)
                self._refuse_numbers(word.text.partition("=")[2])
            if name is not None:
                self._assign(name, word)
                if "n" in options and (word.value or self._loose(word.text.partition("=")[2])):
                    refuse_number(word.text, word.value or name)

    def _fill(self, words: list[Word]) -> None:
        """read, printf -v and the like: what they set may be a value."""
        named = words[1:3] if words[0].text == "printf" else words[1:]
        for word in named:
            if word.value is not None:
                raise Chosen(
                    f'"{shorten(word.text)}" lets "{shorten(word.value)}" choose which variable '
                    f"{words[0].text} sets; write its name itself"
                )
            name = word.text.removeprefix("-v").partition("[")[0]
            self._refuse_subscripts([word])
            if words[0].text != "unset" and _IDENTIFIER.fullmatch(name):
                self._assign(name, Word(name, name))
        self._known.tainted.update({"REPLY", "MAPFILE", "OPTARG"})

    def _run(self, words: list[Word]) -> None:
        if refuse_words(words, self._refuse_text, self._directory, "the input of xargs"):
            return
        self._reads_input = True
        if self._piped is not None:
            self._refuse_input(self._piped)
        if not self._has_input:
            self._known.runs_input = True
            self._feed(None)

    def _refuse_text(self, text: str, has_values: bool) -> None:
        """Text that another shell gets from this one, and whether values are its arguments."""
        _Reader(text, self._known, self._depth + 1, has_values=has_values).read()

    def _refuse_input(self, value: str) -> None:
        raise Chosen(
            f'a shell or interpreter reads what "{shorten(value)}" puts into its input; write the '
            "script itself, and pass the value as an argument or a variable"
        )

    def _assign(self, name: str, word: Word) -> None:
        if word.value is None:
            if name in self._known.integers:
                self._refuse_numbers(word.text.partition("=")[2])
            return
        if name in self._known.integers:
            refuse_number(word.text, word.value)
        if steers(name):
            raise Chosen(
                f'"{shorten(name)}" lets "{shorten(word.value)}" choose what runs; write its value '
                "itself"
            )
        self._known.tainted.add(name)
