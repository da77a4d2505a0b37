"""References such as ${NAME} in the texts of a flow: what they mean, and which are refused.

In a value they become a template. In text for a shell they stay, for the shell finds them as
variables: no value is ever put into a text that something reads again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from duebook.errors import Invalid, shorten
from duebook.flows.problems import did_you_mean
from duebook.targets.expressions import check_template, is_template
from duebook.targets.filters import TemplateFailed
from duebook.targets.programs import Chosen
from duebook.targets.shell_words import refuse_shell_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "Scope",
    "check_script",
    "check_value",
    "exit_code_variable",
    "fixed_shell_text",
    "identifier",
    "is_loose",
    "loose_in",
    "named_variables",
    "part_variable",
    "readable",
    "reference_name",
    "shell_references",
    "shell_text",
    "value_template",
    "walk",
]

_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_TAG: Final = re.compile(r"\{\{|\{%")
_TAG_ENDS: Final = {"{{": "}}", "{%": "%}"}
_REFERENCE: Final = re.compile(
    rf"(?P<expression>\$\{{\{{)|(?P<command>\$\(|`)|\$\{{(?P<braced>[^{{}}]*)\}}"
    rf"|\$(?P<bare>{_NAME})|\$(?P<place>[0-9]+)"
)
_OWN_TAG: Final = re.compile(
    r"\{\{\s*((?:(?:params|steps|env|vars|data|flow|step|run|schedule)[.\[]|(?:due_at|now)\b)"
    r"[^{}]*)\}\}"
)
"""A template that names a value of the flow; other programs have such braces, too."""
_PATH: Final = re.compile(r"\.([A-Za-z_][A-Za-z0-9_-]*|[0-9]+)|\[([0-9]+)\]")
_BRACED: Final = re.compile(r"([^.\[\]]+)((?:\.(?:[A-Za-z_][A-Za-z0-9_-]*|[0-9]+)|\[[0-9]+\])*)")
_PLAIN_WORD: Final = r"[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*"
_PLAIN_PATH: Final = re.compile(rf"(?![0-9]){_PLAIN_WORD}(?:\.{_PLAIN_WORD}|\[[0-9]+\])*")
"""A path with which no other shares its variable."""
_STEP_PART: Final = re.compile(
    r"""\bsteps(?:\.([A-Za-z_][A-Za-z0-9_]*)|\[(?:"([^"]*)"|'([^']*)')\])(?:\.([A-Za-z_]\w*))?"""
)
_VARIABLE: Final = re.compile(r"""\b(?:vars|env)(?:\.(\w+)|\["([^"]*)"\]|\['([^']*)'\])""")
_MISSING: Final = {
    **dict.fromkeys(
        ("DAG_RUN_LOG_FILE", "DAG_RUN_STEP_STDOUT_FILE", "DAG_RUN_STEP_STDERR_FILE"),
        "the output of a step is kept with its run, not in a file",
    ),
    "ITEM": "`parallel` is not supported",
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
}
_FILE: Final = re.compile(r"""\{\{ files\["([^"]*)"\] \}\}""")
_LOOSE: Final = re.compile(
    r"\b(?:params|steps|data|env|vars|files|schedule|user|requested_by|run(?!\.id\b))\b(?:\.\w+)?"
)
"""Who starts a flow chooses these: an operator may give it a schedule of any name."""
_ENDS: Final = ("output", "exit_code", "status")


@dataclass(frozen=True, slots=True)
class Scope:
    """What the texts of one step may name."""

    params: frozenset[str] = frozenset()
    derived: frozenset[str] = frozenset()
    """variables of `env` that have params or outputs in them"""
    shadowed: frozenset[str] = frozenset()
    """variables of the step's own `env` that have none, and hide params and outputs"""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """variable -> the step that keeps it"""
    steps: Mapping[str, str] = field(default_factory=dict)
    """name, id or identifier -> step"""
    before: frozenset[str] = frozenset()
    """the steps that have ended when this one begins"""
    keeping: frozenset[str] = frozenset()
    """the steps that have an output"""
    places: int = 0
    """how many params are given by their place"""

    @property
    def known(self) -> dict[str, frozenset[str] | None]:
        steps = frozenset(name for name in self.steps if name.isidentifier())
        return {**_FACTS, "params": self.params, "steps": steps}


def identifier(name: str) -> str:
    """A step's name as templates may write it."""
    return re.sub(r"\W", "_", name, flags=re.ASCII)


def exit_code_variable(step: str) -> str:
    return f"{identifier(step).upper()}_EXIT_CODE"


def value_template(text: str, scope: Scope) -> str:
    """A value with its references as templates, checked; raises Invalid."""
    parts, place = [], 0
    for start, end in _tags(text):
        parts += [_expanded(text[place:start], scope), text[start:end]]
        place = end
    made = "".join(parts) + _expanded(text[place:], scope)
    if is_template(made):
        _check(made, scope)
    return made


def check_value(text: str, scope: Scope, what: str, hint: str = "") -> None:
    """A text on which nobody who starts the flow may have any influence; raises Invalid."""
    if (name := loose_in(text, scope)) is not None:
        told = f'{what} names "{shorten(name)}", which anyone who starts the flow can change'
        raise Invalid(f"{told}; {hint}" if hint else told)


def loose_in(text: str, scope: Scope) -> str | None:
    """What a template names on which those who start the flow have influence, if anything."""
    if not is_template(text):
        return None
    for name in named_variables(text):
        if is_loose(name, scope):
            return name
    tags = " ".join(text[start:end] for start, end in _tags(text))
    match = _LOOSE.search(_VARIABLE.sub("", tags))
    return None if match is None else match[0]


def named_files(template: str) -> list[str]:
    """The outputs of which a template names the file."""
    return [match[1] for match in _FILE.finditer(template)]


def named_variables(template: str) -> list[str]:
    """The variables that a template names."""
    return [
        "".join(names)
        for start, end in _tags(template)
        for names in _VARIABLE.findall(template, start, end)
    ]


def _tags(text: str) -> Iterator[tuple[int, int]]:
    """Where the tags of a template are; one without an end is none."""
    place = 0
    while (opened := _TAG.search(text, place)) is not None:
        end = text.find(_TAG_ENDS[opened[0]], opened.end())
        if end < 0:
            return
        place = end + 2
        yield opened.start(), place


def readable(text: str) -> str:
    """A text with its references as the file has them."""
    text = _FILE.sub(r"${\1.file}", text)
    text = re.sub(r"""\{\{ (?:vars|data)\["([^"]*)"\]([^ ]*) \}\}""", _written, text)
    return re.sub(r"""\{\{ steps\["([^"]*)"\]([^ ]*) \}\}""", _written, text)


def _written(match: re.Match[str]) -> str:
    path = re.sub(r"""\["([^"]*)"\]""", r".\1", match[2])
    return f"${{{match[1]}{path}}}"


def is_loose(name: str, scope: Scope) -> bool:
    """Whether those who start the flow have influence on a variable of its commands."""
    if name in scope.derived or name.startswith("DUEBOOK_"):
        return True
    if name.isdigit():
        return scope.places > 0
    return name not in scope.shadowed and (name in scope.params or name in scope.outputs)


def _expanded(text: str, scope: Scope) -> str:
    def replace(match: re.Match[str]) -> str:
        if match["expression"]:
            raise Invalid(_no_expression())
        if match["command"]:
            raise Invalid(
                f'"{shorten(text)}" contains a command, which is allowed only in commands and '
                "conditions; "
                "use a step with `output`"
            )
        if match["place"]:
            known = 1 <= int(match["place"]) <= scope.places
            return f'{{{{ vars["{match["place"]}"] }}}}' if known else match[0]
        expression = _expression(match["braced"] or match["bare"] or "", scope)
        return f"{{{{ {expression} }}}}"

    return _REFERENCE.sub(replace, text)


def _no_expression() -> str:
    return '"${{" is not supported; write ${NAME} in a command, and {{ params.NAME }} elsewhere'


def _expression(reference: str, scope: Scope) -> str:
    """What a reference is in a template."""
    match = _BRACED.fullmatch(reference)
    if match is None or (not match[2] and not re.fullmatch(_NAME, reference)):
        raise Invalid(
            f'"${{{shorten(reference)}}}" is more than a name; only a shell can expand it'
        )
    head, path = match[1], match[2]
    _check_name(head, scope)
    if head == "steps" and path:
        first = _PATH.match(path)
        assert first is not None  # noqa: S101 - _BRACED has it
        return _step_part(first[1] or "", path[first.end() :], reference, scope)
    if not path:
        return f'vars["{head}"]'
    if head in scope.outputs and path == ".file":
        return f'files["{head}"]'
    if head in scope.outputs or head in scope.params:
        return f'data["{head}"]{_accesses(path)}'
    if head in scope.steps:
        return _step_part(head, path, reference, scope)
    hint = did_you_mean(head, [*scope.outputs, *scope.params, *scope.steps])
    told = f'"${{{shorten(reference)}}}" is not a param, output or step'
    raise Invalid(f"{told}; {hint}" if hint else told)


def _check_name(name: str, scope: Scope) -> None:
    if name in _MISSING and name not in scope.params and name not in scope.outputs:
        raise Invalid(f'"${{{name}}}" is not supported; {_MISSING[name]}')
    step = scope.outputs.get(name)
    if step is not None and step not in scope.before:
        raise Invalid(
            f'"${{{name}}}" is the output of "{shorten(step)}", which does not run '
            "before this step; add it to depends"
        )


def _step_part(name: str, path: str, reference: str, scope: Scope) -> str:
    part = _PATH.match(path)
    told = identifier((part[1] or "") if part else "")
    told = {"exitCode": "exit_code"}.get(told, told)
    if told not in _ENDS or part is None:
        hint = "its output is kept with its run" if told in ("stdout", "stderr") else ""
        shown = f'"${{{shorten(reference)}}}" is not supported; a step has {", ".join(_ENDS)}'
        raise Invalid(f"{shown}; {hint}" if hint else shown)
    found = scope.steps.get(name, name)
    return f'steps["{found}"].{told}{_accesses(path[part.end() :])}'


def _accesses(path: str) -> str:
    parts = (match[1] or match[2] for match in _PATH.finditer(path))
    return "".join(f"[{part}]" if part.isdigit() else f'["{part}"]' for part in parts)


def _check(template: str, scope: Scope) -> None:
    try:
        check_template(template, scope.known)
    except TemplateFailed as error:
        raise Invalid(str(error)) from None
    for start, end in _tags(template):
        for match in _STEP_PART.finditer(template, start, end):
            _check_step(match[1] or match[2] or match[3], match[4], scope)


def _check_step(name: str, part: str | None, scope: Scope) -> None:
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


def fixed_shell_text(text: str, scope: Scope) -> tuple[str, tuple[tuple[str, str], ...]]:
    """As `shell_text`, where no value chooses what runs; raises Invalid otherwise."""
    made, values = shell_text(text, scope)
    templates = dict(values)

    def is_changed(name: str) -> bool:
        if name in templates:
            return loose_in(templates[name], scope) is not None
        return is_loose(name, scope)

    try:
        refuse_shell_text(made, is_changed, has_values=scope.places > 0)
    except Chosen as error:
        raise Invalid(_with_references(str(error), templates)) from None
    return made, values


def _with_references(told: str, templates: Mapping[str, str]) -> str:
    """What is told about variables that have templates, in the words of the file."""
    for name, template in templates.items():
        shown = readable(template)
        told = told.replace(f"${{{name}}}", shown).replace(f'"{name}"', f'"{shown}"')
    return told


def shell_text(text: str, scope: Scope) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Text for a shell, with parts of values and templates as variables: the text and those.

    A shell knows ${NAME}, but neither ${NAME.part} nor {{ params.NAME }}. Raises Invalid.
    """
    values: dict[str, str] = {}
    pieces, place = [], 0
    for match, quote in shell_references(text):
        template = _for_shell(match, scope)
        if template is None:
            continue
        if quote == "'":
            raise Invalid(
                f'"{shorten(match[0])}" is in single quotes, where a shell does not expand '
                "values; use double quotes"
            )
        _check(template, scope)
        variable = part_variable(reference_name(match))
        values[variable] = template
        pieces += [text[place : match.start()], f"${{{variable}}}"]
        place = match.end()
    return "".join(pieces) + text[place:], tuple(sorted(values.items()))


def _for_shell(match: re.Match[str], scope: Scope) -> str | None:
    """The template of a reference, where the shell does not know it by itself."""
    name = reference_name(match)
    if match.re is _OWN_TAG:
        return f"{{{{ {name} }}}}"
    if match["expression"]:
        raise Invalid(_no_expression())
    if re.fullmatch(_NAME, name):
        _check_name(name, scope)
    elif match["braced"] and _BRACED.fullmatch(name) and not _is_of_shell(name, scope):
        return f"{{{{ {_expression(name, scope)} }}}}"
    return None


def _is_of_shell(name: str, scope: Scope) -> bool:
    """Whether it is a place in an array of the shell's own, or no part of anything."""
    head, bracket, _ = name.partition("[")
    known = head in scope.params or head in scope.outputs or head in scope.steps
    return "." not in name and not (bracket and known)


def reference_name(match: re.Match[str]) -> str:
    """What a reference in text for a shell names: ROWS.count, 1, or the inside of a template."""
    if match.re is _OWN_TAG:
        return match[1].strip()
    return match["bare"] or match["braced"] or match["place"] or ""


def part_variable(reference: str) -> str:
    """The variable of a shell that has a part of a value, such as ROWS.count, or a template's."""
    name = re.sub(r"\W+", "__", reference, flags=re.ASCII).strip("_")
    is_plain = _PLAIN_PATH.fullmatch(reference)
    return name if is_plain else f"_{name}_{crc32(reference.encode()):08x}"


def shell_references(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Each reference and template of the flow's own, and the quote that it stands in, if any."""
    quote, place = "", 0
    while place < len(text):
        character = text[place]
        if character == "#" and not quote and (not place or text[place - 1] in " \t\n;&|("):
            end = text.find("\n", place)  # a comment, whose quotes mean nothing
            place = len(text) if end < 0 else end
            continue
        if character == "\\" and quote != "'":
            place += 2
            continue
        if character == "$" and (match := _REFERENCE.match(text, place)) and not match["command"]:
            yield match, quote
            place = match.end()
            continue
        if character == "{" and (match := _OWN_TAG.match(text, place)):
            yield match, quote
            place = match.end()
            continue
        if character in "'\"":
            quote = "" if quote == character else quote or character
        place += 1


def check_script(text: str, scope: Scope, program: str) -> None:
    """Text for another interpreter than a shell, which finds no values in it; raises Invalid."""
    if match := _OWN_TAG.search(text):
        raise Invalid(
            f'"{shorten(match[0])}" is not replaced in a script for {shorten(program)}; '
            "put it in env under a name, and read that variable in the script"
        )
    for match in _REFERENCE.finditer(text):
        name = (match["braced"] or "").partition(".")[0]
        if match["expression"] or name in scope.outputs or name in scope.params:
            raise Invalid(
                f'"{shorten(match[0])}" is not replaced in a script for {shorten(program)}; '
                f"read the variable {name or 'NAME'} in the script"
            )


def walk(value: Any, scope: Scope) -> Any:
    """A JSON value with all its texts as templates; raises Invalid."""
    match value:
        case str():
            return value_template(value, scope)
        case dict():
            return {key: walk(item, scope) for key, item in value.items()}
        case list():
            return [walk(item, scope) for item in value]
    return value
