"""Reads stored definitions; equal texts are parsed once, whichever schedule they belong to."""

from __future__ import annotations

from copy import deepcopy
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from duebook.model.invalid import InvalidSchedule
from duebook.model.schedule import ScheduleSpec
from duebook.model.target import CommandTarget, TaskTarget
from duebook.model.unreadable import read_fields_and_spec, read_spec

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["read_stored"]

MOST_KNOWN: Final = 2_000
LONGEST_KNOWN: Final = 2_000
"""Maximum characters of a cached text, so that all together take some megabytes at most."""


def read_stored(text: str, name: str) -> ScheduleSpec:
    """Like `read_spec`, but quicker for a text that was read recently. The caller gets its own
    copy, so that changing a payload does not affect others."""
    known = _known(text) if len(text) <= LONGEST_KNOWN else None
    if known is None:
        return read_spec(text, name)
    fields, spec = known
    if "payload" in fields:
        return ScheduleSpec(**{**fields, "payload": deepcopy(fields["payload"])})
    return ScheduleSpec(**fields).written_as(spec)


@lru_cache(MOST_KNOWN)
def _known(text: str) -> tuple[Mapping[str, Any], ScheduleSpec] | None:
    """The fields of a definition that means the same for every schedule, as it is read without a
    name.

    None for one that needs the name, that is invalid, or whose target holds mutable values.
    """
    try:
        fields, spec = read_fields_and_spec(text, None)
    except InvalidSchedule:
        return None
    fixed = isinstance(spec.target, TaskTarget | CommandTarget)
    return (fields, spec) if fixed and not spec.depends_on else None
