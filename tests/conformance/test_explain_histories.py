"""Whatever happens to a schedule, every due time has an explanation, and always the same one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duebook.explain.undue import raw_due_times
from tests.support.builders import BEGIN, VirtualClock
from tests.support.histories import HOUR, History

if TYPE_CHECKING:
    from duebook.book import Book


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(n, marks=pytest.mark.long) for n in range(3, 30))]
)
def test_every_due_time_has_one_account(book: Book, clock: VirtualClock, seed: int) -> None:
    history = History(book, clock, seed)
    for _ in range(50):
        history.step()
    end = clock.now + 2 * HOUR
    told = book.schedules.explain(history.id, start=BEGIN - HOUR, end=end)
    assert isinstance(told, list)
    assert [e.at for e in told] == sorted({e.at for e in told}), "in order, each once"
    for explanation in told:
        alone = history.explain(explanation.at)
        assert (alone.verdict, alone.reason) == (explanation.verdict, explanation.reason)
        assert "None" not in explanation.text
    revisions = book.store.read(lambda tx: tx.schedules.list_revisions(history.id))
    ends = [*(revision.valid_from for revision in revisions[1:]), end]
    for revision, until in zip(revisions, ends, strict=True):
        assert revision.spec is not None
        for at in raw_due_times(revision.spec).among(revision.valid_from, until):
            assert history.explain(at).verdict != "unknown", at
