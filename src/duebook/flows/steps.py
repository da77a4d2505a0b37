"""Reads the steps of a flow: first all names and their order, then the rest of each step."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, quoted, shorten
from duebook.flows.actions import DAG_RUN, likely_flow, read_action, read_in_docker, written_action
from duebook.flows.bash_only import condition_for
from duebook.flows.builtin_steps import is_mail
from duebook.flows.commands import read_shell
from duebook.flows.computed import take_commands
from duebook.flows.containers import read_container
from duebook.flows.each import ITEM
from duebook.flows.outputs import read_file, read_outputs
from duebook.flows.parse import Node, plain
from duebook.flows.patterns import check_pattern
from duebook.flows.requests import request_timeout
from duebook.flows.section import Section, items, read_description, text_of, whole_of
from duebook.flows.timing import read_codes, read_repeat, read_retry, read_seconds
from duebook.flows.values import check_variable, read_env, read_labels_of
from duebook.flows.variables import fixed_shell_text, loose_in, value_template, walk
from duebook.flows.words import CONDITION, CONTINUE, OUTPUT, PARALLEL, REPEAT, RETRY, STEP
from duebook.lazy_dataclasses import dataclass
from duebook.model.fields import read_flag
from duebook.model.flow import (
    Condition,
    ContinueOn,
    FlowTarget,
    HumanTask,
    Parallel,
    Script,
    Step,
)
from duebook.model.retry import Retry
from duebook.model.stopping import DEFAULT_SIGNAL, read_stop_signal
from duebook.model.target import CommandTarget, EventTarget
from duebook.targets.programs import steers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duebook.flows.containers import Inside
    from duebook.flows.problems import Problems
    from duebook.flows.references import Scope
    from duebook.model.flow import Computed, NamedOutput, StepTarget
    from duebook.model.repeat import Repeat

__all__ = [
    "Defaults",
    "Draft",
    "draft_step",
    "draft_steps",
    "finish",
    "read_conditions",
    "read_variables",
]

_NAME: Final = re.compile(r"[^\\{}$`]{1,100}")
_FILES: Final = frozenset({"stdout", "stderr"})
_TEXTS: Final = frozenset({"command", "run"})
_COMMANDS: Final = frozenset({"command", "exec", "run", "script"})
_WHOLE_COMMAND: Final = re.compile(r"`([^`]+)`|\$\(([^()]+)\)")


@dataclass(slots=True)
class Draft:
    """A step whose name, dependencies and output are known; the rest is not read yet."""

    section: Section
    name: str
    id: str | None
    depends: list[tuple[str, Node]] | None
    """None: the step does not declare any"""
    output: str | None
    outputs: tuple[NamedOutput, ...]
    row: int
    """steps of a list within the list share one row"""
    kind: str = ""
    """the start of the name that Dagu gives to a step without one"""
    title: str = ""
    """the name to display, if it differs from the real one"""


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a flow sets for all of its steps."""

    shell: tuple[str, ...]
    working_dir: Node | None
    workers: tuple[tuple[str, str], ...]
    local: Callable[[str], str]
    container: Inside | None = None
    smtp: Mapping[str, Any] | None = None
    values: Section | None = None
    """the section of its `defaults`"""


def draft_steps(node: Node, problems: Problems) -> list[Draft]:
    """The steps of a list or a mapping, in the order of the file."""
    if isinstance(node.value, dict):
        return [
            draft_step(item, f"steps.{name}", problems, name, row)
            for row, (name, item) in enumerate(node.value.items())
        ]
    if not isinstance(node.value, list):
        told = f"steps {quoted(plain(node))} is not a list or a mapping of steps"
        problems.add(node, "steps", told, "add lines such as `- command` below it")
        return []
    drafts: list[Draft] = []
    for row, item in enumerate(node.value):
        nested = isinstance(item.value, list)
        for place, part in enumerate(items(item)):
            path = f"steps[{row}][{place}]" if nested else f"steps[{row}]"
            drafts.append(draft_step(part, path, problems, f"step-{len(drafts) + 1}", row))
    return drafts


def draft_step(node: Node, path: str, problems: Problems, name: str, row: int = 0) -> Draft:
    """One step; a string by itself is its command."""
    if isinstance(node.value, str):
        key = Node("command", node.line, node.column)
        node = Node({"command": node}, node.line, node.column, keys={"command": key})
    section = Section(node, path, problems, STEP)
    own = section.read("id", _step_name, None)
    return Draft(
        section,
        section.read("name", _step_name, own or name),
        own,
        _depends(section),
        _output(section),
        read_outputs(section) if "outputs" in section else (),
        row,
        "script" if "script" in section else "cmd" if section.has_any(_TEXTS) else "",
    )


def _step_name(key: str, value: Any) -> str:
    text = text_of(key, value)
    if _NAME.fullmatch(text) and text.isprintable() and text == text.strip():
        return text
    raise Invalid(
        f'{key} "{shorten(text)}" is not a name of 1 to 100 characters without backslashes, '
        'backquotes, braces and "$"'
    )


def _depends(section: Section) -> list[tuple[str, Node]] | None:
    node = section.get("depends")
    if node is None:
        return None
    found = []
    for item in items(node):
        name = section.judge(item, "depends", "", text_of, "depends", plain(item))
        if name:
            found.append((name, item))
    return found


def _output(section: Section) -> str | None:
    node = section.get("output")
    if node is None:
        return None
    inner: Node | None = node
    if isinstance(node.value, dict):
        if "name" not in node.value:
            told = "output as a mapping of values is not supported"
            section.problem(node, "output", told, "parse it in the next step")
            return None
        inner = Section(node, section.at("output"), section.problems, OUTPUT).get("name")
    if inner is None:
        return None
    return section.judge(inner, "output", None, _output_name, plain(inner))


def _output_name(value: Any) -> str:
    name = text_of("output", value)
    return check_variable(name.removeprefix("${").removesuffix("}").lstrip("$"), "output")


def finish(draft: Draft, depends: tuple[str, ...], scope: Scope, defaults: Defaults) -> Step:
    """The whole step; anything wrong becomes a problem of its section."""
    section = draft.section
    says_signal = "signal_on_stop" in section
    if defaults.working_dir is not None and _takes_directory(draft):
        section.inherit("working_dir", defaults.working_dir)
    if defaults.values is not None:
        _inherit(section, defaults.values)
    env, scope = read_variables(section, scope)
    parallel = _parallel(section, scope)
    if parallel is not None:
        scope = replace(scope, params=scope.params | {ITEM})
    inside: Inside | None
    docker = read_in_docker(section, scope)
    if docker is not None:
        inside, (target, payload) = docker[0], (docker[1], dict[str, Any]())
    else:
        inside = _container(section, scope, defaults)
        shell = read_shell(section, defaults.shell) if inside is None else inside.shell
        target, payload = read_action(section, scope, shell, defaults.local)
    if is_mail(target) and defaults.smtp is not None:
        payload = {**payload, "smtp": dict(defaults.smtp)}
    if parallel is not None and not isinstance(target, FlowTarget):
        told = "parallel is for steps that call a flow"
        section.problem(section.node, "parallel", told, "put the command in a flow and call it")
    conditions = read_conditions(section, scope)
    if isinstance(target, FlowTarget):
        _check_call(section, conditions)
    prints = section.has_any(_FILES)
    timeout = section.read("timeout_sec", read_seconds, None) or request_timeout(section)
    workers = read_labels_of(section, "worker_selector")
    return Step(
        name=draft.name,
        target=target,
        depends=depends,
        id=draft.id,
        description=section.read("description", read_description, draft.title),
        payload=payload,
        env=env,
        retry=_retry(section),
        parallel=parallel,
        repeat=_repeat(section, target, scope, draft.name),
        timeout=timeout or None,
        preconditions=conditions,
        continue_on=_continue_on(section),
        output=draft.output,
        outputs=draft.outputs,
        stdout=read_file(section, "stdout", scope) if prints else None,
        stderr=read_file(section, "stderr", scope) if prints else None,
        container=None if inside is None else inside.container,
        workers=workers or defaults.workers,
        written=written_action(section, target),
        stop_signal=_stop_signal(section, target, says_signal),
        likely_flow=likely_flow(section, defaults.local),
    )


def _inherit(section: Section, defaults: Section) -> None:
    """Apply the flow's settings for all steps. Those of a step replace them, but variables and
    conditions of the flow come before the step's own. A step that calls a flow takes no settings
    for processes."""
    calls = "call" in section or plain(section.get("action") or Node("", 0, 0)) == DAG_RUN
    for key in ("retry_policy", "continue_on", "timeout_sec", "signal_on_stop"):
        node = defaults.get(key)
        replaced = "retries" in section if key == "retry_policy" else False
        if node is not None and not replaced and not (calls and key == "timeout_sec"):
            section.inherit(key, node)
    for key in ("env", "preconditions"):
        node, own = defaults.get(key), section.get(key)
        if node is not None and not (calls and key == "env"):
            both = [*items(node), *([] if own is None else items(own))]
            section.replace(key, Node(both, node.line, node.column))


def _container(section: Section, scope: Scope, defaults: Defaults) -> Inside | None:
    """Only commands run in the container of the flow."""
    if defaults.container is None and "container" not in section:
        return None
    if not section.has_any(_COMMANDS) or "executor" in section or "type" in section:
        return None
    return read_container(section, scope, defaults.container)


def _retry(section: Section) -> Retry | None:
    attempts = section.read("retries", whole_of(0, 999), None)
    if "retry_policy" not in section:
        return None if attempts is None else Retry(attempts + 1)
    if (node := section.get("retries")) is not None:
        section.problem(node, "retries", "retries and retry_policy mean the same", "keep one")
    return read_retry(_inner(section, "retry_policy", RETRY))


def _repeat(section: Section, target: StepTarget, scope: Scope, step: str) -> Repeat | None:
    """The condition of a repetition may name what the step itself printed."""
    if "repeat_policy" not in section:
        return None
    scope = replace(scope, before=scope.before | {step})
    inner = _inner(section, "repeat_policy", REPEAT)
    for key in ("retry_policy", "retries"):
        if (node := section.get(key)) is not None:
            told = f"{key} and repeat_policy cannot be combined"
            section.problem(node, key, told, "use repeat: until, which repeats after a failure")
    if isinstance(target, FlowTarget | EventTarget | HumanTask):
        told = "repeat_policy is for steps that run a command, a task or a request"
        section.problem(inner.node, "repeat_policy", told, "put it on a step of the called flow")
    found = section.judge(inner.node, "repeat_policy", None, _repeat_condition, inner, scope)
    return read_repeat(inner, found)


def _repeat_condition(inner: Section, scope: Scope) -> Condition | None:
    if "condition" not in inner:
        return None
    return _tested(inner, scope)


def _parallel(section: Section, scope: Scope) -> Parallel | None:
    node = section.get("parallel")
    if node is None:
        return None
    if not isinstance(node.value, dict):
        return Parallel(section.judge(node, "parallel", [], walk, plain(node), scope))
    inner = _inner(section, "parallel", PARALLEL)
    items = inner.get("items")
    if items is None:
        inner.problem(inner.node, "items", "parallel has no items", "add items: [a, b]")
        return Parallel([])
    limit = inner.read("max_concurrent", whole_of(1, 1_000), 10)
    return Parallel(inner.judge(items, "items", [], walk, plain(items), scope), limit)


def _takes_directory(draft: Draft) -> bool:
    return draft.section.has_any(_COMMANDS)


def _inner(section: Section, key: str, table: Any) -> Section:
    node = section.get(key)
    assert node is not None  # noqa: S101 - the caller has checked
    return Section(node, section.at(key), section.problems, table)


def read_variables(
    section: Section, scope: Scope, commands: list[Computed] | None = None
) -> tuple[tuple[tuple[str, str], ...], Scope]:
    """Those of `env` as templates, and the scope of what may name them; with a list, to which they
    are added, their texts may have commands. That list is for a flow's own, over which its params
    win."""
    found = []
    winning = frozenset[str]() if commands is None else scope.params
    for name, node, written in read_env(section):
        section.problems.go_on()
        text = written
        own = replace(scope, secrets=not steers(name))
        if commands is not None:
            text = section.judge(
                node, f"env.{name}", "", take_commands, text, name, scope, commands
            )
        made = section.judge(node, f"env.{name}", "", value_template, text, own)
        if steers(name) and (value := loose_in(made, scope)) is not None:
            told = (
                f'env {name} names "{shorten(value)}", which anyone who starts the flow can change'
            )
            hint = f"{name} decides which programs run; write its value literally"
            section.problem(node, f"env.{name}", told, hint)
        found.append((name, made))
        scope = _with_variable(scope, name, made, winning)
    return tuple(found), scope


def _with_variable(scope: Scope, name: str, template: str, winning: frozenset[str]) -> Scope:
    """A scope with one more variable, which records whether others can change it: always, if it has
    the name of a param that wins over it."""
    if loose_in(template, scope) is not None:
        return replace(scope, derived=scope.derived | {name})
    return replace(
        scope, derived=scope.derived - {name}, shadowed=scope.shadowed | ({name} - winning)
    )


def _stop_signal(section: Section, target: StepTarget, says_so: bool) -> str | None:
    """Only processes get a signal; the flow's setting for all steps ignores other steps."""
    if "signal_on_stop" not in section:
        return None
    found = section.read("signal_on_stop", read_stop_signal, DEFAULT_SIGNAL)
    if isinstance(target, CommandTarget | Script):
        return None if found == DEFAULT_SIGNAL else found
    if says_so and found != DEFAULT_SIGNAL:
        calls = isinstance(target, FlowTarget)
        hint = "put it on the steps of that flow" if calls else "remove it"
        told = "signal_on_stop is for steps that run a command"
        at = section.get("signal_on_stop") or section.node
        section.problem(at, "signal_on_stop", told, hint)
    return None


def _check_call(section: Section, conditions: tuple[Condition, ...]) -> None:
    """Such a step has no process, so settings for one are refused."""
    for key in ("env", "timeout_sec", "worker_selector"):
        if (node := section.get(key)) is not None:
            told = f"{key} has no effect for a step that runs a flow"
            section.problem(node, key, told, "put it in that flow")
    node = section.get("preconditions")
    if node is not None and any(condition.is_command for condition in conditions):
        told = "a step that runs a flow cannot have a command as its condition"
        section.problem(node, "preconditions", told, "put it in that flow, or in an earlier step")


def _continue_on(section: Section) -> ContinueOn:
    node = section.get("continue_on")
    if node is None:
        return ContinueOn()
    if isinstance(node.value, str):
        if (found := node.value.lower()) in ("failed", "failure", "skipped"):
            return ContinueOn(failure=found != "skipped", skipped=found == "skipped")
        told = f'continue_on "{shorten(node.value)}" is not one of failed, skipped'
        section.problem(node, "continue_on", told)
        return ContinueOn()
    inner = _inner(section, "continue_on", CONTINUE)
    return ContinueOn(
        failure=inner.read("failure", read_flag, default=False),
        skipped=inner.read("skipped", read_flag, default=False),
        exit_codes=inner.read("exit_code", read_codes, ()),
        output=inner.read("output", _patterns, ()),
        mark_success=inner.read("mark_success", read_flag, default=False),
    )


def _patterns(key: str, value: Any) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    return tuple(_pattern(key, item) for item in values)


def _pattern(key: str, value: Any) -> str:
    return check_pattern(text_of(key, value))


def read_conditions(section: Section, scope: Scope) -> tuple[Condition, ...]:
    node = section.get("preconditions")
    if node is None:
        return ()
    found = []
    for place, item in enumerate(items(node)):
        key = f"preconditions[{place}]"
        found.append(section.judge(item, key, None, _condition, section, item, key, scope))
    return tuple(condition for condition in found if condition is not None)


def _condition(section: Section, node: Node, key: str, scope: Scope) -> Condition:
    if not isinstance(node.value, dict):
        return Condition(_condition_command(text_of("condition", plain(node)), scope), True)
    inner = Section(node, section.at(key), section.problems, CONDITION)
    return _tested(inner, scope, inner.read("negate", read_flag, default=False))


def _tested(inner: Section, scope: Scope, negate: bool = False) -> Condition:
    """The keys `condition` and `expected` of a mapping."""
    text = inner.read("condition", text_of, "").strip()
    if "eval" in inner:
        if text or "expected" not in inner:
            raise Invalid("eval needs `expected`, and takes the place of `condition`")
        text = inner.read("eval", text_of, "").strip()
    if not text:
        raise Invalid("a condition is missing, such as ${NAME}")
    if "expected" not in inner:
        return Condition(_condition_command(text, scope), True, None, negate)
    expected = inner.read("expected", _pattern, "")
    if not expected.startswith("re:"):
        expected = value_template(expected, scope)
    if command := _WHOLE_COMMAND.fullmatch(text):
        inside = command[1] or command[2]
        return Condition(_condition_command(inside, scope), True, expected, negate)
    return Condition(value_template(text, scope), False, expected, negate)


def _condition_command(text: str, scope: Scope) -> str:
    if not text.strip():
        raise Invalid("a condition is empty")
    made, values = fixed_shell_text(text, scope)
    if values:
        raise Invalid(
            f'"{shorten(text)}" contains a template or a part of a value, which is not allowed '
            "in the command of a condition; use `expected`"
        )
    return condition_for(made)
