"""How long history is kept: whose keep counts, and what may have been deleted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from duebook.errors import Invalid
from duebook.model.history import Keeps, NamespaceKeep, leaves, read_keep
from duebook.settings import RETENTION

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)


def ago(days: float) -> datetime:
    return NOW - days * DAY


def test_a_schedule_goes_before_its_namespace_and_that_before_the_default() -> None:
    keeps = Keeps({"*": NamespaceKeep(30 * DAY), "shop": NamespaceKeep(7 * DAY)}, 60 * DAY)
    assert Keeps().history("shop").keep == RETENTION
    assert keeps.history("other").keep == 30 * DAY
    assert keeps.history("shop").keep == 7 * DAY
    assert keeps.history("shop", 60 * DAY).keep == 60 * DAY
    assert keeps.longest == 60 * DAY


def test_history_starts_where_nothing_was_deleted_yet() -> None:
    history = Keeps({"*": NamespaceKeep(None, ago(30))}).history("shop")
    assert history.since(NOW) == ago(30), "deleted under a shorter keep"
    assert history.since(NOW + 80 * DAY) == NOW + 80 * DAY - RETENTION


def test_what_others_deleted_is_no_concern_of_those_with_a_keep_of_their_own() -> None:
    keeps = Keeps({"*": NamespaceKeep(DAY, ago(1)), "shop": NamespaceKeep(90 * DAY, ago(20))})
    assert keeps.history("shop").forgotten_until == ago(20)
    assert keeps.history("shop", 90 * DAY).forgotten_until is None
    assert keeps.history("shop", None, 5, ago(2)).forgotten_until == ago(2)
    assert keeps.history("other").forgotten_until == ago(1)


def test_entries_of_the_ledger_that_were_deleted_count_for_all() -> None:
    keeps = Keeps({"*": NamespaceKeep(None, None, ago(3))})
    assert keeps.history("shop", 90 * DAY).since(NOW) == ago(3)


@pytest.mark.parametrize("wrong", ["59m", "0s", "3651d", "soon", 5])
def test_a_keep_has_bounds(wrong: object) -> None:
    with pytest.raises(Invalid, match=r"^keep"):
        read_keep("keep", wrong)


def test_the_newest_success_stays_for_those_who_depend_on_it() -> None:
    ends = [(ago(5), "old", True), (ago(3), "good", True), (ago(2), "bad", False)]
    assert leaves(ends, ago(10), 1, ago(90)) == {"bad", "good"}
    assert leaves(ends, ago(1), None, ago(90)) == {"good"}
    assert leaves(ends, ago(1), None, ago(1)) == set()
    assert leaves(ends, ago(4), None, ago(90)) == {"bad", "good"}
    assert leaves(ends, ago(10), None, ago(90)) == {"old", "good", "bad"}
