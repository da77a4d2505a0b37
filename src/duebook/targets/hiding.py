"""Hides what is secret in whatever a run prints or answers; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from duebook.model.secret import HIDDEN, secrets_in
from duebook.model.target import CommandTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from duebook.model.target import Target

__all__ = ["hide_in", "hiding", "hiding_payload", "hiding_run"]

SHORTEST_VALUE: Final = 8
"""Characters; shorter ones are in too many words."""


def hiding(secrets: Iterable[str]) -> Callable[[str], str]:
    """What replaces every secret in a text, the longest first."""
    words = sorted(set(secrets), key=len, reverse=True)

    def hide(text: str) -> str:
        for word in words:
            text = text.replace(word, HIDDEN)
        return text

    return hide


def hiding_run(target: Target, payload: Any) -> Callable[[str], str]:
    """Hides the values of a command's variables and the secrets of a payload, line by line as they
    are printed."""
    variables = target.env if isinstance(target, CommandTarget) else ()
    return hiding(_lines([*(value for _, value in variables), *secrets_in(payload)]))


def hiding_payload(payload: Any) -> Callable[[str], str]:
    """Hides the secrets of a payload where templates put them."""
    return hiding(_lines(secrets_in(payload)))


def hide_in(form: Any, hide: Callable[[str], str]) -> Any:
    """JSON with every text hidden that has to be."""
    if isinstance(form, str):
        return hide(form)
    if isinstance(form, dict):
        return {name: hide_in(item, hide) for name, item in form.items()}
    return [hide_in(item, hide) for item in form] if isinstance(form, list) else form


def _lines(values: Iterable[str]) -> Iterator[str]:
    for value in values:
        for line in {value, *value.splitlines()}:
            if len(line) >= SHORTEST_VALUE:
                yield line
