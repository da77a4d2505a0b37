"""What nobody has made yet, as values: an edit of a schedule, and a schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.model.schedule import ScheduleSpec

__all__ = ["Drafted", "Edited"]


class Drafted(NamedTuple):
    """A definition, and when it would be due next."""

    spec: ScheduleSpec
    will_be_due: Sequence[datetime]


class Edited(NamedTuple):
    """Definitions and next due times, before and after."""

    before: ScheduleSpec
    after: ScheduleSpec
    was_due: Sequence[datetime]
    will_be_due: Sequence[datetime]
