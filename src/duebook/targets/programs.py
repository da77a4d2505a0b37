"""Finds where a value would choose the program that a command line starts; pure.

A command line begins with what runs; the rest are arguments, which are data. Programs such as
`env`, `sudo` and `timeout` start another one, shells and interpreters run a text or a script: after
these, more words say what runs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from duebook.errors import Invalid, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Chosen", "Word", "assigned", "refuse_words", "steers"]

_STEERING: Final = re.compile(
    r"PATH|HOME|SHELL|IFS|ENV|CDPATH|FPATH|ZDOTDIR|BASH_.*|SHELLOPTS|BASHOPTS|PS[0-4]|INPUTRC"
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
"""Variables by which programs find other programs, libraries, or files that name some."""
_PYTHON: Final = re.compile(r"(python|pypy)[0-9.]*")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)\+?=", re.ASCII)


class Chosen(Invalid):
    """A value would choose what runs."""


class Word(NamedTuple):
    """One word of a command line."""

    text: str
    value: str | None = None
    """the name of a value in it that others can change"""
    leads: bool = False
    """whether it begins with that value, which may then be an option"""
    splits: bool = False
    """whether a shell makes several words of the value"""


class _Head(NamedTuple):
    """How the command line of a program begins that starts another, or runs a text."""

    deciding: frozenset[str] = frozenset()
    """options whose value, the next word, says what runs"""
    valued: frozenset[str] = frozenset()
    """other options that have one"""
    text: str = ""
    """letters of options whose value is a text that runs"""
    places: int = 0
    """words between the options and the program"""
    fixed_places: bool = True
    runs_scripts: bool = False
    """what follows the options is a script, or else is read from the input"""
    ends_options: bool = True
    """whether what follows a text are arguments, whatever they begin with"""
    is_shell: bool = False


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_SHELL: Final = _Head(
    _set("--rcfile --init-file"), _set("-o +o -O +O"), "c", runs_scripts=True, is_shell=True
)
_SCRIPTED: Final = _Head(
    _set("-I -r --require --import --loader -d -f -l -c"),
    text="eEpRB",
    runs_scripts=True,
    ends_options=False,
)
_PYTHON_HEAD: Final = _Head(_set("-W -X"), text="cm", runs_scripts=True)
_PLAIN: Final = _Head()
_HEADS: Final[dict[str, _Head]] = {
    **dict.fromkeys(_set("sh ash bash dash ksh mksh zsh fish"), _SHELL),
    **dict.fromkeys(_set("perl ruby node nodejs deno bun lua php"), _SCRIPTED),
    **dict.fromkeys(
        _set("nohup setsid unshare setpriv fakeroot tini dumb-init npx uvx bunx busybox watch")
        | _set("alias coproc enable hash complete compgen bind")
        | _set("unbuffer exec command builtin source . eval trap nsenter systemd-run chrt"),
        _PLAIN,
    ),
    "env": _Head(_set("-C -S --chdir --split-string"), _set("-u --unset")),
    "sudo": _Head(_set("-D -R -h"), _set("-u -g -p -C -r -t -T -U")),
    "doas": _Head(_set("-C"), _set("-u")),
    "su": _Head(_set("-s --shell"), _set("-g -G -w"), "c", places=1),
    "runuser": _Head(_set("-s --shell"), _set("-u -g -G -w"), "c"),
    "nice": _Head(valued=_set("-n")),
    "ionice": _Head(valued=_set("-c -n")),
    "timeout": _Head(valued=_set("-k -s"), places=1, fixed_places=False),
    "stdbuf": _Head(valued=_set("-i -o -e")),
    "time": _Head(valued=_set("-f -o")),
    "chroot": _Head(places=1),
    "flock": _Head(valued=_set("-w -E"), text="c", places=1),
    "xargs": _Head(valued=_set("-a -d -E -I -L -n -P -s")),
    "ssh": _Head(_set("-F -o -S"), _set("-b -c -i -J -l -L -p -R -D -W -w -m -e -E"), places=1),
    "strace": _Head(valued=_set("-e -o -s -u -E -a")),
}
_ALL_DECIDE: Final = _set("eval trap alias coproc enable hash complete compgen bind")
_LONG_TEXTS: Final = _set("--command --eval --print --run")


def steers(name: str) -> bool:
    """Whether a variable of that name changes which programs, or whose code, others run.

    >>> steers("PATH"), steers("LD_PRELOAD"), steers("DAY")
    (True, True, False)
    """
    return _STEERING.fullmatch(name) is not None


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
    """Raises Chosen when a value stands where a command line says what runs.

    `refuse_text` judges a text for a shell, and is told whether its arguments have values.
    `directory` names a value that has chosen the working directory, `piped` one that xargs adds to
    the line. Returns whether the line says what runs: an interpreter may read that from its input.
    """
    return _Line(words, refuse_text, directory, piped).refuse()


def _head_of(word: str) -> _Head | None:
    """What is known of a program by its name; None when its arguments are data."""
    name = word.rpartition("/")[2]
    return _PYTHON_HEAD if _PYTHON.fullmatch(name) else _HEADS.get(name)


class _Line:
    def __init__(
        self,
        words: Sequence[Word],
        refuse_text: Callable[[str, bool], None],
        directory: str | None,
        piped: str | None,
    ) -> None:
        self._words = words
        self._refuse_text = refuse_text
        self._directory = directory
        self._piped = piped
        self._at = 0

    def refuse(self) -> bool:
        while (word := self._next()) is not None:
            self._decides(word)
            self._is_found(word.text)
            head = _head_of(word.text)
            if head is None:
                return True
            name = word.text.rpartition("/")[2]
            if name in _ALL_DECIDE:
                self._all_decide()
                return True
            if name == "command" and self._asks():
                return True
            if name in ("xargs", "parallel"):
                self._add_input()
            if self._options(head):
                return True
            self._places(head)
            if head.runs_scripts:
                return self._script()
        return True

    def _peek(self) -> Word | None:
        return self._words[self._at] if self._at < len(self._words) else None

    def _next(self) -> Word | None:
        word = self._peek()
        self._at += 1
        return word

    def _decides(self, word: Word | None, only_if_split: bool = False) -> None:
        """A word that says what runs; with `only_if_split`, one that would if it became several."""
        if word is None or word.value is None or (only_if_split and not word.splits):
            return
        name, shown = shorten(word.value), shorten(word.text)
        if only_if_split:
            raise Chosen(
                f'"{shown}" becomes several words if "{name}" has spaces, and the last of them '
                "chooses what runs; put it in double quotes"
            )
        raise Chosen(
            f'"{shown}" lets "{name}" choose what runs; write the program itself, and pass the '
            "value as an argument or a variable"
        )

    def _is_found(self, path: str) -> None:
        """A program or script with a relative path is another one in another directory."""
        if self._directory is not None and "/" in path and not path.startswith(("/", "~")):
            raise Chosen(
                f'"{shorten(path)}" is another program in each directory, which '
                f'"{shorten(self._directory)}" chooses; write its absolute path'
            )

    def _all_decide(self) -> None:
        while (word := self._next()) is not None:
            self._decides(word)
            self._refuse_text(word.text, False)
            if assigned(word.text) is not None:
                self._refuse_text(word.text.partition("=")[2], False)  # of an alias

    def _asks(self) -> bool:
        """command -v only says where a program is."""
        word = self._peek()
        return word is not None and word.text in ("-v", "-V")

    def _add_input(self) -> None:
        """The words that xargs adds behind its own, or puts where its -I says."""
        if self._piped is None or self._peek() is None:  # alone it only prints
            return
        words = list(self._words)
        for place in range(self._at, len(words)):
            if mark := _mark(words[place - 1].text, words[place].text):
                words[place + 1 :] = [
                    Word(word.text, self._piped, word.text.startswith(mark))
                    if mark in word.text
                    else word
                    for word in words[place + 1 :]
                ]
        self._words = [*words, Word("…", self._piped, leads=True)]

    def _options(self, head: _Head) -> bool:
        """Goes past the options; returns whether one of them had the text that runs."""
        has_text = False
        while (word := self._peek()) is not None:
            name = assigned(word.text)
            if name is not None:
                self._decides(word, only_if_split=not steers(name))
            elif word.text.startswith(("-", "+")) and word.text != "-":
                self._decides(word)
            else:
                break
            self._at += 1
            if word.text == "--":
                return has_text
            has_text |= self._value_of(word.text, head)
            if has_text and head.ends_options:
                return True
        if has_text and word is not None and word.leads:
            self._decides(word)  # it may be another option
        return has_text

    def _value_of(self, option: str, head: _Head) -> bool:
        """The next word, if it belongs to an option; returns whether it is the text that runs."""
        if _has_text(option, head):
            text = self._next()
            self._decides(text)
            if text is not None and head.is_shell:
                has_values = any(word.value is not None for word in self._words[self._at :])
                self._refuse_text(text.text, has_values)
            return True
        if option in head.deciding:
            self._decides(self._next())
        elif option in head.valued:
            self._decides(self._next(), only_if_split=True)
        return False

    def _places(self, head: _Head) -> None:
        after_dashes = self._at > 0 and self._words[self._at - 1].text == "--"
        for _ in range(head.places):
            word = self._next()
            may_be_option = word is not None and word.leads and not after_dashes
            self._decides(word, only_if_split=not (head.fixed_places and may_be_option))

    def _script(self) -> bool:
        word = self._next()
        if word is None or word.text == "-":
            return False
        self._decides(word)
        self._is_found(word.text if "/" in word.text else f"./{word.text}")
        return True


def _has_text(option: str, head: _Head) -> bool:
    """-c, or letters of which that is the last, such as -ec."""
    if not head.text or not option.startswith("-"):
        return False
    return option in _LONG_TEXTS or (not option.startswith("--") and option[-1:] in head.text)


def _mark(before: str, word: str) -> str:
    """What stands for a line of input after this word of xargs: -I {}, -I{}, -i."""
    if before == "-I":
        return word
    if word.startswith(("-I", "-i")):
        return word[2:] or ("{}" if word == "-i" else "")
    if word.startswith("--replace"):
        return word.partition("=")[2] or "{}"
    return ""
