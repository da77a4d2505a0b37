"""The language of templates: which texts are templates, what they may contain, and their limits.

minijinja evaluates them within a fuel limit. Fuel counts instructions, not bytes (a text times a
million is one), so it only gets what cannot grow: tags are parsed here first, without `*`, `~` and
calls, and every filter is one of ours, which counts its output.
"""

from __future__ import annotations

import json
import re
import string
import threading
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import shorten
from duebook.targets.filters import FILTERS, MOST_OUTPUT, Budget, TemplateFailed, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from minijinja import Environment, TemplateError

__all__ = ["TemplateFailed", "check_template", "evaluate", "is_template", "render"]

_NAMED: Final = f"{string.ascii_letters}{string.digits}_."
"""The characters of a name and its attributes."""
FUEL: Final = 10_000
LONGEST_TAG: Final = 500
LONGEST_WITH_LOOP: Final = 2_000
"""A loop repeats its body as often as its fuel lasts, so a long text must not be inside one."""

_OPEN: Final = re.compile(r"\{\{|\{%")
_END: Final = {"{{": "}}", "{%": "%}"}
_TOKEN: Final = re.compile(
    r"""(?P<space>\s+)
    |(?P<end>[-+]?(?:\}\}|%\}))
    |(?P<string>"[^"\\]*"|'[^'\\]*')
    |(?P<number>[0-9]+(?:\.[0-9]+)?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>==|!=|<=|>=|//|[-+/%<>=.,:()\[\]|])""",
    re.VERBOSE,
)
_STATEMENTS: Final = frozenset({"if", "elif", "else", "endif", "for", "endfor"})
_WORDS: Final = frozenset({"and", "or", "not", "in", "is", *_STATEMENTS})
_TESTS: Final = frozenset(
    {"boolean", "defined", "divisibleby", "endingwith", "even", "mapping", "none", "number"}
    | {"odd", "sequence", "startingwith", "string", "undefined"}
)
_SECRET: Final = re.compile(r"\{\{[-+]? *secret\.[A-Za-z_][A-Za-z0-9_]{0,99} *[-+]?\}\}")
"""As `names_in` of model/secret_values.py finds it, also in JSON: spaces, but no line ends."""
_PLAIN_BRACES: Final = 'to print braces, write {{ "{{" }}'


class _Current(threading.local):
    """The state of rendering in a thread: how much it may still produce, and how it writes
    values."""

    budget: Budget
    write: Callable[[Any], str]


_current: Final = _Current()


def is_template(text: str) -> bool:
    return _OPEN.search(text) is not None


def check_template(text: str, known: Mapping[str, frozenset[str] | None]) -> None:
    """Reject what no run could render.

    `known` are the available names, with the names of their parts, or None if these differ from run
    to run. Raises TemplateFailed.
    """
    _check_tags(text)
    try:
        names = _environment().undeclared_variables_in_str(text, nested=False)
        paths = _environment().undeclared_variables_in_str(text, nested=True)
    except _template_error() as error:
        raise _told(text, error) from None
    if "secret" in text:
        _check_secrets(text, "secret" in known)
    for name in sorted(names - set(known)):
        raise TemplateFailed(f'"{shorten(name)}" is unknown; use one of {", ".join(known)}')
    for path in sorted(paths):
        name, _, rest = path.partition(".")
        part, parts = rest.partition(".")[0], known.get(name)
        if part and parts is not None and part not in parts:
            there = f"it has {', '.join(sorted(parts))}" if parts else "it has no fields"
            raise TemplateFailed(f'"{shorten(path)}" is unknown; {there}')


def _check_secrets(text: str, allowed: bool) -> None:
    """Secrets are inserted unchanged, so that their values can be found and hidden again."""
    for tag in _tags(text):
        former = ""
        for kind, word in _tokens(tag):
            if (kind, word) == ("name", "secret") and former != ".":
                if not allowed:
                    raise TemplateFailed(
                        f'"{shorten(tag)}" cannot stand here; name secrets in the payload, in env, '
                        "in the params of a flow file, or in the headers, path and body of a "
                        "request"
                    )
                if not _SECRET.fullmatch(tag):
                    raise TemplateFailed(
                        f'"{shorten(tag)}" does more than name a secret; write '
                        "{{ secret.NAME }} alone"
                    )
            former = word


def render(text: str, context: Mapping[str, Any]) -> str:
    """The text with its tags filled in; one without tags is returned unchanged.

    Raises TemplateFailed.
    """
    if not is_template(text):
        return text
    budget = Budget()

    def write(value: Any) -> str:
        if value is None:
            which = _null_path(text, context) or "a value"
            raise TemplateFailed(f"{which} is null; set a default with default(…)")
        made = value if isinstance(value, str) else _json(value)
        budget.spend(made)
        return made

    return _render(text, context, budget, write)


def _null_path(text: str, context: Mapping[str, Any]) -> str | None:
    """The first tag that is only a path and has the value null, in quotes."""
    for tag in _tags(text):
        path = tag.strip("{} -")
        value: Any = context
        for part in path.split("."):
            value = value.get(part, "") if isinstance(value, Mapping) else ""
        if value is None:
            return f'"{shorten(path)}"'
    return None


def evaluate(text: str, context: Mapping[str, Any]) -> Any:
    """Like `render`, but a text that is a single expression keeps the type of its value."""
    tags = list(_tags(text)) if is_template(text) else []
    if len(tags) != 1 or tags[0] != text.strip() or not tags[0].startswith("{{"):
        return render(text, context)
    found: list[Any] = []
    budget = Budget()

    def keep(value: Any) -> str:
        budget.spend(_json(value))
        found.append(value)
        return ""

    _render(text.strip(), context, budget, keep)
    return found[0]


def _render(
    text: str, context: Mapping[str, Any], budget: Budget, write: Callable[[Any], str]
) -> str:
    _check_tags(text)
    _current.budget, _current.write = budget, write
    try:
        made = _environment().render_str(text, "template", **context)
    except _template_error() as error:
        raise _told(text, error) from None
    if len(made) > MOST_OUTPUT:
        raise TemplateFailed(
            f"it produces {len(made):,} characters; at most {MOST_OUTPUT:,} are allowed"
        )
    return made


def _written(value: Any) -> str:
    return _current.write(value)


@cache
def _environment() -> Environment:
    """One for all threads, as creating it takes longer than rendering a template."""
    from minijinja import Environment

    return Environment(
        fuel=FUEL,
        undefined_behavior="strict",
        pycompat=False,
        debug=False,
        keep_trailing_newline=True,
        auto_escape_callback=lambda _: None,
        comment_start_string="{%#",  # no tag may contain it: `${#name}` belongs to shells
        comment_end_string="#%}",
        finalizer=_written,
        filters={
            name: counted(name, work, lambda: _current.budget) for name, work in FILTERS.items()
        },
    )


def _template_error() -> type[TemplateError]:
    from minijinja import TemplateError

    return TemplateError


def _json(value: Any) -> str:
    """As JSON; raises TemplateFailed for other values, such as methods of Python objects."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        raise TemplateFailed("a value is undefined; check the names of its fields") from None


def _told(text: str, error: TemplateError) -> TemplateFailed:
    """The message of minijinja, with the part that it is about."""
    part = ""
    if error.range is not None:
        start, end = error.range
        before, part = (
            piece.decode(errors="replace")
            for piece in (text.encode()[:start], text.encode()[start:end])
        )
        if part[:1] in (".", "["):  # an attribute of the previous part
            part = before[len(before.rstrip(_NAMED)) :] + part
        part = part.strip()
    if error.kind == "UndefinedError":
        return TemplateFailed(f'"{shorten(part)}" is undefined; set a default with default(…)')
    if error.kind == "OutOfFuel":
        return TemplateFailed(f"it takes more than {FUEL:,} steps, the limit for a template")
    what = shorten(error.detail or error.message, 200)
    if error.kind == "SyntaxError":
        return TemplateFailed(f'{what} in "{shorten(text)}"; {_PLAIN_BRACES}')
    return TemplateFailed(f'{what} at "{shorten(part)}"' if part else what)


def _tags(text: str) -> Iterator[str]:
    """Each tag with its ends; raises TemplateFailed for what no tag may contain."""
    place = 0
    while (opened := _OPEN.search(text, place)) is not None:
        place = opened.end()
        if text[place : place + 1] in ("-", "+"):
            place += 1
        end = _END[opened[0]]
        while True:
            token = _TOKEN.match(text, place)
            if token is None:
                raise _unreadable(text, opened.start(), place)
            place = token.end()
            if token.lastgroup == "end":
                if not token[0].endswith(end):
                    raise _unreadable(text, opened.start(), token.start())
                break
        yield text[opened.start() : place]


def _unreadable(text: str, start: int, place: int) -> TemplateFailed:
    tag = shorten(text[start:])
    if place >= len(text):
        return TemplateFailed(f'"{tag}" is not closed; {_PLAIN_BRACES}')
    what = shorten(text[place : place + 1])
    return TemplateFailed(f'"{what}" is not allowed in a tag, as in "{tag}"; {_PLAIN_BRACES}')


def _check_tags(text: str) -> None:
    """Raises TemplateFailed; minijinja only ever gets what has passed this check."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise TemplateFailed("it contains an unpaired surrogate")
    for tag in _tags(text):
        if len(tag) > LONGEST_TAG:
            raise TemplateFailed(f'"{shorten(tag)}" is longer than {LONGEST_TAG} characters')
        _check_tag(tag)
        if tag.startswith("{%") and _tokens(tag)[0][1] == "for" and len(text) > LONGEST_WITH_LOOP:
            raise TemplateFailed(
                f"a template with a loop can have at most {LONGEST_WITH_LOOP:,} characters"
            )


def _tokens(tag: str) -> list[tuple[str, str]]:
    """(kind, text) of the tokens between the ends of a tag."""
    inner = tag[2:].lstrip("-+")
    found = [(str(token.lastgroup), token[0]) for token in _TOKEN.finditer(inner)]
    tokens = [(kind, word) for kind, word in found if kind not in ("space", "end")]
    if not tokens:
        raise TemplateFailed(f'"{tag}" is empty')
    return tokens


def _check_tag(tag: str) -> None:
    tokens = _tokens(tag)
    if tag.startswith("{%"):
        _check_known("statement", tokens[0][1], _STATEMENTS)
    former, after_is, takes_options = ("", ""), False, False
    for (kind, word), following in zip(tokens, [*tokens[1:], ("", "")], strict=True):
        is_filter, is_test = former[1] == "|", after_is and word != "not"
        if is_filter:
            _check_known("filter", word, FILTERS)
        elif is_test:
            _check_known("test", word, _TESTS)
        elif word == "(" and _is_value(former) and not takes_options:
            raise TemplateFailed(f'"{shorten(former[1])}(" is a call; only filters can be called')
        elif word == "+" and "number" not in (former[0], following[0]):
            raise TemplateFailed('"+" adds numbers; to join strings, write {{ a }}{{ b }}')
        elif word == "recursive":
            raise TemplateFailed('"recursive" loops are not supported')
        after_is = word == "is" or (after_is and word == "not")
        former, takes_options = (kind, word), is_filter or is_test


def _is_value(token: tuple[str, str]) -> bool:
    kind, word = token
    return (
        kind in ("string", "number")
        or word in (")", "]")
        or (kind == "name" and word not in _WORDS)
    )


def _check_known(what: str, word: str, known: Any) -> None:
    if word not in known:
        raise TemplateFailed(
            f'{what} "{shorten(word)}" is unknown; use one of {", ".join(sorted(known))}'
        )
