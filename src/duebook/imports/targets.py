"""Targets for what other schedulers run: commands whose words stay unchanged; pure."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["command_target", "shell_target", "stem"]

_TEMPLATE_MARKS: Final = ("{{", "{%", "{#")
_RUNNERS: Final = frozenset(
    {"bash", "env", "exec", "flock", "ionice", "nice", "node", "nohup", "perl", "php", "python"}
    | {"python3", "ruby", "sh", "sudo", "test", "timeout", "time", "cd", "."}
)
"""Programs whose names say little about what runs."""
_KEYWORDS: Final = frozenset(
    {"if", "then", "elif", "else", "fi", "for", "in", "do", "done", "while", "until", "case"}
    | {"esac", "command", "true"}
)
_ASIDE: Final = re.compile(r"(?<!\S)(?:(?:/\S*/)?test|\[\[?)\s[^;&|]*|[0-9]?>{1,2}\s*\S+")
_SUFFIXES: Final = (".sh", ".py", ".pl", ".rb", ".php", ".js")


def command_target(
    argv: Sequence[str], env: Mapping[str, str] | None = None, cwd: str | None = None
) -> dict[str, Any]:
    """A program with its arguments. Words that look like templates are passed to a shell, whose
    text is not a template."""
    if any(mark in word for word in argv for mark in _TEMPLATE_MARKS):
        return shell_target(f"exec {shlex.join(argv)}", env, cwd)
    return {"command": list(argv)} | _around(env, cwd)


def shell_target(
    text: str, env: Mapping[str, str] | None = None, cwd: str | None = None
) -> dict[str, Any]:
    """Text for /bin/sh."""
    return {"shell": text} | _around(env, cwd)


def _around(env: Mapping[str, str] | None, cwd: str | None) -> dict[str, Any]:
    return ({"env": dict(env)} if env else {}) | ({} if cwd is None else {"cwd": cwd})


def stem(command: str) -> tuple[str, ...]:
    """The words that name a command best: its program, and a first word that is not an option.
    Conditions such as `[ -x /usr/sbin/job ]`, and files that it writes, count only if there is
    nothing else."""
    return _stem(_ASIDE.sub(" ", command)) or _stem(command)


def _stem(command: str) -> tuple[str, ...]:
    words = command.replace(";", " ").replace("&&", " ").replace("||", " ").split()
    named = [_bare(word) for word in words if word not in _KEYWORDS and _names(word)]
    named = [word for word in dict.fromkeys(named) if word]
    chosen = [word for word in named if word not in _RUNNERS] or named
    return tuple(chosen[:2])


def _names(word: str) -> bool:
    """Whether a word may name a program or describe what it does."""
    if word[0] in "-<>|&$\"'`()[]{}%0123456789" or "=" in word.partition("/")[0]:
        return False
    return (
        word.startswith(("/", "./", "~"))
        or word.replace("-", "").replace("_", "").isalnum()
        or any(word.endswith(suffix) for suffix in _SUFFIXES)
    )


def _bare(word: str) -> str:
    """The word without its directories and a usual suffix."""
    last = word.rstrip("/").rpartition("/")[2]
    for suffix in _SUFFIXES:
        last = last.removesuffix(suffix)
    return last
