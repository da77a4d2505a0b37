"""References such as ${NAME} in the strings of a flow: what they mean, and which are refused.

In a value they become templates. In text for a shell they stay, because the shell finds them as
variables: no value is ever inserted into text that is parsed again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from duebook.errors import Invalid, shorten
from duebook.flows.problems import Misplaced
from duebook.flows.references import (
    BRACED,
    NAME,
    Scope,
    check_name,
    check_step,
    expression_of,
    is_scoped,
)
from duebook.targets.expressions import check_template, is_template
from duebook.targets.filters import TemplateFailed
from duebook.targets.programs import Chosen
from duebook.targets.shell_words import refuse_shell_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "as_literal",
    "check_script",
    "check_value",
    "fixed_shell_text",
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

_TAG: Final = re.compile(r"\{\{|\{%")
_TAG_ENDS: Final = {"{{": "}}", "{%": "%}"}
_REFERENCE: Final = re.compile(
    rf"(?P<expression>\$\{{\{{)|(?P<command>\$\(|`)|\$\{{(?P<braced>[^{{}}]*)\}}"
    rf"|\$(?P<bare>{NAME})|\$(?P<place>[0-9]+)"
)
_OWN_TAG: Final = re.compile(
    r"\{\{\s*((?:(?:params|steps|env|vars|data|flow|step|run|schedule|secret)[.\[]|(?:due_at|now)\b)"
    r"[^{}]*)\}\}"
)
"""A template that names a value of the flow; other programs use such braces, too."""
_PLAIN_WORD: Final = r"[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*"
_PLAIN_PATH: Final = re.compile(rf"(?![0-9]){_PLAIN_WORD}(?:\.{_PLAIN_WORD}|\[[0-9]+\])*")
"""A path whose variable is shared with no other path."""
_STEP_PART: Final = re.compile(
    r"""\bsteps(?:\.([A-Za-z_][A-Za-z0-9_]*)|\[(?:"([^"]*)"|'([^']*)')\])(?:\.([A-Za-z_]\w*))?"""
)
_VARIABLE: Final = re.compile(r"""\b(?:vars|env)(?:\.(\w+)|\["([^"]*)"\]|\['([^']*)'\])""")
_FILE: Final = re.compile(r"""\{\{ files\["([^"]*)"\] \}\}""")
_LOOSE: Final = re.compile(
    r"\b(?:params|steps|data|env|vars|files|computed|schedule|user|requested_by|run(?!\.id\b))\b(?:\.\w+)?"
)
"""The caller of a flow chooses these: an operator may give it a schedule of any name."""


def value_template(text: str, scope: Scope) -> str:
    """A value whose references have become templates, checked; raises Invalid."""
    parts, place = [], 0
    for start, end in _tags(text):
        parts += [_expanded(text[place:start], scope), text[start:end]]
        place = end
    made = "".join(parts) + _expanded(text[place:], scope)
    if is_template(made):
        _check(made, scope)
    return made


def as_literal(text: str) -> str:
    """A template that produces exactly this string."""
    return _TAG.sub(lambda tag: f'{{{{ "{tag[0]}" }}}}', text)


def check_value(text: str, scope: Scope, what: str, hint: str = "") -> None:
    """Raises Invalid for a string that callers of the flow can influence."""
    if (name := loose_in(text, scope)) is not None:
        told = f'{what} names "{shorten(name)}", which anyone who starts the flow can change'
        raise Invalid(f"{told}; {hint}" if hint else told)


def loose_in(text: str, scope: Scope) -> str | None:
    """The first name in a template that callers of the flow can influence, if any."""
    if not is_template(text):
        return None
    for name in named_variables(text):
        if is_loose(name, scope):
            return name
    tags = " ".join(text[start:end] for start, end in _tags(text))
    match = _LOOSE.search(_VARIABLE.sub("", tags))
    if match is None:
        return None
    return "`…`" if match[0] == "computed" else match[0]


def named_files(template: str) -> list[str]:
    """The outputs that a template refers to as files."""
    return [match[1] for match in _FILE.finditer(template)]


def named_variables(template: str) -> list[str]:
    """The variables that a template names."""
    return [
        "".join(names)
        for start, end in _tags(template)
        for names in _VARIABLE.findall(template, start, end)
    ]


def _tags(text: str) -> Iterator[tuple[int, int]]:
    """Where the tags of a template are; a tag without an end does not count."""
    place = 0
    while (opened := _TAG.search(text, place)) is not None:
        end = text.find(_TAG_ENDS[opened[0]], opened.end())
        if end < 0:
            return
        place = end + 2
        yield opened.start(), place


def readable(text: str) -> str:
    """A string with its references in the form that the file has."""
    text = _FILE.sub(r"${\1.file}", text)
    text = re.sub(r"""\{\{ (?:vars|data)\["([^"]*)"\]([^ ]*) \}\}""", _written, text)
    return re.sub(r"""\{\{ steps\["([^"]*)"\]([^ ]*) \}\}""", _written, text)


def _written(match: re.Match[str]) -> str:
    path = re.sub(r"""\["([^"]*)"\]""", r".\1", match[2])
    return f"${{{match[1]}{path}}}"


def is_loose(name: str, scope: Scope) -> bool:
    """Whether callers of the flow can influence a variable of its commands."""
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
                f'"{shorten(text)}" contains a command, which is allowed only in commands, in '
                "conditions, and in backquotes in the params and env of a flow; "
                "use a step with `output`"
            )
        if match["place"]:
            known = match["place"] in scope.params
            return f'{{{{ vars["{match["place"]}"] }}}}' if known else match[0]
        expression = expression_of(match["braced"] or match["bare"] or "", scope)
        return f"{{{{ {expression} }}}}"

    return _REFERENCE.sub(replace, text)


def _no_expression() -> str:
    return '"${{" is not supported; write ${NAME} in a command, and {{ params.NAME }} elsewhere'


def _check(template: str, scope: Scope) -> None:
    try:
        check_template(template, scope.known)
    except TemplateFailed as error:
        raise Invalid(str(error)) from None
    for start, end in _tags(template):
        for match in _STEP_PART.finditer(template, start, end):
            check_step(match[1] or match[2] or match[3], match[4], scope)


def fixed_shell_text(text: str, scope: Scope) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Like `shell_text`, but raises Invalid where a value would choose what runs."""
    made, values = shell_text(text, scope)
    templates = dict(values)

    def is_changed(name: str) -> bool:
        if name in templates:
            return loose_in(templates[name], scope) is not None
        return is_loose(name, scope)

    try:
        refuse_shell_text(made, is_changed, has_values=scope.places > 0)
    except Chosen as error:
        told = _with_references(str(error), templates)
        raise Misplaced(told, _mentioned(text, told)) from None
    return made, values


def _mentioned(text: str, told: str) -> int:
    """Where the first quoted word of a message occurs in a text."""
    for word in re.findall(r'"([^"]+)"', told):
        places = [text.find(f"{sign}{word}") for sign in ("${", "$", "")]
        if found := [place for place in places if place >= 0]:
            return found[0]
    return 0


def _with_references(told: str, templates: Mapping[str, str]) -> str:
    """A message about variables that stand for templates, with the references of the file."""
    for name, template in templates.items():
        shown = readable(template)
        told = told.replace(f"${{{name}}}", shown).replace(f'"{name}"', f'"{shown}"')
    return told


def shell_text(text: str, scope: Scope) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Text for a shell with variables in place of parts of values and templates; and these
    variables.

    A shell knows ${NAME}, but neither ${NAME.part} nor {{ params.NAME }}. Raises Invalid.
    """
    values: dict[str, str] = {}
    pieces, place = [], 0
    for match, quote in shell_references(text):
        try:
            template = _checked_for_shell(match, quote, scope)
        except Invalid as error:
            raise Misplaced(str(error), match.start()) from None
        if template is None:
            continue
        variable = part_variable(reference_name(match))
        values[variable] = template
        found = f"${{{variable}}}"
        pieces += [text[place : match.start()], f"'\"{found}\"'" if quote == "'" else found]
        place = match.end()
    return "".join(pieces) + text[place:], tuple(sorted(values.items()))


def _checked_for_shell(match: re.Match[str], quote: str, scope: Scope) -> str | None:
    template = _for_shell(match, scope)
    if template is None:
        return None
    own = match.re is not _OWN_TAG
    if quote == "'" and not own:
        raise Invalid(
            f'"{shorten(match[0])}" is in single quotes, where a shell does not expand '
            "values; use double quotes"
        )
    _check(template, scope)
    return template


def _for_shell(match: re.Match[str], scope: Scope) -> str | None:
    """The template of a reference that the shell does not know by itself."""
    name = reference_name(match)
    if match.re is _OWN_TAG:
        return f"{{{{ {name} }}}}"
    if match["expression"]:
        raise Invalid(_no_expression())
    if re.fullmatch(NAME, name):
        check_name(name, scope)
    elif match["braced"] and BRACED.fullmatch(name) and not _is_of_shell(name, scope):
        return f"{{{{ {expression_of(name, scope)} }}}}"
    return None


def _is_of_shell(name: str, scope: Scope) -> bool:
    """Whether it is an index into an array of the shell, or not a part of anything."""
    head, bracket, _ = name.partition("[")
    known = head in scope.params or head in scope.outputs or head in scope.steps
    return "." not in name and not (bracket and known)


def reference_name(match: re.Match[str]) -> str:
    """The name in a reference within text for a shell: ROWS.count, 1, or the inside of a
    template."""
    if match.re is _OWN_TAG:
        return match[1].strip()
    return match["bare"] or match["braced"] or match["place"] or ""


def part_variable(reference: str) -> str:
    """The shell variable for a part of a value, such as ROWS.count, or for a template."""
    name = re.sub(r"\W+", "__", reference, flags=re.ASCII).strip("_")
    is_plain = _PLAIN_PATH.fullmatch(reference)
    return name if is_plain else f"_{name}_{crc32(reference.encode()):08x}"


def shell_references(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Each reference and template of the flow, with the kind of quote around it, if any."""
    quote, place = "", 0
    while place < len(text):
        character = text[place]
        if character == "#" and not quote and (not place or text[place - 1] in " \t\n;&|("):
            end = text.find("\n", place)  # a comment, in which quotes have no meaning
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
    """Check text for an interpreter that is not a shell, which cannot see values; raises
    Invalid."""
    if match := _OWN_TAG.search(text):
        raise Misplaced(
            f'"{shorten(match[0])}" is not replaced in a script for {shorten(program)}; '
            "put it in env under a name, and read that variable in the script",
            match.start(),
        )
    for match in _REFERENCE.finditer(text):
        name = (match["braced"] or "").partition(".")[0]
        scoped = is_scoped(match["braced"] or "", scope)
        if scoped or match["expression"] or name in scope.outputs or name in scope.params:
            raise Misplaced(
                f'"{shorten(match[0])}" is not replaced in a script for {shorten(program)}; '
                f"read the variable {'NAME' if scoped or not name else name} in the script",
                match.start(),
            )


def walk(value: Any, scope: Scope) -> Any:
    """A JSON value in which all strings have become templates; raises Invalid."""
    match value:
        case str():
            return value_template(value, scope)
        case dict():
            return {key: walk(item, scope) for key, item in value.items()}
        case list():
            return [walk(item, scope) for item in value]
    return value
