"""Reads what a step runs: a command, a script, a task, a request, an event, or another flow."""

from __future__ import annotations

import re
import shlex
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, quoted, shorten
from duebook.flows.parse import Node, plain
from duebook.flows.section import Section, items, split_words, text_of
from duebook.flows.timing import read_seconds
from duebook.flows.values import read_pairs
from duebook.flows.variables import (
    Scope,
    check_script,
    check_value,
    fixed_shell_text,
    is_loose,
    loose_in,
    readable,
    walk,
)
from duebook.flows.words import CALL, EXEC, HTTP, RUN
from duebook.ids import check_name, is_name
from duebook.model.flow import SHELLS, FlowTarget, Script, is_shell, program_names
from duebook.model.http_target import HttpTarget, origin_of
from duebook.model.target import CommandTarget, EventTarget, TaskTarget, load_target
from duebook.targets.programs import Word, refuse_words
from duebook.targets.shell_words import refuse_shell_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from duebook.model.flow import StepTarget

__all__ = ["SHELL", "likely_flow", "read_action", "read_shell", "request_timeout", "written_action"]

KINDS: Final = (
    *("run", "command", "script", "exec", "task", "http", "event"),
    *("call", "action", "executor", "type"),
)
MEANINGS: Final = (
    *({"run"}, {"command"}, {"script"}, {"command", "script"}, {"exec"}, {"task"}, {"http"}),
    *({"event"}, {"call"}, {"action"}),
)
"""The keys that together say what a step runs."""
DAG_RUN: Final = "dag.run"
"""The action of Dagu 2 that runs another flow."""
SHELL: Final = ("/bin/sh", "-e", "-c")
"""With -e a script ends at its first failure, instead of hiding it."""
LONGEST_SCRIPT: Final = 100_000
"""Characters; the kernel takes no longer arguments."""

_OPTIONS: Final = {
    **dict.fromkeys(SHELLS, "-c"),
    **dict.fromkeys(("node", "perl", "ruby"), "-e"),
    "php": "-r",
}
_PYTHON: Final = re.compile(r"python[0-9.]*|pypy[0-9.]*")
_PLACEHOLDER: Final = TaskTarget("refused")
_SUPPORTED: Final = "run, http, task, event or call"
_CALLS: Final = "run is a command; to run a flow, write `call: NAME`"
_EACH: Final = "(\n{}\n)\ncase $? in 0) ;; *) exit ;; esac"
"""A command in a shell of its own; a failure ends the list, whether or not the shell has -e."""


def read_shell(section: Section, default: tuple[str, ...]) -> tuple[str, ...]:
    """How a shell is begun, its option for text included."""
    node = section.get("shell")
    if node is None:
        return default
    return section.judge(node, "shell", default, _shell, node)


def _shell(node: Node) -> tuple[str, ...]:
    return _interpreter(_words("shell", node))


def _words(key: str, node: Node) -> list[str]:
    if isinstance(node.value, list):
        return [text_of(key, plain(item)) for item in node.value]
    return split_words(key, text_of(key, plain(node)))


def _interpreter(words: list[str], only_shells: bool = True) -> tuple[str, ...]:
    """A program with its option for text; raises Invalid for those that have none."""
    if any("$" in word or "{{" in word for word in words):
        told = f'"{shorten(" ".join(words))}" contains a value; the interpreter must be fixed'
        raise Invalid(f"{told}; write the program literally")
    names = program_names(words)
    name = names[1] if names[0:1] == ["env"] and len(names) > 1 else "".join(names[:1])
    option = "-c" if _PYTHON.fullmatch(name) else _OPTIONS.get(name)
    if option is None or (only_shells and name not in SHELLS):
        known = ", ".join(sorted(SHELLS if only_shells else {*_OPTIONS, "python"}))
        given = shorten(" ".join(words))
        raise Invalid(f'"{given}" is not a supported interpreter; use one of {known}')
    if words[-1] == option:
        return tuple(words)
    return (*words, option)


def read_action(
    section: Section, scope: Scope, shell: tuple[str, ...], local: Callable[[str], str]
) -> tuple[StepTarget, dict[str, Any]]:
    """The target of a step and its payload; `local` says which flow a name in the file means.

    What is wrong is a problem of the section, and the target a placeholder.
    """
    kinds = [kind for kind in KINDS if kind in section]
    if "executor" in kinds and "type" in kinds:
        section.problem(section.node, "type", "executor and type mean the same", "keep one of them")
    main = [kind for kind in kinds if kind not in ("executor", "type")]
    if len(kinds) > len(main):
        return _executor(section, scope, shell, main), {}
    if set(main) not in MEANINGS:
        if main or section.is_whole:  # else it is misspelt, which is told already
            told = f"it has {' and '.join(main)}" if main else "it does not run anything"
            hint = "a step needs exactly one of run, command, script, exec, task, http, event, call"
            section.problem(section.node, "", told, hint)
        return _PLACEHOLDER, {}
    _refuse_strays(section, main)
    node = section.get(main[0]) or section.node
    readers: dict[str, Callable[[], StepTarget]] = {
        "run": lambda: _run(section, node, scope, shell),
        "exec": lambda: _program(section, _exec_words(section, node), scope),
        "task": lambda: load_target({"task": plain(node)}),
        "http": lambda: _request(plain(node), scope),
        "event": lambda: _event(plain(node), scope),
        "call": lambda: _flow("call", plain(node), _call_params(section, scope), local),
        "action": lambda: _action(section, node, scope, local),
    }
    read = readers.get(main[0], lambda: _command(section, scope, shell))
    target = section.judge(node, main[0], _PLACEHOLDER, read)
    return target, _payload(section, scope) if "task" in main else {}


def likely_flow(section: Section, local: Callable[[str], str]) -> str | None:
    """The flow that a `run` of one word would call if it were not a command."""
    node = section.get("run")
    if node is None or not isinstance(node.value, str):
        return None
    name = _without_ending(node.value.strip())
    return local(name) if is_name(name) else None


def written_action(section: Section, target: StepTarget) -> str:
    """What a step runs in the words of its file, for people."""
    if isinstance(target, Script):
        if (run := section.get("run")) is not None:
            return "; ".join(_commands(run))
        node = section.get("script") or section.get("command")
        return str(target) if node is None else text_of("command", plain(node))
    node = section.get("command")
    if isinstance(target, CommandTarget) and node is not None and isinstance(node.value, list):
        return shlex.join(text_of("command", plain(item)) for item in node.value)
    return readable(str(target))


def _refuse_strays(section: Section, main: list[str]) -> None:
    """Keys that mean something only beside another."""
    for key, beside in (
        ("payload", {"task"}),
        ("params", {"call"}),
        ("config", {"action", "executor", "run", "type"}),
        ("shell", {"command", "run", "script"}),
        ("working_dir", {"command", "exec", "run", "script"}),
    ):
        node = section.get(key)
        if node is not None and not beside & set(main):
            told = f"{key} has no effect without {' or '.join(sorted(beside))}"
            section.problem(node, key, told, _CALLS if key == "params" and "run" in main else "")


def _payload(section: Section, scope: Scope) -> dict[str, Any]:
    node = section.get("payload")
    if node is None:
        return {}
    value = plain(node)
    if not isinstance(value, dict):
        section.problem(node, "payload", f"payload {shorten(value)} is not a mapping")
        return {}
    return dict(section.judge(node, "payload", {}, walk, value, scope))


def _command(section: Section, scope: Scope, shell: tuple[str, ...]) -> StepTarget:
    command, script = section.get("command"), section.get("script")
    if command is not None and isinstance(command.value, list) and script is None:
        words = [text_of("command", plain(item)) for item in command.value]
        if words and re.search(r"\s", words[0].strip()) and "{{" not in words[0]:
            raise Invalid(
                f'command: "{shorten(words[0])}" is not a program; a list is one program and its '
                "arguments; to run several commands, use `script` with one command per line"
            )
        return _program(section, words, scope)
    if script is None:
        assert command is not None  # noqa: S101 - one of them is there
        return _script(section, text_of("command", plain(command)), shell, scope)
    text = text_of("script", plain(script))
    if command is not None:
        return _script(section, text, _interpreter(_words("command", command), False), scope)
    return _text(section, text, shell, scope)


def _run(section: Section, node: Node, scope: Scope, shell: tuple[str, ...]) -> StepTarget:
    """Text for the shell, or several commands of which each runs if the one before succeeded."""
    if (config := section.get("config")) is not None:
        inner = Section(config, section.at("config"), section.problems, RUN)
        shell = read_shell(inner, shell)
    commands = _commands(node)
    if len(commands) == 1:
        return _text(section, commands[0], shell, scope)
    if any("\n" in command for command in commands):
        raise Invalid("a command in the list has several lines; write it as a separate step")
    return _script(section, "\n".join(_EACH.format(command) for command in commands), shell, scope)


def _commands(node: Node) -> list[str]:
    """The commands of `run`; `- echo a: b` is one as well, though YAML takes it for a mapping."""
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


def _text(section: Section, text: str, shell: tuple[str, ...], scope: Scope) -> StepTarget:
    """Text for the shell, or for the interpreter of its #! line."""
    first, _, rest = text.partition("\n")
    if first.startswith("#!"):
        words = split_words("script", first[2:])
        return _script(section, "\n" + rest, _interpreter(words or ["#!"], False), scope)
    return _script(section, text, shell, scope)


def _action(section: Section, node: Node, scope: Scope, local: Callable[[str], str]) -> FlowTarget:
    if (name := plain(node)) != DAG_RUN:
        raise Invalid(f"action {quoted(name)} is not supported; use {_SUPPORTED}")
    config = section.get("config")
    if config is None:
        raise Invalid(f"action {DAG_RUN} does not name a flow; add `with: {{dag: NAME}}`")
    inner = Section(config, section.at("config"), section.problems, CALL)
    return _flow("dag", inner.read("dag", text_of, ""), _call_params(inner, scope), local)


def _script(section: Section, text: str, interpreter: tuple[str, ...], scope: Scope) -> StepTarget:
    if not text.strip():
        raise Invalid("its command is empty")
    if len(text) > LONGEST_SCRIPT:
        raise Invalid(
            f"it has {len(text):,} characters; at most {LONGEST_SCRIPT:,} can be passed to a "
            "program; put them in a file"
        )
    values: tuple[tuple[str, str], ...] = ()
    if is_shell(interpreter):
        text, values = fixed_shell_text(text, scope)
    else:
        check_script(text, scope, interpreter[0])
    return Script(text, interpreter, _directory(section, scope), values)


def _program(section: Section, words: list[str], scope: Scope) -> StepTarget:
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
    assert isinstance(target, CommandTarget)  # noqa: S101 - of such a form
    return CommandTarget(target.argv, cwd=_directory(section, scope))


def _word(written: str, template: str, scope: Scope) -> Word:
    value = loose_in(template, scope)
    return Word(written, value, leads=value is not None and template.startswith("{"))


def _refuse_text(scope: Scope, text: str, has_values: bool) -> None:
    refuse_shell_text(text, lambda name: is_loose(name, scope), has_values)


def _exec_words(section: Section, node: Node) -> list[str]:
    inner = Section(node, section.at("exec"), section.problems, EXEC)
    program = inner.read("command", text_of, "")
    args = inner.get("args")
    rest = [] if args is None else [text_of("args", plain(item)) for item in items(args)]
    if not program:
        raise Invalid("exec has no command")
    return [program, *rest]


def _directory(section: Section, scope: Scope) -> str | None:
    node = section.get("working_dir")
    if node is None:
        return None
    text: str = walk(text_of("working_dir", plain(node)), scope)
    hint = "write the directory literally, and pass the value as an argument or a variable"
    check_value(text, scope, "working_dir", hint)
    return text


def _request(form: Any, scope: Scope) -> HttpTarget:
    """A request whose texts are templates, but for where it goes."""
    if isinstance(form, dict) and not form.get("url"):
        raise Invalid("http has no url; add `url: https://example.com`")
    try:
        target = load_target({"http": walk(form, scope)})
    except Invalid as error:
        raise Invalid(readable(str(error))) from None
    assert isinstance(target, HttpTarget)  # noqa: S101 - of such a form
    check_value(origin_of(target.url), scope, "http url, before its path,")
    return target


def _event(form: Any, scope: Scope) -> EventTarget:
    """An event whose texts are templates, but for its topic."""
    target = load_target({"event": walk(form, scope)})
    assert isinstance(target, EventTarget)  # noqa: S101 - of such a form
    check_value(target.topic, scope, "event topic")
    return target


def _flow(key: str, given: Any, params: dict[str, Any], local: Callable[[str], str]) -> FlowTarget:
    name = _without_ending(given) if isinstance(given, str) else ""
    try:
        check_name(name)
    except Invalid:
        shown = given.strip().partition("\n")[0] if isinstance(given, str) else given
        raise Invalid(
            f"{key} {quoted(shown)} is not a flow name; write a command as `run`"
        ) from None
    return FlowTarget(local(name), tuple(params.items()))


def _without_ending(name: str) -> str:
    return re.sub(r"\.ya?ml$", "", name)


def _call_params(section: Section, scope: Scope) -> dict[str, Any]:
    node, found = section.get("params"), dict[str, Any]()
    if node is None:
        return found
    if isinstance(node.value, str):
        for word in split_words("params", node.value):
            name, equals, value = word.partition("=")
            if not equals:
                name, value = str(1 + sum(key.isdigit() for key in found)), word
            found[name] = walk(value, scope)
        return found
    return {name: walk(value, scope) for name, _, value in read_pairs(section, "params")}


def _executor(
    section: Section, scope: Scope, shell: tuple[str, ...], main: list[str]
) -> StepTarget:
    node = section.get("executor") or section.get("type") or section.node
    config, kind = section.get("config"), node.value
    if isinstance(kind, dict):
        config, kind = kind.get("config"), plain(kind["type"]) if "type" in kind else None
    if kind in ("command", "shell", "") and config is None and set(main) <= {"command", "script"}:
        return section.judge(node, "", _PLACEHOLDER, _command, section, scope, shell)
    if kind != "http":
        told = f'executor type "{shorten(kind)}" is not supported'
        section.problem(node, "executor", told, "run a program that does it")
        return _PLACEHOLDER
    return section.judge(node, "executor", _PLACEHOLDER, _http, section, config, scope)


def _http(section: Section, config: Node | None, scope: Scope) -> StepTarget:
    """A request in Dagu's words: in the config, or as `command: GET https://…`."""
    form: dict[str, Any] = {}
    if (command := section.get("command")) is not None:
        words = _words("command", command)
        if len(words) != 2:
            raise Invalid(f"command {shorten(plain(command))} is not a method and a url")
        form["method"], form["url"] = words
    if (script := section.get("script")) is not None:
        form["body"] = plain(script)
    if config is not None:
        inner = Section(config, section.at("config"), section.problems, HTTP)
        for key in ("url", "method", "headers", "body"):
            if (node := inner.get(key)) is not None:
                form[key] = plain(node)
    return _request(form, scope)


def request_timeout(section: Section) -> timedelta | None:
    """What the config of a request says about its time."""
    node = section.get("executor")
    config = section.get("config")
    if node is not None and isinstance(node.value, dict):
        config = node.value.get("config")
    if config is None or not isinstance(config.value, dict) or "timeout" not in config.value:
        return None
    found = config.value["timeout"]
    return section.judge(found, "timeout", None, read_seconds, "timeout", plain(found))
