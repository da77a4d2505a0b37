"""Hides secrets in whatever a run prints, returns or fails with; pure.

The only place that knows which secrets a run has: in its environment, its payload, its request and,
for a step, its flow.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from duebook.model.http_target import is_public_header
from duebook.model.secret import HIDDEN, is_reference, secrets_in, show_text
from duebook.model.target import CeleryTarget, CommandTarget, EventTarget, FlowTarget, HttpTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from duebook.model.event import Draft
    from duebook.model.run import Claim, Outcome
    from duebook.model.secret_values import SecretValues

__all__ = [
    "hidden_outcome",
    "hide_in",
    "hiding",
    "hiding_payload",
    "hiding_run",
    "run_secrets",
    "variable_secrets",
]

SHORTEST_VALUE: Final = 8
"""Characters of any variable of a command; shorter values occur in too many words."""
SHORTEST_SECRET: Final = 4
"""Characters of values with secret names."""
_SCHEMES: Final = frozenset({"apikey", "basic", "bearer", "digest", "token"})


def hiding(secrets: Iterable[str]) -> Callable[[str], str]:
    """Replaces every secret in a text, the longest first."""
    words = sorted(set(secrets), key=len, reverse=True)
    if not words:
        return str

    def hide(text: str) -> str:
        for word in words:
            text = text.replace(word, HIDDEN)
        return text

    return hide


def hiding_run(claim: Claim) -> Callable[[str], str]:
    """Hides the secrets of a run, line by line as it prints."""
    hide, values = hiding(run_secrets(claim)), claim.secret_values
    return hide if values is None else lambda text: hide(values.hide(text))


def run_secrets(claim: Claim) -> set[str]:
    """The secrets of a run: values with secret names, and the variables of a command.

    The variables of a step are those of its flow, including names and outputs that are not secret.
    """
    target = claim.spec.target
    found = {*claim.secrets, *secrets_in(claim.payload)}
    if claim.step_context is not None:
        found.update(secrets_in(dict(claim.step_context.params)))
    if isinstance(target, HttpTarget):
        found.update(_of_request(target))
    elif isinstance(target, EventTarget):
        found.update(secrets_in(target.data))
    elif isinstance(target, CeleryTarget):
        found.update(secrets_in([list(target.args), target.kwargs]))
        found.update(value for _, value in target.headers)
    elif isinstance(target, FlowTarget):
        found.update(secrets_in(dict(target.params)))
    words = set(_lines(found, SHORTEST_SECRET))
    if isinstance(target, CommandTarget) and claim.step_context is None:
        words.update(variable_secrets(target.env))
        words.update(_lines((value for _, value in target.env), SHORTEST_VALUE))
    return words


def variable_secrets(variables: Iterable[tuple[str, str]]) -> set[str]:
    """The secrets in variables: values with secret names, and parts of other values."""
    return set(_lines(secrets_in(dict(variables)), SHORTEST_SECRET))


def _of_request(target: HttpTarget) -> Iterator[str]:
    """The words of its headers, and secrets in the rest of it: a server may echo them."""
    for name, value in target.headers:
        if not is_public_header(name):
            yield from (value, *(w for w in value.split() if w.lower() not in _SCHEMES))
    yield from secrets_in([target.url, target.json, target.body])


def hiding_payload(payload: Any) -> Callable[[str], str]:
    """Hides the secrets of a payload in texts where templates have inserted them."""
    return hiding(_lines(secrets_in(payload), SHORTEST_SECRET))


def hidden_outcome(claim: Claim, outcome: Outcome) -> Outcome:
    """The outcome of a run with secrets hidden in its error.

    The output is unchanged, because others work with it, but lists what to hide when it is shown.
    """
    if claim.secret_values is not None:
        outcome = _without_values(outcome, claim.secret_values)
    if outcome.error is None and outcome.output is None:
        return outcome
    secrets = run_secrets(claim)
    if outcome.error is not None:
        outcome = replace(outcome, error=show_text(hiding(secrets)(outcome.error)))
    if outcome.output is not None and secrets:
        told = tuple(sorted(word for word in secrets if _as_json(word) in outcome.output))
        outcome = replace(outcome, output_secrets=told) if told else outcome
    return outcome


def _without_values(outcome: Outcome, values: SecretValues) -> Outcome:
    """Secrets given by reference are never stored, not even in an output."""
    if not values:
        return outcome
    error, ref, output = outcome.error, outcome.output_ref, outcome.output
    return replace(
        outcome,
        error=None if error is None else values.hide_cut(error),
        output=None if output is None else values.hide_json(output),
        output_ref=None if ref is None else values.hide_cut(ref),
        events=tuple(_without_values_in(event, values) for event in outcome.events),
    )


def _without_values_in(event: Draft, values: SecretValues) -> Draft:
    return event._replace(
        topic=values.hide(event.topic),
        type=values.hide(event.type),
        key=values.hide(event.key),
        data=values.hide_json(event.data),
    )


def _as_json(text: str) -> str:
    """As it is written in an output."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def hide_in(form: Any, hide: Callable[[str], str]) -> Any:
    """JSON with secrets hidden in every text."""
    if isinstance(form, str):
        return hide(form)
    if isinstance(form, dict):
        return {name: hide_in(item, hide) for name, item in form.items()}
    return [hide_in(item, hide) for item in form] if isinstance(form, list) else form


def _lines(values: Iterable[str], shortest: int) -> Iterator[str]:
    """Each value with its lines, and in its JSON form; short ones occur in too many words."""
    for value in values:
        for line in {value, *value.splitlines(), json.dumps(value)[1:-1]}:
            if len(line) >= shortest and line != HIDDEN and not is_reference(line):
                yield line
