"""Where a node finds its secrets: reads and checks the setting `secrets`; fetches nothing."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, Literal

from duebook.errors import Invalid, shorten
from duebook.ids import is_name
from duebook.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["SecretSource", "Sources", "is_secret_name", "read_sources"]

MOST_SECRETS: Final = 1_000
LONGEST_PATH: Final = 4_000
MOST_ARGUMENTS: Final = 100
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_FORM: Final = '{env = "NAME"}, {file = "/path"} or {command = ["program", "argument"]}'


@dataclass(frozen=True, slots=True)
class SecretSource:
    """Where the value of one secret comes from."""

    kind: Literal["env", "file", "command"]
    place: tuple[str, ...]
    """a variable, a path, or a program with its arguments"""
    pass_env: tuple[str, ...] = ()
    """variables of the node that the program receives in addition to the usual ones"""


Sources = dict[str, dict[str, SecretSource]]
"""By namespace and name. A namespace that is missing has no secrets."""


def is_secret_name(name: object) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def read_sources(text: str) -> Sources:
    """Parse a node's sources from JSON; raises Invalid that names the wrong part."""
    if not text.strip():
        return {}
    try:
        form = json.loads(text)
    except (ValueError, RecursionError):
        raise Invalid(
            "secrets is not valid JSON; write a form such as "
            '{"shop": {"API_KEY": {"env": "SHOP_API_KEY"}}}'
        ) from None
    if not isinstance(form, dict):
        raise Invalid(f"secrets {shorten(form)} is not a table; write [secrets.NAMESPACE]")
    found = {name: _namespace(name, part) for name, part in form.items()}
    if (number := sum(map(len, found.values()))) > MOST_SECRETS:
        raise Invalid(f"secrets has {number:,} entries; at most {MOST_SECRETS:,} are allowed")
    return found


def _namespace(name: str, form: Any) -> dict[str, SecretSource]:
    if not is_name(name):
        raise Invalid(
            f'secrets: "{shorten(name)}" is not a namespace; write [secrets.NAMESPACE], '
            "such as [secrets.default]"
        )
    if not isinstance(form, dict):
        raise Invalid(f"secrets.{name} is not a table; write [secrets.{name}] and names below it")
    return {key: _source(f"secrets.{name}.{shorten(key)}", key, part) for key, part in form.items()}


def _source(at: str, name: str, form: Any) -> SecretSource:
    if not is_secret_name(name):
        raise Invalid(
            f'{at}: "{shorten(name)}" is not a name for a secret; use 1 to 100 letters, digits '
            "and _, beginning with a letter or _"
        )
    kinds = [kind for kind in _READERS if isinstance(form, dict) and kind in form]
    if not isinstance(form, dict) or len(kinds) != 1:
        raise Invalid(f"{at} is not one of {_FORM}")  # the value may be the secret itself
    (kind,) = kinds
    others = sorted(set(form) - {kind} - ({"pass_env"} if kind == "command" else set()))
    if others:
        raise Invalid(f'{at}: key "{shorten(others[0])}" is unknown beside {kind}')
    place = _READERS[kind](at, form[kind])
    passed = tuple(_variable(at, item)[0] for item in _list(at, form.get("pass_env", [])))
    return SecretSource(kind, place, passed)  # type: ignore[arg-type]


def _variable(at: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) and _VARIABLE.fullmatch(value):
        return (value,)
    raise Invalid(f"{at}: it does not name an environment variable")  # it may be the secret


def _path(at: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) and 0 < len(value) <= LONGEST_PATH and "\0" not in value:
        return (value,)
    raise Invalid(f"{at}: file is not a path of 1 to {LONGEST_PATH:,} characters")


def _command(at: str, value: Any) -> tuple[str, ...]:
    words = _list(at, value)
    fits = 0 < len(words) <= MOST_ARGUMENTS and all(
        isinstance(word, str) and "\0" not in word and len(word) <= LONGEST_PATH for word in words
    )
    if fits and words[0]:
        return tuple(words)
    raise Invalid(
        f'{at}: command is not a list of a program and its arguments, such as ["pass", "show", "x"]'
    )


def _list(at: str, value: Any) -> list[Any]:
    if isinstance(value, list) and len(value) <= MOST_ARGUMENTS:
        return value
    raise Invalid(f"{at}: it is not a list of up to {MOST_ARGUMENTS} strings")


_READERS: Final[Mapping[str, Callable[[str, Any], tuple[str, ...]]]] = {
    "env": _variable,
    "file": _path,
    "command": _command,
}
