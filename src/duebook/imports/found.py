"""What an import found: schedules for a file, and by line what cannot be carried over; pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final

from duebook.book.bulk import MOST_AT_ONCE
from duebook.errors import Invalid, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.model.definition import load_spec
from duebook.model.secret import is_secret
from duebook.model.secret_values import mentions_secret

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.triggers import Trigger

__all__ = ["BROKEN", "Found", "Import", "Left", "NotCarried", "finish", "name_of"]

LONGEST_NAME: Final = 100
"""Shorter than names may be, which leaves room for a suffix that distinguishes two of them."""
BROKEN: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Exceptions that reading a value of an unexpected kind raises."""
_OTHER: Final = re.compile(r"[^a-z0-9._]+")


class NotCarried(Exception):
    """An entry of the source that cannot become a schedule; the message says why."""


@dataclass(frozen=True, slots=True)
class Found:
    """An entry of the source as a schedule."""

    name: str
    form: dict[str, Any]
    """its definition, without the name"""
    place: str
    """such as `crontab:12`"""
    notes: tuple[str, ...] = ()
    """what is not carried over, or works differently"""
    triggers: tuple[Trigger, ...] = ()
    """the triggers that were read from the form"""


@dataclass(frozen=True, slots=True)
class Left:
    """An entry of the source that is not imported."""

    place: str
    what: str
    """its text; empty if the place identifies it"""
    why: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.place, self.what, self.why) if part)


@dataclass(slots=True)
class Import:
    """What a source contains, in its order."""

    found: list[Found] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """about the whole source"""

    def leave(self, place: str, what: str, why: object) -> None:
        self.left.append(Left(place, shorten(" ".join(what.split()), 100), str(why)))


def name_of(*texts: str) -> str:
    """A name for a schedule from strings such as the words of a command: in lower case, with `-`
    for characters that names cannot have."""
    words = [_OTHER.sub("-", text.lower()).strip("-._") for text in texts]
    return "-".join(word for word in words if word)[:LONGEST_NAME].strip("-._") or "job"


def finish(found: Import, labels: dict[str, str]) -> Import:
    """The same with unique names, with labels, and only with definitions that Duebook accepts."""
    done = Import(left=list(found.left), notes=list(dict.fromkeys(found.notes)))
    taken: set[str] = set()
    repeated: Counter[str] = Counter()
    for one in found.found:
        form = one.form | ({"labels": one.form.get("labels", {}) | labels} if labels else {})
        name = _free_name(one.name, form, taken, repeated)
        try:
            _refuse_secrets(form)
            triggers = _read(form, name)
            json.dumps(form, ensure_ascii=False).encode()
        except (TypeError, UnicodeEncodeError):
            done.leave(one.place, one.name, "it has a value that cannot be written as text")
            continue
        except (Invalid, NotCarried) as error:
            done.leave(one.place, one.name, error)
            continue
        if len(taken) == MOST_AT_ONCE:
            told = f"a file can have at most {MOST_AT_ONCE:,} schedules; split the source"
            done.leave(one.place, "this and what follows", told)
            break
        taken.add(name)
        notes = (*one.notes, *_secrets(form))
        done.found.append(
            replace(one, name=name, form=form, notes=tuple(dict.fromkeys(notes)), triggers=triggers)
        )
    done.left.sort(key=_by_place)
    return done


def _by_place(left: Left) -> tuple[str, int]:
    """A sort key that puts line 9 before line 10."""
    file, _, line = left.place.rpartition(":")
    return (file, int(line)) if line.isdigit() else (left.place, 0)


def _free_name(name: str, form: dict[str, Any], taken: set[str], repeated: Counter[str]) -> str:
    """The name itself, or with a digest of the definition, so that it stays the same when lines
    before it change. `repeated` counts the names that have a digest."""
    if name not in taken:
        return name
    text = json.dumps(form, sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:4]
    free = longer = f"{name}-{digest}"
    while free in taken:
        repeated[longer] += 1
        free = f"{longer}-{repeated[longer] + 1}"
    return free


def _read(form: dict[str, Any], name: str) -> tuple[Trigger, ...]:
    checked = {key: value for key, value in form.items() if key != "enabled"}
    return load_spec(checked, name).triggers


def _refuse_secrets(form: dict[str, Any]) -> None:
    """Raises NotCarried for a literal string that Duebook would read as a secret."""
    target = form.get("target")
    command = target if isinstance(target, dict) else {}
    texts = [(key, command.get(key)) for key in ("shell", "cwd")]
    for name, text in (*texts, *_variables(form).items()):
        if mentions_secret(text):
            raise NotCarried(f"{shorten(name)} would read a secret of Duebook; change its value")


def _variables(form: dict[str, Any]) -> dict[str, Any]:
    target = form.get("target")
    return target.get("env", {}) if isinstance(target, dict) else {}


def _secrets(form: dict[str, Any]) -> Sequence[str]:
    """A note on values with names such as API_KEY, which are then in the file."""
    names = sorted(name for name in _variables(form) if is_secret(name))
    if not names:
        return ()
    told = f"the file contains the value of {', '.join(names)}"
    return (f"{told}; to keep it out, use {{{{ secret.NAME }}}}",)
