"""Templates in definitions: where they are allowed, what they may refer to, and a run's own values.

They are checked when a schedule is created and rendered when it runs, with the same values for each
attempt except `now`. The payload that a person gives for one run is data, never a template.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from duebook.errors import Invalid, shorten
from duebook.model.http_target import origin_of
from duebook.model.secret_values import SecretValues, mentions_secret, names_in, references_to
from duebook.model.target import CeleryTarget, CommandTarget, EventTarget, FlowTarget, HttpTarget
from duebook.targets.expressions import (
    TemplateFailed,
    check_template,
    evaluate,
    is_template,
    render,
)
from duebook.targets.programs import Word, refuse_words, steers
from duebook.targets.shell_words import refuse_shell_text
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duebook.model.run import Claim, Interval
    from duebook.model.schedule import ScheduleSpec
    from duebook.model.target import Target

    Change = Callable[[str, str], Any]
    """changes the text at a place"""

__all__ = [
    "TemplateFailed",
    "check_templates",
    "has_templates",
    "interval_texts",
    "refuse_in_arguments",
    "render_target",
    "render_value",
    "rendered",
    "secret_names",
    "spec_secrets",
    "with_references",
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
"""Anyone who may give a run its payload must not choose who gets the headers."""
_TEXTS: Final = HttpTarget | EventTarget | CeleryTarget
"""Targets of which any part may be a template."""
_SECRET: Final[dict[str, frozenset[str] | None]] = {"secret": None}
_IN_ARGV: Final = (
    "would contain a secret, and every user of the machine can read the arguments of programs; "
    "put the secret in env, and let the program read that variable"
)


class _Changes(NamedTuple):
    """How to change the texts of a target, by their place."""

    text: Change
    value: Change
    """for JSON, where a value may keep its type"""
    private_text: Change
    """for places where secrets are allowed, too"""
    private_value: Change
    variable: Change
    """for variables with a secret; others are not templates"""


def check_templates(spec: ScheduleSpec) -> dict[str, str]:
    """The problems of the templates of a definition, by field; empty if there are none."""
    problems: dict[str, str] = {}
    stored = isinstance(spec.target, EventTarget | FlowTarget)
    in_payload = _IN_PAYLOAD if stored else _IN_PAYLOAD | _SECRET
    try:
        _walk("payload", spec.payload, _checking(in_payload))
    except TemplateFailed as error:
        problems["payload"] = str(error)
    if stored and mentions_secret(spec.payload):
        told = "payload becomes the data of the event, which is stored, so it cannot name a secret"
        problems["payload"] = told
    try:
        open_to_all, private = _checking(_NAMES), _checking(_NAMES | _SECRET)
        changes = _Changes(open_to_all, open_to_all, private, private, _checking(_SECRET))
        _change_target(spec.target, changes)
        _check_fixed(spec.target)
    except TemplateFailed as error:
        problems["target"] = str(error)
    return problems


def _checking(known: Mapping[str, frozenset[str] | None]) -> Change:
    def check(place: str, text: str) -> str:
        if is_template(text):
            _at(place, check_template, text, known)
        return text

    return check


def _check_fixed(target: Target) -> None:
    """Values must not decide which program runs, nor payloads where a request goes."""
    if isinstance(target, CommandTarget) and target.argv and is_template(target.argv[0]):
        raise TemplateFailed(
            f'command[0] "{shorten(target.argv[0])}" is a template; the program must be fixed'
        )
    if isinstance(target, CommandTarget):
        _check_command(target)
        _check_secrets(target)
    if isinstance(target, FlowTarget) and mentions_secret(dict(target.params)):
        raise TemplateFailed(
            "params of a flow are stored as they are given, so they cannot name a secret; name it "
            "in the flow file, as the default of a param or in env"
        )
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


def _check_secrets(target: CommandTarget) -> None:
    """Secrets must not be where others can read them, or where they would choose what runs."""
    for part, text in (("shell", target.shell), ("cwd", target.cwd)):
        if text is not None and mentions_secret(text):
            raise TemplateFailed(
                f"{part} cannot name a secret; put it in env, and read that variable"
            )
    for name, text in target.env:
        if mentions_secret(text) and steers(name):
            raise TemplateFailed(
                f"env {shorten(name)} decides which programs run, so it cannot be a secret"
            )


def spec_secrets(spec: ScheduleSpec, with_payload: bool = True) -> set[str]:
    """The names of the secrets that a definition uses."""
    found = names_in(spec.payload) if spec.payload and with_payload else set()
    match spec.target:
        case CommandTarget(env=env) if env:
            found |= names_in(dict(env))
        case HttpTarget(url=url, headers=headers, json=content, body=body):
            found |= names_in([url, dict(headers), content, body])
        case CeleryTarget(args=args, kwargs=kwargs, headers=headers):
            found |= names_in([list(args), kwargs, dict(headers)])
    return found


def secret_names(claim: Claim) -> set[str]:
    """The names of the secrets that a run needs. A payload given for this run is data."""
    return spec_secrets(claim.spec, with_payload=claim.run.payload is None)


def with_references(claim: Claim) -> Claim:
    """The claim with references to its secrets in place of values, for display."""
    values = SecretValues()
    for name, reference in references_to(secret_names(claim)).items():
        values.add(name, reference)
    return claim._replace(secret_values=values)


def _is_payload(variable: str) -> bool:
    return variable.startswith("DUEBOOK_PAYLOAD")


def _context(claim: Claim) -> dict[str, Any]:
    """What templates can refer to, except the payload; times are those of the database."""
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
        "secret": claim.secret_values.by_name if claim.secret_values else {},
    }


def interval_texts(interval: Interval | None) -> dict[str, str | None]:
    """In the form for templates and commands; null for a run without one."""
    if interval is None:
        return {"start": None, "end": None}
    return {"start": format_instant(interval.start), "end": format_instant(interval.end)}


def rendered(claim: Claim) -> Claim:
    """The claim with the values of its run in place of templates.

    Raises TemplateFailed that names the field.
    """
    run, spec = claim.run, claim.spec
    if not isinstance(spec.target, _TEXTS) and not _has_templates(spec):
        return claim
    context = _context(claim)
    payload = spec.payload
    if run.payload is None:
        payload = render_value("payload", spec.payload, context)
    context["payload"] = payload if run.payload is None else run.payload
    target = render_target(spec.target, context)
    if claim.secret_values and isinstance(target, CommandTarget):
        shown = context | {"secret": references_to(claim.secret_values.by_name)}
        if run.payload is None:
            shown["payload"] = render_value("payload", spec.payload, shown)
        refuse_in_arguments(target, render_target(spec.target, shown))
    if payload == spec.payload and target == spec.target:
        return claim
    return claim._replace(spec=replace(spec, payload=payload, target=target))


def render_target(target: Target, context: Mapping[str, Any]) -> Target:
    """A target with values in place of its templates; raises TemplateFailed that names the part."""
    text, value = _filling(render, context), _filling(evaluate, context)
    return _change_target(target, _Changes(text, value, text, value, text))


def refuse_in_arguments(target: Target, shown: Target) -> None:
    """Raises TemplateFailed if a secret has got into the arguments of a program: `shown` is the
    same target with references in place of secrets."""
    if isinstance(target, CommandTarget) and isinstance(shown, CommandTarget):
        for place, (part, other) in enumerate(zip(target.argv, shown.argv, strict=True)):
            if part != other:
                raise TemplateFailed(f"command[{place}] {_IN_ARGV}")


def render_value(place: str, value: Any, context: Mapping[str, Any]) -> Any:
    """A JSON value with values in place of its templates; raises TemplateFailed, with the place."""
    return _walk(place, value, _filling(evaluate, context))


def _filling(work: Callable[..., Any], context: Mapping[str, Any]) -> Change:
    return lambda place, template: _at(place, work, template, context)


def _has_templates(spec: ScheduleSpec) -> bool:
    """A quick check, as most runs have none."""
    target = spec.target
    if isinstance(target, CommandTarget) and (
        any(map(is_template, target.argv)) or names_in(dict(target.env))
    ):
        return True
    return bool(spec.payload) and has_templates(spec.payload)


def _at(place: str, work: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return work(*arguments)
    except TemplateFailed as error:
        raise TemplateFailed(f"{place}: {error}") from None


def _change_target(target: Target, change: _Changes) -> Target:
    """Change each text that may be a template."""
    match target:
        case CommandTarget():
            return _change_command(target, change)
        case HttpTarget():
            text = change.private_text
            return replace(
                target,
                url=_plain("http url", text("http url", target.url)),
                headers=tuple(
                    (name, _line(f'http header "{name}"', text(f'http header "{name}"', part)))
                    for name, part in target.headers
                ),
                json=_walk("http json", target.json, change.private_value),
                body=None if target.body is None else text("http body", target.body),
            )
        case EventTarget():
            text = change.text
            return replace(
                target,
                topic=text("event topic", target.topic),
                type=None if target.type is None else text("event type", target.type),
                key=None if target.key is None else text("event key", target.key),
                data=_walk("event data", target.data, change.value),
            )
        case CeleryTarget():
            return _change_celery(target, change)
    return target


def _change_celery(target: CeleryTarget, change: _Changes) -> CeleryTarget:
    value, text = change.private_value, change.private_text
    return replace(
        target,
        args=tuple(_walk("args", list(target.args), value)),
        kwargs=_walk("kwargs", target.kwargs, value),
        headers=tuple((n, _plain(f'header "{n}"', text("header", v))) for n, v in target.headers),
    )


def _change_command(target: CommandTarget, change: _Changes) -> CommandTarget:
    argv = tuple(
        _plain(f"command[{n}]", change.text(f"command[{n}]", part))
        for n, part in enumerate(target.argv)
    )
    env = tuple(
        (name, _plain(f"env {name}", change.variable(f"env {name}", part)))
        if mentions_secret(part)
        else (name, part)
        for name, part in target.env
    )
    return replace(target, argv=argv, env=env)


def _walk(place: str, value: Any, change: Change) -> Any:
    """Change the texts of a JSON value at any depth; keys stay."""
    return _descend(place, value, change) if has_templates(value) else value


def has_templates(value: Any) -> bool:
    """Whether any text of a JSON value is a template.

    JSON itself never has a brace after a brace, so this is right except for keys.
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
