"""Reads commands for shells, scripts for interpreters, and programs with their arguments."""

from __future__ import annotations

import re
import shlex
from functools import partial
from typing import TYPE_CHECKING, Final

from duebook.errors import Invalid, shorten
from duebook.flows.bash_only import SHELL, shell_for
from duebook.flows.parse import Node, plain
from duebook.flows.problems import Misplaced
from duebook.flows.section import Section, items, split_words, text_of
from duebook.flows.variables import (
    check_script,
    check_value,
    fixed_shell_text,
    is_loose,
    loose_in,
    walk,
)
from duebook.flows.words import EXEC, RUN
from duebook.model.flow import SHELLS, Script, is_shell, program_names
from duebook.model.target import CommandTarget, load_target
from duebook.targets.programs import Word, refuse_words
from duebook.targets.shell_words import refuse_shell_text

if TYPE_CHECKING:
    from duebook.flows.references import Scope
    from duebook.model.flow import StepTarget

__all__ = [
    "commands_of",
    "container_shell",
    "directory_of",
    "read_command",
    "read_exec",
    "read_program",
    "read_run",
    "read_script",
    "read_shell",
    "words_of",
]

LONGEST_SCRIPT: Final = 100_000
"""Characters; the kernel accepts no longer arguments."""

_OPTIONS: Final = {
    **dict.fromkeys(SHELLS, "-c"),
    **dict.fromkeys(("node", "perl", "ruby"), "-e"),
    "php": "-r",
}
_PYTHON: Final = re.compile(r"python[0-9.]*|pypy[0-9.]*")
_LAUNCHERS: Final = frozenset({"uv", "poetry", "pipenv", "hatch"})
"""Programs whose `run` starts the interpreter named last."""
_ALONE: Final = frozenset(
    {"pwd", "date", "ls", "whoami", "hostname", "id", "true", "env", "uptime", "df", "ps", "sync"}
)
"""Programs that often run without arguments."""
_COMMON: Final = frozenset(
    {"echo", "printf", "cd", "cat", "cp", "mv", "rm", "mkdir", "touch", "grep", "sed", "awk"}
    | {"sleep", "test", "exit", "curl", "wget", "tar", "git", "make", "docker", "kubectl", "ssh"}
    | {"python", "python3", "pip", "uv", "node", "npm", "npx", "yarn", "pnpm", "go", "cargo"}
    | {"bash", "sh", "psql", "mysql", "aws", "gcloud", "terraform", "pytest", "ruby", "php"}
)
"""Programs that often start the lines of a list of commands."""
_EACH: Final = "(\n{}\n)\ncase $? in 0) ;; *) exit ;; esac"
"""A command in its own shell; a failure ends the list, whether or not the shell has -e."""


def read_shell(section: Section, default: tuple[str, ...]) -> tuple[str, ...]:
    """The command that starts a shell or another interpreter, including its option for text."""
    node, args = section.get("shell"), section.get("shell_args")
    if node is None and args is None:
        return default
    found = args if node is None else node
    assert found is not None  # noqa: S101 - the section has one of them
    return section.judge(found, "shell", default, _shell, node, args, default)


def _shell(node: Node | None, args: Node | None, default: tuple[str, ...]) -> tuple[str, ...]:
    words = [default[0]] if node is None else words_of("shell", node)
    options = [] if args is None else words_of("shell_args", args)
    return _interpreter([*words, *options])


def container_shell(node: Node) -> tuple[str, ...]:
    """The command that starts a shell within a container; raises Invalid."""
    return _interpreter(words_of("shell", node))


def words_of(key: str, node: Node) -> list[str]:
    if isinstance(node.value, list):
        return [text_of(key, plain(item)) for item in node.value]
    return split_words(key, text_of(key, plain(node)))


def _interpreter(words: list[str]) -> tuple[str, ...]:
    """A program with its option for text; raises Invalid for programs without one."""
    if any("$" in word or "{{" in word for word in words):
        told = f'"{shorten(" ".join(words))}" contains a value; the interpreter must be fixed'
        raise Invalid(f"{told}; write the program literally")
    name = _program_of(words)
    option = "-c" if _PYTHON.fullmatch(name) else _OPTIONS.get(name)
    if option is None:
        known = ", ".join(sorted({*_OPTIONS, "python"}))
        given = shorten(" ".join(words))
        raise Invalid(f'"{given}" is not a supported interpreter; use one of {known}')
    if words[-1] == option:
        return tuple(words)
    return (*words, option)


def _program_of(words: list[str]) -> str:
    """The interpreter that a line starts; in `uv run --python 3.13 python` the last word."""
    rest = list(words)
    if program_names(rest)[:1] == ["env"]:
        rest = rest[2:] if rest[1:2] == ["-S"] else rest[1:]
    if program_names(rest)[:1] and program_names(rest)[0] in _LAUNCHERS and rest[1:2] == ["run"]:
        last = program_names(rest[-1:])[0]
        return "" if last in SHELLS else last
    return "".join(program_names(rest)[:1])


def read_command(section: Section, scope: Scope, shell: tuple[str, ...]) -> StepTarget:
    """Read `command`, `script`, or a script beside the command that interprets it."""
    command, script = section.get("command"), section.get("script")
    if script is not None:
        text = text_of("script", plain(script))
        if command is None:
            return _text(section, script, text, shell, scope)
        interpreter = _interpreter(words_of("command", command))
        return read_script(section, script, text, interpreter, scope)
    assert command is not None  # noqa: S101 - the section has one of them
    if not isinstance(command.value, list):
        text = text_of("command", plain(command))
        return _text(section, command, text, shell, scope)
    words = [_list_item(item) for item in command.value]
    if _are_commands(words):
        return _one_by_one(section, command, words, shell, scope)
    return read_program(section, words, scope)


def _list_item(node: Node) -> str:
    """The string of an item, even of `- echo a: b`, which YAML reads as a mapping."""
    is_line = isinstance(node.value, dict) and any(" " in key for key in node.value)
    return _command_text(node) if is_line else text_of("command", plain(node))


def _are_commands(words: list[str]) -> bool:
    """Whether the items of a list are commands, rather than a program and its arguments; raises
    Invalid where both are possible."""
    lines = [word for word in words if re.search(r"\s", word.strip()) and "{{" not in word]
    first = words[0].strip() if words else ""
    if first and words[0] in lines:
        return True
    if any(word.startswith("-") for word in words):
        return False
    if not any(map(_begins_with_program, lines)) and not _are_programs(words):
        return False
    if first in _ALONE and (lines or _ALONE.issuperset(words)):
        return True
    commands = "; ".join(words)
    raise Invalid(
        f'command may be the program "{shorten(first)}" with its arguments, or {len(words)} '
        f"commands; write `exec: {{command: {shorten(first)}, args: [...]}}`, or `run: [...]` for "
        f"the commands {shorten(commands)}"
    )


def _begins_with_program(line: str) -> bool:
    word = line.split()[0]
    return _is_program(word) or word.startswith(("./", "/", "~/"))


def _are_programs(words: list[str]) -> bool:
    """Whether all items are names of programs, as in `[npm, test]`."""
    return len(words) > 1 and all(_is_program(word.strip()) for word in words)


def _is_program(word: str) -> bool:
    return word in _COMMON or word in _ALONE


def read_run(section: Section, node: Node, scope: Scope, shell: tuple[str, ...]) -> StepTarget:
    """Read text for the shell, or commands that each run only if the one before succeeded."""
    if (config := section.get("config")) is not None:
        inner = Section(config, section.at("config"), section.problems, RUN)
        shell = read_shell(inner, shell)
    commands = commands_of(node)
    if len(commands) == 1:
        return _text(section, node, commands[0], shell, scope)
    return _one_by_one(section, node, commands, shell, scope)


def _one_by_one(
    section: Section, node: Node, commands: list[str], shell: tuple[str, ...], scope: Scope
) -> StepTarget:
    if any("\n" in command.strip() for command in commands):
        raise Invalid("a command in the list has several lines; write it as a separate step")
    shell = _shell_of("\n".join(commands), shell)
    if not is_shell(shell):
        raise Invalid(f"a list of commands needs a shell, not {shell[0]}; write a script instead")
    text = "\n".join(_EACH.format(command.strip()) for command in commands)
    return read_script(section, node, text, shell, scope)


def commands_of(node: Node) -> list[str]:
    """The commands of `run`, including `- echo a: b`, which YAML reads as a mapping."""
    if isinstance(node.value, dict):
        raise Invalid("run is a mapping; write a command, or a list of commands")
    found = [_command_text(item) for item in items(node)]
    return [text for text in found if text.strip()] or [""]


def _command_text(node: Node) -> str:
    value = plain(node)
    if isinstance(value, dict) and len(value) == 1:
        ((key, rest),) = value.items()
        return f"{key}: {text_of('run', rest)}"
    return text_of("run", value)


def _text(
    section: Section, node: Node, text: str, shell: tuple[str, ...], scope: Scope
) -> StepTarget:
    """Text for the shell, or for the interpreter named by its #! line."""
    first, _, rest = text.partition("\n")
    if not shell and "\n" not in text.strip():
        return _direct(section, text, scope)
    if first.startswith("#!"):
        words = split_words("script", first[2:])
        return read_script(section, node, "\n" + rest, _interpreter(words or ["#!"]), scope)
    return read_script(section, node, text, _shell_of(text, shell), scope)


def _shell_of(text: str, shell: tuple[str, ...]) -> tuple[str, ...]:
    """Bash where the text needs it, except in containers, which may not have bash."""
    return shell_for(text, shell) if shell else SHELL


def _direct(section: Section, text: str, scope: Scope) -> StepTarget:
    """A command that a container starts without a shell, as Dagu does."""
    words = split_words("command", text)
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    signs = [word for word in lexer if word and not word.strip("();<>|&")]
    if signs or "`" in text or "$(" in text:
        raise Invalid(
            f'"{shorten(text)}" needs a shell, and a container has none by itself; add '
            "`shell: [/bin/sh, -c]` to the container"
        )
    return read_program(section, words, scope)


def read_script(
    section: Section, node: Node, text: str, interpreter: tuple[str, ...], scope: Scope
) -> StepTarget:
    """`node` is where the text is in the file, for reporting problems within it."""
    if not text.strip():
        raise Invalid("its command is empty")
    if len(text) > LONGEST_SCRIPT:
        raise Invalid(
            f"it has {len(text):,} characters; at most {LONGEST_SCRIPT:,} can be passed to a "
            "program; put them in a file"
        )
    values: tuple[tuple[str, str], ...] = ()
    try:
        if is_shell(interpreter):
            made, values = fixed_shell_text(text, scope)
        else:
            check_script(text, scope, interpreter[0])
            made = text
    except Misplaced as error:
        raise Misplaced(str(error), error.offset, node, text) from None
    return Script(made, interpreter, directory_of(section, scope), values)


def read_program(section: Section, words: list[str], scope: Scope) -> StepTarget:
    if not words:
        raise Invalid("command is empty")
    if any(len(word) > LONGEST_SCRIPT for word in words):
        raise Invalid(f"an argument of command has more than {LONGEST_SCRIPT:,} characters")
    rendered = [walk(word, scope) for word in words]
    if rendered[0] != words[0] or "{{" in words[0] or "{%" in words[0]:
        raise Invalid(f'command "{shorten(words[0])}" is a template; the program must be fixed')
    given = [_word(*pair, scope) for pair in zip(words, rendered, strict=True)]
    refuse_words(given, partial(_refuse_text, scope))
    target = load_target({"command": rendered})
    assert isinstance(target, CommandTarget)  # noqa: S101 - because of its form
    return CommandTarget(target.argv, cwd=directory_of(section, scope))


def _word(written: str, template: str, scope: Scope) -> Word:
    value = loose_in(template, scope)
    return Word(written, value, leads=value is not None and template.startswith("{"))


def _refuse_text(scope: Scope, text: str, has_values: bool) -> None:
    refuse_shell_text(text, lambda name: is_loose(name, scope), has_values)


def read_exec(section: Section, node: Node, scope: Scope) -> StepTarget:
    """A program started without a shell, from `command` and `args`."""
    return read_program(section, _exec_words(section, node), scope)


def _exec_words(section: Section, node: Node) -> list[str]:
    inner = Section(node, section.at("exec"), section.problems, EXEC)
    program = inner.read("command", text_of, "")
    args = inner.get("args")
    rest = [] if args is None else [text_of("args", plain(item)) for item in items(args)]
    if not program:
        raise Invalid("exec has no command")
    return [program, *rest]


def directory_of(section: Section, scope: Scope) -> str | None:
    node = section.get("working_dir")
    if node is None:
        return None
    text: str = walk(text_of("working_dir", plain(node)), scope)
    hint = "write the directory literally, and pass the value as an argument or a variable"
    check_value(text, scope, "working_dir", hint)
    return text
