"""Knows the syntax that only bash understands, so that text without a named shell can get bash."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

from duebook.model.flow import Script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.flow import Step

__all__ = ["BASH", "SHELL", "condition_for", "notes_on_bash", "shell_for", "sign_of_bash"]

SHELL: Final = ("/bin/sh", "-e", "-c")
"""With -e a script stops at its first failure, instead of hiding it."""
BASH: Final = ("bash", "-e", "-c")

_MAYBE: Final = re.compile(
    r"[\[{(<&|=]|\$['A-Z]|-[neE]*[eE]|\b(?:source|declare|typeset|shopt|mapfile|readarray|pushd|popd"
    r"|let|pipefail|ERR)\b"
)
"""A quick filter: every sign of bash matches it, and most text does not."""
_WORD: Final = r"(?:^|[;&|({!`]|\b(?:if|elif|then|else|while|until|do)\b)[ \t]*"
"""Where a command starts."""
_QUOTED: Final = re.compile(
    r"\\.|(?<!\$)'[^']*'|\"(?:\\.|[^\"\\])*\"|(?:^|(?<=\s))#[^\n]*", re.DOTALL
)
"""What a shell reads as a quoted string or a comment."""
_SIGNS: Final = re.compile(
    rf"{_WORD}(?P<word>\[\[(?=\s)|\(\((?!\()"
    r"|(?:source|function|declare|typeset|shopt|mapfile|readarray|pushd|popd|let)(?=\s))"
    r"|(?P<equal>(?:\[|\btest)\s[^;&|\n\]]*?\s==(?=\s))"
    r"|\b(?P<echo>echo[ \t]+-[neE]*[eE][neE]*)(?=\s)"
    r"|(?P<sign><<<|[<>]\(|&>|\|&|\$')"
    r"|(?<![\w$}])(?P<braces>\{[^\s{}]*(?:,|\.\.)[^\s{}]*\})"
    r"|\b(?P<option>set[ \t]+-\w*o[ \t]+pipefail)\b"
    r"|\b(?P<trap>trap\s[^\n;]*\bERR)\b|(?:^|[;&|]|\s)(?P<list>[A-Za-z_]\w*\+?=\()",
    re.MULTILINE,
)
_VALUES: Final = re.compile(
    r"\$\{?(?P<value>RANDOM|SECONDS|PIPESTATUS|EPOCHSECONDS|FUNCNAME|BASH_\w+|BASHPID)\b"
    r"|(?P<part>\$\{!?[A-Za-z_]\w*(?:\^|,|/|:-?[0-9 (]|\[[@*]))"
)


def sign_of_bash(text: str) -> str | None:
    """The first thing in a text that only bash does; another shell might run on and do less."""
    if _MAYBE.search(text) is None:
        return None
    without = _QUOTED.sub(_blank, text)
    found = _SIGNS.search(without)
    if found is None:
        found = _VALUES.search(_QUOTED.sub(_blank_literal, text))
    if found is None:
        return None
    name = found.lastgroup or ""
    shown = {"equal": "==", "trap": "trap ERR", "option": "pipefail", "list": "=("}
    return shown.get(name, found[name])


def shell_for(text: str, shell: Sequence[str]) -> tuple[str, ...]:
    """The shell for a text: bash if the text needs it and the file names no shell."""
    return BASH if tuple(shell) == SHELL and sign_of_bash(text) is not None else tuple(shell)


def condition_for(text: str) -> str:
    """A condition for /bin/sh to execute; it starts bash if the condition needs that."""
    return text if sign_of_bash(text) is None else f"bash -c {shlex.quote(text)}"


def notes_on_bash(flow: str, steps: Sequence[Step]) -> tuple[str, ...]:
    """Notes on steps that run with bash although the file does not ask for it."""
    notes = []
    for step in steps:
        if not isinstance(step.target, Script) or step.target.interpreter != BASH:
            continue
        if (sign := sign_of_bash(step.target.text)) is not None:
            told = f'step "{step.name}" of flow {flow} runs with bash, because only bash knows'
            notes.append(f"{told} `{sign}`; write `shell: bash`")
    return tuple(notes)


def _blank(match: re.Match[str]) -> str:
    return "_" if match[0].strip() else match[0]


def _blank_literal(match: re.Match[str]) -> str:
    """Blank a quoted string, unless its quotes are double: those do not hide values."""
    return match[0] if match[0].startswith('"') else "_"
