"""Folds repeated entries: similar rows of a ledger, and dead letters with the same cause; pure."""

from __future__ import annotations

import hashlib
from itertools import groupby
from typing import TYPE_CHECKING, Final

from duebook.lazy_dataclasses import dataclass
from duebook.model.failures import cause_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence
    from datetime import datetime

    from duebook.explain import Explanation
    from duebook.model.consumer import DeadLetter

__all__ = ["FoldedRow", "LetterGroup", "fold_explanations", "group_letters"]

FEWEST: Final = 3
"""Similar rows in sequence before they are folded."""


@dataclass(frozen=True, slots=True)
class FoldedRow:
    """A row of a ledger, and the rows after it that say the same about other due times."""

    first: Explanation
    others: tuple[Explanation, ...] = ()


def fold_explanations(told: Sequence[Explanation]) -> list[FoldedRow]:
    """Rows in their order; adjacent ones without a run and with the same reason become one."""
    found: list[FoldedRow] = []
    for _, group in groupby(told, _alike):
        rows = list(group)
        if len(rows) < FEWEST or rows[0].run_id:
            found += map(FoldedRow, rows)
        else:
            found.append(FoldedRow(rows[0], tuple(rows[1:])))
    return found


def _alike(one: Explanation) -> Hashable:
    text = "" if one.reason else cause_of(one.text)
    return (one.verdict, one.kind, one.reason, one.run_id, one.other_run_id, text)


@dataclass(frozen=True, slots=True)
class LetterGroup:
    """Dead letters of one consumer with the same cause, the newest first."""

    consumer: str
    cause: str
    letters: tuple[DeadLetter, ...]

    @property
    def key(self) -> str:
        """Distinguishes it from the other groups of its consumer."""
        return hashlib.sha256(self.cause.encode(errors="replace")).hexdigest()[:16]

    @property
    def waiting(self) -> int:
        """How many are not already queued for another delivery."""
        return sum(not letter.again for letter in self.letters)

    @property
    def first_at(self) -> datetime:
        return min(letter.at for letter in self.letters)

    @property
    def last_at(self) -> datetime:
        return max(letter.at for letter in self.letters)


def group_letters(letters: Iterable[DeadLetter]) -> list[LetterGroup]:
    """The groups, the largest first."""
    found: dict[tuple[str, str], list[DeadLetter]] = {}
    for letter in letters:
        found.setdefault((letter.consumer, cause_of(letter.error)), []).append(letter)
    groups = [LetterGroup(*place, tuple(alike)) for place, alike in found.items()]
    return sorted(groups, key=lambda group: (-len(group.letters), group.consumer, group.cause))
