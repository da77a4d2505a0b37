"""Finds where a value would choose the program that a command line starts; pure.

A command line starts with the program; the rest are arguments, which are data. Programs such as
`env`, `sudo` and `timeout` start another one, and shells and interpreters run a text or a script:
after these, more words determine what runs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from duebook.errors import Invalid, shorten
from duebook.targets.launchers import Launcher, launcher_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Chosen", "Word", "assigned", "refuse_words", "steers"]

_STEERING: Final = re.compile(
    r"PATH|HOME|SHELL|IFS|CDPATH|FPATH|ZDOTDIR|BASH_.*|SHELLOPTS|BASHOPTS|PS[0-4]|INPUTRC"
    r"|PROMPT_COMMAND|LD_.*|DYLD_.*|GCONV_PATH|LOCPATH|NLSPATH|GLIBC_TUNABLES"
    r"|OPENSSL_(CONF|MODULES|ENGINES)|PYTHON.*|PERL.*|RUBY.*|GEM_(HOME|PATH)|BUNDLE_.*|NODE_.*"
    r"|NPM_CONFIG_.*|PHPRC|PHP_INI_SCAN_DIR|LUA_.*|R_(PROFILE|ENVIRON|LIBS).*|TCLLIBPATH|GUILE_.*"
    r"|ERL_.*|ELIXIR_.*|JULIA_.*|DOTNET_.*|CORECLR_.*|COR_.*|CLASSPATH|JAVA_.*|_JAVA_OPTIONS"
    r"|JDK_JAVA_OPTIONS|GO(PATH|ROOT|FLAGS)|CARGO_.*|RUSTC.*|CC|CXX|LD|MAKEFLAGS|MAKEFILES|GIT_.*"
    r"|SSH_ASKPASS|SUDO_.*|EDITOR|VISUAL|BROWSER|.*PAGER|LESS(OPEN|CLOSE)|EXINIT|VIMINIT|PIP_.*"
    r"|UV_.*|VIRTUAL_ENV|CONDA_.*|ANSIBLE_.*|TF_CLI_.*|XDG_(CONFIG|DATA)_(HOME|DIRS)|CURL_HOME"
    r"|WGETRC|PSQLRC|PGSERVICEFILE|PGSYSCONFDIR|MYSQL_HOME|DOCKER_CONFIG|KUBECONFIG"
    r"|AWS_(CONFIG|SHARED_CREDENTIALS)_FILE|CLOUDSDK_.*|GNUPGHOME|KRB5_CONFIG|DUEBOOK_.*|DAG_.*"
)
"""Variables with which programs find other programs, libraries, or files that name some; ENV is
read only by interactive shells."""
_DATA: Final = frozenset(
    {"GIT_BRANCH", "GIT_COMMIT", "GIT_HASH", "GIT_REF", "GIT_REPO", "GIT_REPOSITORY", "GIT_SHA"}
    | {"GIT_TAG", "GIT_URL", "NODE_ENV", "NODE_VERSION", "JAVA_VERSION", "PERL_VERSION"}
    | {"PYTHON_VERSION", "RUBY_VERSION"}
)
"""Similar names that people choose for data, and that no program reads in this way."""
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)\+?=", re.ASCII)


DEEPEST: Final = 20
"""Maximum depth of programs that start each other by their arguments."""
MOST_MARKS: Final = 8
_FIND_STARTS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


class Chosen(Invalid):
    """A value would choose what runs."""


class Word(NamedTuple):
    """One word of a command line."""

    text: str
    value: str | None = None
    """the name of a value in it that others can change"""
    leads: bool = False
    """whether it starts with that value, which may then be an option"""
    splits: bool = False
    """whether a shell splits the value into several words"""


def steers(name: str) -> bool:
    """Whether a variable of that name changes which programs, or whose code, others run.

    >>> steers("PATH"), steers("LD_PRELOAD"), steers("DAY")
    (True, True, False)
    """
    return _STEERING.fullmatch(name) is not None and name not in _DATA


def assigned(word: str) -> str | None:
    """The variable that a word such as NAME=value sets."""
    found = _ASSIGNMENT.match(word)
    return None if found is None else found[1]


def refuse_words(
    words: Sequence[Word],
    refuse_text: Callable[[str, bool], None] = lambda *_: None,
    directory: str | None = None,
    piped: str | None = None,
) -> bool:
    """Raises Chosen if a value is at a place of a command line that determines what runs.

    `refuse_text` checks a text for a shell; its second argument is whether the text's arguments
    have values. `directory` names a value that has chosen the working directory, `piped` one that
    xargs adds to the line. Returns whether the line determines what runs: an interpreter may read
    that from its input.
    """
    return _Line(words, refuse_text, directory, piped).refuse()


class _Line:
    def __init__(
        self,
        words: Sequence[Word],
        refuse_text: Callable[[str, bool], None],
        directory: str | None,
        piped: str | None,
        depth: int = 0,
    ) -> None:
        if depth > DEEPEST:
            raise Invalid(f"programs start each other more than {DEEPEST} levels deep")
        self._words = words
        self._refuse_text = refuse_text
        self._directory = directory
        self._piped = piped
        self._depth = depth
        self._is_behind = False
        """whether the words after an unknown option are known to have no values"""
        self._at = 0

    def refuse(self) -> bool:
        while (word := self._next()) is not None:
            self._decides(word)
            self._is_found(word.text)
            name = word.text.rpartition("/")[2]
            launcher = launcher_of(name)
            if launcher is None:
                self._others(name)
                return True
            if (name == "command" and self._asks()) or self._begins(name, launcher):
                return True
            if self._options(launcher):
                return True
            self._places(launcher)
            if launcher.places and self._options(launcher):  # flock FILE -c TEXT
                return True
            if launcher.joins:
                self._refuse_joined(name)
            if launcher.runs_scripts:
                return self._script(launcher)
        return True

    def _refuse_joined(self, name: str) -> None:
        for word in self._words[self._at :]:
            if word.value is not None:
                raise Chosen(
                    f'{name} joins "{shorten(word.text)}" and the words around it into one shell '
                    f'command, so "{shorten(word.value)}" could choose what runs; pass the value '
                    "through its input"
                )

    def _begins(self, name: str, launcher: Launcher) -> bool:
        """What some programs have before their options; returns whether all words determine what
        runs."""
        if name in ("xargs", "parallel"):
            self._add_input()
        if launcher.all_decide or (name == "runuser" and not self._has("-u", "--user")):
            self._all_decide()
            return True
        word = self._peek()
        if word is not None and word.text in launcher.subcommands:
            self._at += 1
        return False

    def _has(self, *options: str) -> bool:
        return any(word.text in options for word in self._words[self._at : self._at + 12])

    def _others(self, name: str) -> None:
        """An unknown program may start what follows: find -exec, docker run."""
        end = self._at
        for place in range(self._at, len(self._words)):
            word = self._words[place]
            if name == "find" and word.splits:
                self._decides(word, only_if_split=True)
            if name == "find" and word.text in _FIND_STARTS and place >= end:
                end = self._found(place + 1)
            elif name == "kubectl" and word.text == "--" and place >= end:
                end = len(self._words)
                self._inner(self._words[place + 1 :])
            elif (launcher := launcher_of(word.text.rpartition("/")[2])) is not None:
                self._text_behind(launcher, place + 1)

    def _found(self, start: int) -> int:
        """find -exec: check the command line up to ; or +, and return where it ends."""
        end = start
        while end < len(self._words) and self._words[end].text not in (";", "+"):
            end += 1
        line = self._words[start:end]
        self._inner(_replaced(line, {"{}"}, self._piped and "a file that find finds"))
        return end

    def _inner(self, words: Sequence[Word]) -> None:
        _Line(words, self._refuse_text, self._directory, self._piped, self._depth + 1).refuse()

    def _text_behind(self, launcher: Launcher, at: int) -> None:
        """sh -c TEXT somewhere among the arguments of another program."""
        for place in range(at, len(self._words) - 1):
            option = self._words[place].text
            if not option.startswith("-"):
                return
            if launcher.means(option) == "text":
                self._text(launcher, self._words[place + 1], place + 2)
                return

    def _peek(self) -> Word | None:
        return self._words[self._at] if self._at < len(self._words) else None

    def _next(self) -> Word | None:
        word = self._peek()
        self._at += word is not None
        return word

    def _decides(self, word: Word | None, only_if_split: bool = False) -> None:
        """Check a word that determines what runs; with `only_if_split`, only if it became
        several."""
        if word is None or word.value is None or (only_if_split and not word.splits):
            return
        name, shown = shorten(word.value), shorten(word.text)
        if only_if_split:
            raise Chosen(
                f'"{shown}" becomes several words if "{name}" has spaces, and the last of them '
                "chooses what runs; put it in double quotes"
            )
        told = f'"{shown}" chooses' if shown == name else f'"{shown}" lets "{name}" choose'
        raise Chosen(
            f"{told} what runs; write the program literally, and pass the value as an argument or "
            "a variable"
        )

    def _is_found(self, path: str) -> None:
        """A relative path leads to another program or script in another directory."""
        if self._directory is not None and "/" in path and not path.startswith(("/", "~")):
            raise Chosen(
                f'"{shorten(path)}" is relative to a directory that '
                f'"{shorten(self._directory)}" chooses; write its absolute path'
            )

    def _all_decide(self) -> None:
        while (word := self._next()) is not None:
            self._decides(word)
            self._refuse_text(word.text, False)
            if assigned(word.text) is not None:
                self._refuse_text(word.text.partition("=")[2], False)  # of an alias

    def _asks(self) -> bool:
        """command -v only prints where a program is."""
        word = self._peek()
        return word is not None and word.text in ("-v", "-V")

    def _add_input(self) -> None:
        """Add the words that xargs appends, or inserts where its -I option tells."""
        if self._piped is None or self._peek() is None:  # alone it only prints
            return
        marks = {
            mark
            for place in range(self._at, len(self._words))
            if (mark := _mark(self._words[place - 1].text, self._words[place].text))
        }
        if len(marks) > MOST_MARKS:
            raise Invalid(f"xargs has more than {MOST_MARKS} options -I; write one")
        own = self._words[: self._at]
        words = [*own, *_replaced(self._words[self._at :], marks, self._piped)]
        self._words = [*words, Word("…", self._piped, leads=True)]
        self._piped = None

    def _options(self, launcher: Launcher) -> bool:
        """Skips the options; returns whether one of them had the text that runs."""
        has_text = False
        while (word := self._peek()) is not None:
            name = assigned(word.text)
            if name is not None:
                self._decides(word, only_if_split=not steers(name))
            elif launcher.is_option(word.text):
                self._decides(word)
            else:
                break
            self._at += 1
            if word.text == "--":
                return has_text
            if name is None:
                has_text |= self._value_of(word.text, launcher)
            if has_text and launcher.ends_options:
                return True
        if has_text and word is not None and word.leads:
            raise Chosen(
                f'"{shorten(word.text)}" could become an option chosen by "{shorten(word.value)}"; '
                "put -- before it"
            )
        return has_text

    def _value_of(self, option: str, launcher: Launcher) -> bool:
        """Skips an option's value, if it has one; returns whether that is the text that runs."""
        meaning = launcher.means(option)
        if meaning == "text":
            self._text(launcher, self._next(), self._at)
            return True
        if meaning == "deciding":
            self._decides(self._next())
        elif meaning == "valued":
            self._decides(self._next(), only_if_split=True)
        elif meaning == "unknown":
            self._refuse_behind(option)
        return meaning == "attached text"

    def _text(self, launcher: Launcher, text: Word | None, at: int) -> None:
        self._decides(text)
        if text is not None and launcher.is_shell:
            self._refuse_text(text.text, any(word.value is not None for word in self._words[at:]))

    def _refuse_behind(self, option: str) -> None:
        """It is unknown which of the words after an unknown option is the program."""
        if self._is_behind:
            return
        self._is_behind = True
        for word in self._words[self._at :]:
            if word.value is not None:
                raise Chosen(
                    f'"{shorten(word.text)}" follows the option "{shorten(option)}", which Duebook '
                    f'does not know, and could let "{shorten(word.value)}" choose what runs; put '
                    "the command in a script, and pass the value to it as an argument"
                )

    def _places(self, launcher: Launcher) -> None:
        after_dashes = self._at > 0 and self._words[self._at - 1].text == "--"
        for _ in range(launcher.places):
            word = self._next()
            may_be_option = word is not None and word.leads and not after_dashes
            self._decides(word, only_if_split=not (launcher.fixed_places and may_be_option))

    def _script(self, launcher: Launcher) -> bool:
        word = self._next()
        if word is None or word.text == "-":
            return False
        self._decides(word)
        if launcher.is_text_first:
            return True
        self._is_found(word.text if "/" in word.text else f"./{word.text}")
        return True


def _replaced(words: Sequence[Word], marks: set[str], value: str | None) -> list[Word]:
    """The words with a value in place of each mark, except in the option that defines the mark."""
    if value is None:
        return list(words)
    return [
        Word(word.text, value, word.text.startswith(tuple(marks)))
        if any(mark in word.text for mark in marks)
        and not (word.text in marks and place > 0 and words[place - 1].text == "-I")
        and not word.text.startswith(("-I", "-i", "--replace"))
        else word
        for place, word in enumerate(words)
    ]


def _mark(before: str, word: str) -> str:
    """The placeholder for a line of input that this word of xargs defines: -I {}, -I{}, -i."""
    if before == "-I":
        return word
    if word.startswith(("-I", "-i")):
        return word[2:] or ("{}" if word == "-i" else "")
    if word.startswith("--replace"):
        return word.partition("=")[2] or "{}"
    return ""
