"""What a reference such as ${NAME} or ${steps.build.outputs.tag} means within a flow; pure."""

from __future__ import annotations

import re
from dataclasses import field
from typing import TYPE_CHECKING, Final

from duebook.errors import Invalid, shorten
from duebook.flows.problems import did_you_mean
from duebook.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Scope",
    "check_name",
    "check_step",
    "exit_code_variable",
    "expression_of",
    "identifier",
    "is_scoped",
]

NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_PATH: Final = re.compile(r"\.([A-Za-z_][A-Za-z0-9_-]*|[0-9]+)|\[([0-9]+)\]")
BRACED: Final = re.compile(r"([^.\[\]]+)((?:\.(?:[A-Za-z_][A-Za-z0-9_-]*|[0-9]+)|\[[0-9]+\])*)")
_MISSING: Final = {
    **dict.fromkeys(
        ("DAG_RUN_LOG_FILE", "DAG_RUN_STEP_STDOUT_FILE", "DAG_RUN_STEP_STDERR_FILE"),
        "the output of a step is kept with its run, not in a file",
    ),
    "ITEM": "only a step with `parallel` has it",
    "DAG_PARAMS_JSON": "list the params one by one",
    "DAG_RUN_ARTIFACTS_DIR": "artifacts are not supported",
    "DAG_RUN_WORK_DIR": "use working_dir",
}
_FACTS: Final[dict[str, frozenset[str] | None]] = {
    "schedule": frozenset({"id", "name", "due_at", "tz"}),
    "run": frozenset({"id", "origin", "trigger"}),
    "flow": frozenset({"name", "status"}),
    "step": frozenset({"name"}),
    **dict.fromkeys(("due_at", "now", "namespace", "user", "requested_by"), frozenset()),
    "interval": frozenset({"start", "end"}),
    "env": None,
    "vars": None,
    "data": None,
    "files": None,
    "computed": None,
}

_DEFAULT: Final = re.compile(rf"({NAME}):-([^{{}}]*)")
_CONTEXT: Final = {
    "dag.name": "flow.name",
    "run.id": "run.id",
    "run.status": "flow.status",
    "step.name": "step.name",
}
"""Dagu 2's ${context.…}, with the names that templates use."""
NAMESPACES: Final = frozenset(
    {"params", "env", "context", "dag", "run", "step"}
    | {"attempt", "trigger", "paths", "profile", "pushback", "consts", "foreach"}
)
"""First parts of references that do not name a value by themselves."""
_ENDS: Final = ("output", "exit_code", "status")


@dataclass(frozen=True, slots=True)
class Scope:
    """The names that the strings of one step may use."""

    params: frozenset[str] = frozenset()
    derived: frozenset[str] = frozenset()
    """variables of `env` that contain params or outputs"""
    shadowed: frozenset[str] = frozenset()
    """variables of the step's own `env` that contain none, and hide params and outputs"""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """variable -> the step that sets it; of several the last"""
    holders: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """variable -> all steps that set it"""
    steps: Mapping[str, str] = field(default_factory=dict)
    """name, id or identifier -> step"""
    before: frozenset[str] = frozenset()
    """the steps that have ended when this one starts"""
    keeping: frozenset[str] = frozenset()
    """the steps that have an output"""
    publishing: frozenset[str] = frozenset()
    """the steps whose output is a mapping of named values"""
    declared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """the names of these values, for steps that declare them"""
    places: int = 0
    """the highest position of a param without a name; 0: all have names"""
    secrets: bool = False
    """whether they may name secrets: they are executed, and neither stored nor logged"""

    @property
    def known(self) -> dict[str, frozenset[str] | None]:
        steps = frozenset(name for name in self.steps if name.isidentifier())
        known = {**_FACTS, "params": self.params, "steps": steps}
        return {**known, "secret": None} if self.secrets else known


def identifier(name: str) -> str:
    """The name of a step in the form that templates can use."""
    return re.sub(r"\W", "_", name, flags=re.ASCII)


def exit_code_variable(step: str) -> str:
    return f"{identifier(step).upper()}_EXIT_CODE"


def expression_of(reference: str, scope: Scope) -> str:
    """The expression for a reference within a template tag; raises Invalid."""
    if (found := _with_default(reference, scope)) is not None:
        return found
    match = BRACED.fullmatch(reference)
    if match is None or (not match[2] and not re.fullmatch(NAME, reference)):
        raise Invalid(
            f'"${{{shorten(reference)}}}" is more than a name; only a shell can expand it'
        )
    head, path = match[1], match[2]
    check_name(head, scope)
    if not path:
        return f'vars["{head}"]'
    if head == "steps":
        first = _PATH.match(path)
        assert first is not None  # noqa: S101 - BRACED requires it
        return _step_part(first[1] or "", path[first.end() :], reference, scope)
    if head in scope.outputs and path == ".file":
        return f'files["{head}"]'
    if head in scope.outputs or head in scope.params:
        return f'data["{head}"]{_accesses(_of_called(head, path, scope))}'
    if head in scope.steps:
        return _step_part(head, path, reference, scope)
    if head in NAMESPACES:
        return _scoped(head, path, reference, scope)
    hint = did_you_mean(head, [*scope.outputs, *scope.params, *scope.steps])
    told = f'"${{{shorten(reference)}}}" is not a param, output or step'
    raise Invalid(f"{told}; {hint}" if hint else told)


def is_scoped(reference: str, scope: Scope) -> bool:
    """Whether it has a namespace of Dagu 2, whose values are filled in even in single quotes."""
    head = reference.partition(".")[0]
    own = head in scope.outputs or head in scope.params or head in scope.steps
    return "." in reference and (head == "steps" or (head in NAMESPACES and not own))


def _with_default(reference: str, scope: Scope) -> str | None:
    """`${NAME:-text}`, as a shell expands it: the text if the variable is empty or not set."""
    match = _DEFAULT.fullmatch(reference)
    if match is None:
        return None
    check_name(match[1], scope)
    if re.search(r"[\\\"$`]", match[2]):
        raise Invalid(
            f'the default of "${{{shorten(reference)}}}" contains a quote, a backslash or another '
            "value; write plain text after `:-`"
        )
    return f'vars["{match[1]}"] or "{match[2]}"'


def _of_called(output: str, path: str, scope: Scope) -> str:
    """For a variable with what a called flow returned, `.outputs.X` means X."""
    if scope.outputs.get(output) in scope.publishing:
        return re.sub(r"^\.outputs(?=[.\[])", "", path)
    return path


def _scoped(head: str, path: str, reference: str, scope: Scope) -> str:
    """A reference with a namespace of Dagu 2: params, env, or context and its short forms."""
    names = path.lstrip(".").split(".")
    if head == "params":
        if len(names) == 1 and names[0] in scope.params:
            return f'params["{names[0]}"]'
        hint = did_you_mean(names[0], scope.params)
        told = f'"${{{shorten(reference)}}}" is not a param'
        raise Invalid(f"{told}; {hint}" if hint else told)
    if head == "env":
        if len(names) == 1 and re.fullmatch(NAME, names[0]):
            check_name(names[0], scope)
            return f'vars["{names[0]}"]'
        raise Invalid(f'"${{{shorten(reference)}}}" is not the name of a variable')
    fact = ".".join(names if head == "context" else [head, *names])
    if fact not in _CONTEXT:
        known = ", ".join(f"context.{name}" for name in _CONTEXT)
        raise Invalid(f'"${{{shorten(reference)}}}" is not supported; use one of {known}')
    return _CONTEXT[fact]


def check_name(name: str, scope: Scope) -> None:
    if name in _MISSING and name not in scope.params and name not in scope.outputs:
        raise Invalid(f'"${{{name}}}" is not supported; {_MISSING[name]}')
    step = scope.outputs.get(name)
    if step is not None and scope.before.isdisjoint(scope.holders.get(name, (step,))):
        raise Invalid(
            f'"${{{name}}}" is the output of "{shorten(step)}", which does not run '
            "before this step; add it to depends"
        )


def _step_part(name: str, path: str, reference: str, scope: Scope) -> str:
    part = _PATH.match(path)
    told = identifier((part[1] or "") if part else "")
    told = {"exitCode": "exit_code"}.get(told, told)
    found = scope.steps.get(name, name)
    if told == "outputs" and part is not None:
        named = _published(found, path[part.end() :], reference, scope)
        return f"steps[{literal(found)}].output{named}"
    if told not in _ENDS or part is None:
        hint = "its output is kept with its run" if told in ("stdout", "stderr") else ""
        shown = f'"${{{shorten(reference)}}}" is not supported; a step has {", ".join(_ENDS)}'
        raise Invalid(f"{shown}; {hint}" if hint else shown)
    return f"steps[{literal(found)}].{told}{_accesses(path[part.end() :])}"


def literal(name: str) -> str:
    """The name of a step as a string literal in a template, where backslashes have no meaning."""
    if '"' not in name:
        return f'"{name}"'
    return f"'{name}'" if "'" not in name else f'"{identifier(name)}"'


def _published(step: str, path: str, reference: str, scope: Scope) -> str:
    """A named output of a step; if its names are known, it must be one of them."""
    names = [match[1] or match[2] for match in _PATH.finditer(path)]
    if step in scope.steps.values() and step not in scope.publishing:
        raise Invalid(
            f'"{shorten(step)}" has no named outputs; add `outputs: [{{name: '
            f"{names[0] if names else 'NAME'}}}]` to it"
        )
    known = scope.declared.get(step)
    if names and known is not None and names[0] not in known:
        hint = did_you_mean(names[0], known) or f"it has {', '.join(known)}"
        raise Invalid(f'"${{{shorten(reference)}}}" is not an output of that step; {hint}')
    return _accesses(path)


def _accesses(path: str) -> str:
    parts = (match[1] or match[2] for match in _PATH.finditer(path))
    return "".join(f"[{part}]" if part.isdigit() else f'["{part}"]' for part in parts)


def check_step(name: str, part: str | None, scope: Scope) -> None:
    step = scope.steps.get(name)
    if step is None:
        hint = did_you_mean(name, scope.steps)
        told = f'steps: there is no step "{shorten(name)}"'
        raise Invalid(f"{told}; {hint}" if hint else told)
    if step not in scope.before:
        raise Invalid(f'"{shorten(step)}" does not run before this step; add it to depends')
    if part is not None and part not in _ENDS:
        raise Invalid(f'"steps.{name}.{part}" is unknown; a step has {", ".join(_ENDS)}')
    if part == "output" and step not in scope.keeping:
        raise Invalid(f'"{shorten(step)}" does not keep its output; add `output: NAME` to it')
