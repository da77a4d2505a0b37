"""Templates in definitions: where they may stand, what they may name, and a run's own values.

Checked when a schedule is made and rendered when it runs, with the same values for each attempt but
for `now`. What a person gives as the payload of one run is data, and never a template.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, shorten
from duebook.model.http_target import origin_of
from duebook.model.target import CommandTarget, EventTarget, HttpTarget
from duebook.targets.expressions import (
    TemplateFailed,
    check_template,
    evaluate,
    is_template,
    render,
)
from duebook.targets.programs import Word, refuse_words
from duebook.targets.shell_words import refuse_shell_text
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duebook.model.run import Claim, Interval
    from duebook.model.schedule import ScheduleSpec
    from duebook.model.target import Target

    Change = Callable[[str, str], Any]
    """what becomes of the text at a place"""

__all__ = [
    "TemplateFailed",
    "check_templates",
    "has_templates",
    "interval_texts",
    "render_target",
    "render_value",
    "rendered",
]

_TEXT: Final = frozenset[str]()
_NAMES: Final[dict[str, frozenset[str] | None]] = {
    "schedule": frozenset({"id", "name", "due_at", "tz"}),
    "payload": None,
    "due_at": _TEXT,
    "now": _TEXT,
    "namespace": _TEXT,
    "user": _TEXT,
    "requested_by": _TEXT,
    "interval": frozenset({"start", "end"}),
    "run": frozenset({"id", "origin", "trigger"}),
}
_IN_PAYLOAD: Final = {name: parts for name, parts in _NAMES.items() if name != "payload"}
_IN_ORIGIN: Final = _IN_PAYLOAD
"""Whoever may give a run its payload must not choose who gets the headers."""


def check_templates(spec: ScheduleSpec) -> dict[str, str]:
    """What is wrong with the templates of a definition, by field; empty when nothing is."""
    problems: dict[str, str] = {}
    for field, known, walk in (
        ("payload", _IN_PAYLOAD, lambda change: _walk("payload", spec.payload, change)),
        ("target", _NAMES, lambda change: _change_target(spec.target, change, change)),
    ):
        try:
            walk(_checking(known))
            if field == "target":
                _check_fixed(spec.target)
        except TemplateFailed as error:
            problems[field] = str(error)
    return problems


def _checking(known: Mapping[str, frozenset[str] | None]) -> Change:
    def check(place: str, text: str) -> str:
        if is_template(text):
            _at(place, check_template, text, known)
        return text

    return check


def _check_fixed(target: Target) -> None:
    """No value decides which program runs, and no payload where a request goes."""
    if isinstance(target, CommandTarget) and target.argv and is_template(target.argv[0]):
        raise TemplateFailed(
            f'command[0] "{shorten(target.argv[0])}" is a template; the program must be fixed'
        )
    if isinstance(target, CommandTarget):
        _check_command(target)
    if isinstance(target, HttpTarget) and is_template(origin := origin_of(target.url)):
        _at("http url, before its path", check_template, origin, _IN_ORIGIN)


def _check_command(target: CommandTarget) -> None:
    words = [
        Word(text, text if is_template(text) else None, text.startswith("{"))
        for text in target.argv
    ]
    try:
        refuse_words(words, lambda text, given: refuse_shell_text(text, _is_payload, given))
        if target.shell is not None:
            refuse_shell_text(target.shell, _is_payload)
    except Invalid as error:
        raise TemplateFailed(f"{'command' if words else 'shell'}: {error}") from None


def _is_payload(variable: str) -> bool:
    return variable.startswith("DUEBOOK_PAYLOAD")


def _context(claim: Claim) -> dict[str, Any]:
    """What templates can name, all but the payload; times are those of the books' clock."""
    run = claim.run
    due_at = format_instant(run.due_at or run.created_at)
    return {
        "schedule": {
            "id": run.schedule_id or "",
            "name": run.schedule or "",
            "due_at": due_at,
            "tz": claim.spec.tz,
        },
        "due_at": due_at,
        "now": format_instant(claim.started_at or run.created_at),
        "namespace": run.namespace,
        "user": claim.user,
        "requested_by": run.requested_by or "",
        "interval": interval_texts(run.interval),
        "run": {"id": run.id, "origin": run.origin, "trigger": run.trigger},
    }


def interval_texts(interval: Interval | None) -> dict[str, str | None]:
    """As templates and commands have it; null where a run has none."""
    if interval is None:
        return {"start": None, "end": None}
    return {"start": format_instant(interval.start), "end": format_instant(interval.end)}


def rendered(claim: Claim) -> Claim:
    """The claim with the values of its run in place of templates.

    Raises TemplateFailed that names the field.
    """
    run, spec = claim.run, claim.spec
    if not isinstance(spec.target, HttpTarget | EventTarget) and not _has_templates(spec):
        return claim
    context = _context(claim)
    payload = spec.payload
    if run.payload is None:
        payload = render_value("payload", spec.payload, context)
    context["payload"] = payload if run.payload is None else run.payload
    target = render_target(spec.target, context)
    if payload == spec.payload and target == spec.target:
        return claim
    return claim._replace(spec=replace(spec, payload=payload, target=target))


def render_target(target: Target, context: Mapping[str, Any]) -> Target:
    """A target with values in place of its templates; raises TemplateFailed that names the part."""
    return _change_target(target, _filling(render, context), _filling(evaluate, context))


def render_value(place: str, value: Any, context: Mapping[str, Any]) -> Any:
    """A JSON value with values in place of its templates; raises TemplateFailed, with the place."""
    return _walk(place, value, _filling(evaluate, context))


def _filling(work: Callable[..., Any], context: Mapping[str, Any]) -> Change:
    return lambda place, template: _at(place, work, template, context)


def _has_templates(spec: ScheduleSpec) -> bool:
    """A quick look: most runs have none."""
    if isinstance(spec.target, CommandTarget) and any(map(is_template, spec.target.argv)):
        return True
    return bool(spec.payload) and has_templates(spec.payload)


def _at(place: str, work: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return work(*arguments)
    except TemplateFailed as error:
        raise TemplateFailed(f"{place}: {error}") from None


def _change_target(target: Target, text: Change, value: Change) -> Target:
    """With each text that may be a template changed; what stands in JSON may keep its type."""
    match target:
        case CommandTarget(shell=None):
            argv = tuple(
                _plain(f"command[{n}]", text(f"command[{n}]", part))
                for n, part in enumerate(target.argv)
            )
            return replace(target, argv=argv)
        case HttpTarget():
            return replace(
                target,
                url=_plain("http url", text("http url", target.url)),
                headers=tuple(
                    (name, _line(f'http header "{name}"', text(f'http header "{name}"', part)))
                    for name, part in target.headers
                ),
                json=_walk("http json", target.json, value),
                body=None if target.body is None else text("http body", target.body),
            )
        case EventTarget():
            return replace(
                target,
                topic=text("event topic", target.topic),
                type=None if target.type is None else text("event type", target.type),
                key=None if target.key is None else text("event key", target.key),
                data=_walk("event data", target.data, value),
            )
    return target


def _walk(place: str, value: Any, change: Change) -> Any:
    """A JSON value with its texts changed, however deep; keys stay."""
    return _descend(place, value, change) if has_templates(value) else value


def has_templates(value: Any) -> bool:
    """Whether any text of a JSON value is a template.

    JSON itself never has a brace after a brace, so this is right but for keys.
    """
    return is_template(json.dumps(value, ensure_ascii=False))


def _descend(place: str, value: Any, change: Change) -> Any:
    match value:
        case str():
            return change(place, value)
        case dict():
            return {key: _descend(f"{place}.{shorten(key)}", v, change) for key, v in value.items()}
        case list():
            return [_descend(f"{place}[{n}]", item, change) for n, item in enumerate(value)]
    return value


def _plain(place: str, text: str) -> str:
    if "\0" in text:
        raise TemplateFailed(f"{place}: the result contains NUL")
    return text


def _line(place: str, text: str) -> str:
    if not (text.isascii() and text.isprintable()):
        raise TemplateFailed(f"{place}: the result is not one line of ASCII characters")
    return text
