"""Reads what a step runs: a command, a script, a task, a request, an event, or another flow."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, quoted, shorten
from duebook.flows.bash_only import SHELL
from duebook.flows.builtin_steps import read_builtin
from duebook.flows.commands import commands_of, read_command, read_exec, read_run
from duebook.flows.containers import Inside, read_docker
from duebook.flows.parse import plain
from duebook.flows.requests import read_http, read_request
from duebook.flows.section import Section, items, split_words, text_of
from duebook.flows.variables import (
    check_value,
    readable,
    value_template,
    walk,
)
from duebook.flows.words import CALL, HUMAN
from duebook.ids import check_name, is_name
from duebook.model.flow import Container, FlowTarget, HumanTask, Script
from duebook.model.target import CommandTarget, EventTarget, TaskTarget, load_target

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.flows.parse import Node
    from duebook.flows.references import Scope
    from duebook.model.flow import StepTarget

__all__ = ["likely_flow", "read_action", "read_in_docker", "written_action"]

KINDS: Final = (
    *("run", "command", "script", "exec", "task", "http", "event"),
    *("call", "action", "executor", "type"),
)
MEANINGS: Final = (
    *({"run"}, {"command"}, {"script"}, {"command", "script"}, {"exec"}, {"task"}, {"http"}),
    *({"event"}, {"call"}, {"action"}),
)
"""The sets of keys that define what a step runs."""
DAG_RUN: Final = "dag.run"
"""The action of Dagu 2 that runs another flow."""
NOOP: Final = "noop"
HUMAN_TASK: Final = "human.task"
ACTIONS: Final = {
    DAG_RUN: "`dag: NAME`",
    "exec": "`command: PROGRAM`",
    "http.request": "`method` and `url`",
    HUMAN_TASK: "`prompt: TEXT`",
    "jq.filter": "`filter` and `data`",
    "mail.send": "`to`, `subject` and `message`",
    "template.render": "`template` and `data`",
}
"""The other actions, with the keys that each requires below `with`."""
DOCKER: Final = frozenset({"docker", "docker.run", "container.run"})
EXECUTORS: Final = {"jq": "jq.filter", "mail": "mail.send"}
"""The executors of Dagu 1 that are actions now."""
_PLACEHOLDER: Final = TaskTarget("refused")
_COMMANDS: Final = frozenset({"command", "exec", "run", "script"})
_BESIDE: Final = {
    "payload": frozenset({"task"}),
    "params": frozenset({"call"}),
    "config": frozenset({"action", "executor", "run", "type"}),
    **dict.fromkeys(("shell", "shell_args"), _COMMANDS - {"exec"}),
    **dict.fromkeys(("container", "outputs"), _COMMANDS),
    **dict.fromkeys(("working_dir", "stdout", "stderr"), _COMMANDS | {"action"}),
}
"""Keys that need one of these other keys beside them."""
_FOR_NO_PERSON: Final = (
    *("env", "worker_selector", "retry_policy", "retries", "output"),
    *("working_dir", "stdout", "stderr"),
)
"""Keys that have no effect in a step that waits for a person."""
_KINDS: Final = frozenset({"executor", "type", "action"})
_CALLS: Final = "run is a command; to run a flow, write `call: NAME`"


def read_action(
    section: Section, scope: Scope, shell: tuple[str, ...], local: Callable[[str], str]
) -> tuple[StepTarget, dict[str, Any]]:
    """The target of a step and its payload. `local` finds the flow that a name in the file means.

    Anything wrong becomes a problem of the section, and the target is then a placeholder.
    """
    kinds = [kind for kind in KINDS if kind in section]
    if "executor" in kinds and "type" in kinds:
        section.problem(section.node, "type", "executor and type mean the same", "keep one of them")
    main = [kind for kind in kinds if kind not in ("executor", "type")]
    if len(kinds) > len(main):
        return _executor(section, scope, shell, main)
    if set(main) not in MEANINGS:
        if main or section.is_whole:  # else it is misspelt, which is already reported
            told = f"it has {' and '.join(main)}" if main else "it does not run anything"
            hint = "a step needs exactly one of run, command, script, exec, task, http, event, call"
            section.problem(section.node, "", told, hint)
        return _PLACEHOLDER, {}
    _refuse_strays(section, main)
    node = section.get(main[0]) or section.node
    if main == ["action"]:
        return section.judge(node, "action", (_PLACEHOLDER, {}), _action, section, scope, local)
    target = section.judge(
        node, main[0], _PLACEHOLDER, _read_main, section, main[0], node, scope, shell, local
    )
    return target, _payload(section, scope) if "task" in main else {}


def _read_main(
    section: Section,
    kind: str,
    node: Node,
    scope: Scope,
    shell: tuple[str, ...],
    local: Callable[[str], str],
) -> StepTarget:
    match kind:
        case "run":
            return read_run(section, node, scope, shell)
        case "exec":
            return read_exec(section, node, scope)
        case "task":
            return load_target({"task": plain(node)})
        case "http":
            return read_request(plain(node), scope)
        case "event":
            return _event(plain(node), scope)
        case "call":
            return _flow("call", plain(node), _call_params(section, scope), local)
        case _:
            return read_command(section, scope, shell)


def _action(
    section: Section, scope: Scope, local: Callable[[str], str]
) -> tuple[StepTarget, dict[str, Any]]:
    """Read one of the actions of Dagu 2, with the keys below `with`."""
    node, config = section.get("action"), section.get("config")
    assert node is not None  # noqa: S101 - the caller has checked
    name = plain(node)
    if name == NOOP:
        return Script(":", SHELL), {}
    if name not in ACTIONS:
        known = ", ".join((*ACTIONS, "docker.run", NOOP))
        raise Invalid(f"action {quoted(name)} is not supported; use run, or one of {known}")
    if config is None and name == DAG_RUN:
        raise Invalid(f"action {DAG_RUN} does not name a flow; add `with: {{dag: NAME}}`")
    if config is None:
        raise Invalid(f"action {name} needs its options; add `with:` and {ACTIONS[name]}")
    if name == DAG_RUN:
        inner = Section(config, section.at("config"), section.problems, CALL)
        called = inner.read("dag", text_of, "")
        return _flow("dag", called, _call_params(inner, scope), local), {}
    if name == HUMAN_TASK:
        return _human_task(section, config, scope), {}
    if name == "exec":
        return read_exec(section, config, scope), {}
    if name == "http.request":
        return read_http(section, config, scope), {}
    return read_builtin(name, section, config, scope)


def read_in_docker(section: Section, scope: Scope) -> tuple[Inside, StepTarget] | None:
    """A step with `type: docker` or `action: docker.run`: its container and its command."""
    if not section.has_any(_KINDS):
        return None
    node = section.get("executor") or section.get("type") or section.get("action")
    assert node is not None  # noqa: S101 - the section has one of them
    kind, config = node.value, section.get("config")
    if isinstance(kind, dict):
        config, kind = kind.get("config"), plain(kind["type"]) if "type" in kind else None
    if kind not in DOCKER:
        return None
    nothing = Inside(Container(image="refused")), _PLACEHOLDER
    return section.judge(node, "executor", nothing, _in_docker, section, config, scope)


def _in_docker(section: Section, config: Node | None, scope: Scope) -> tuple[Inside, StepTarget]:
    if config is None:
        raise Invalid("docker needs its options; add `with:` and `image: NAME`")
    inside, command = read_docker(section, config, scope)
    if command is not None:
        section.inherit("command", command)
    if "command" not in section and "script" not in section:
        raise Invalid("docker has no command; add `command: PROGRAM`")
    return inside, read_command(section, scope, inside.shell)


def _executor(
    section: Section, scope: Scope, shell: tuple[str, ...], main: list[str]
) -> tuple[StepTarget, dict[str, Any]]:
    """A step with the `executor` or `type` of Dagu 1."""
    node = section.get("executor") or section.get("type") or section.node
    config, kind = section.get("config"), node.value
    if isinstance(kind, dict):
        config, kind = kind.get("config"), plain(kind["type"]) if "type" in kind else None
    plain_kind = kind in ("command", "shell", "") and config is None
    if plain_kind and set(main) <= {"command", "script"}:
        return section.judge(node, "", _PLACEHOLDER, read_command, section, scope, shell), {}
    if kind == "http":
        made = section.judge(node, "executor", _PLACEHOLDER, read_http, section, config, scope)
        return made, {}
    if kind in EXECUTORS:
        nothing: tuple[StepTarget, dict[str, Any]] = (_PLACEHOLDER, {})
        return section.judge(
            node, "executor", nothing, read_builtin, EXECUTORS[kind], section, config, scope
        )
    told = f'executor type "{shorten(kind)}" is not supported'
    section.problem(node, "executor", told, "run a program that does it")
    return _PLACEHOLDER, {}


def likely_flow(section: Section, local: Callable[[str], str]) -> str | None:
    """The flow that a `run` of one word would call if it were not a command."""
    node = section.get("run")
    if node is None or not isinstance(node.value, str):
        return None
    name = _without_ending(node.value.strip())
    return local(name) if is_name(name) else None


def written_action(section: Section, target: StepTarget) -> str:
    """What a step runs, in the words of its file, for display."""
    if isinstance(target, Script):
        if (run := section.get("run")) is not None:
            return "; ".join(commands_of(run))
        node = section.get("script") or section.get("command")
        if node is not None and isinstance(node.value, list):
            return "; ".join(commands_of(node))
        return str(target) if node is None else text_of("command", plain(node))
    node = section.get("command")
    if isinstance(target, CommandTarget) and node is not None and isinstance(node.value, list):
        return shlex.join(text_of("command", plain(item)) for item in node.value)
    return readable(str(target))


def _refuse_strays(section: Section, main: list[str]) -> None:
    """Report keys that have an effect only beside another key."""
    for key, beside, node in section.among(_BESIDE):
        if beside.isdisjoint(main):
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
    return dict(section.judge(node, "payload", {}, walk, value, replace(scope, secrets=True)))


def _human_task(section: Section, config: Node, scope: Scope) -> HumanTask:
    inner = Section(config, section.at("config"), section.problems, HUMAN)
    prompt = inner.read("prompt", text_of, "")
    if not prompt.strip():
        raise Invalid(f"action {HUMAN_TASK} asks nothing; add `with: {{prompt: TEXT}}`")
    for key in _FOR_NO_PERSON:
        if (node := section.get(key)) is not None:
            told = f"{key} has no effect for a step that waits for a person"
            section.problem(node, key, told, "leave it out")
    return HumanTask(value_template(prompt, scope))


def _event(form: Any, scope: Scope) -> EventTarget:
    """An event whose strings are templates, except its topic."""
    target = load_target({"event": walk(form, scope)})
    assert isinstance(target, EventTarget)  # noqa: S101 - because of its form
    check_value(target.topic, scope, "event topic")
    return target


def _flow(key: str, given: Any, params: dict[str, Any], local: Callable[[str], str]) -> FlowTarget:
    name = _without_ending(given).rpartition("/")[2] if isinstance(given, str) else ""
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
    for item in items(node):
        if isinstance(item.value, dict):
            found |= {name: walk(plain(value), scope) for name, value in item.value.items()}
            continue
        for word in split_words("params", plain(item)):
            name, equals, value = word.partition("=")
            if not equals:
                name, value = str(1 + len(found)), word
            found[name] = walk(value, scope)
    return found
