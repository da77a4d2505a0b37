"""Many runs settled together end as each would alone, even if some are invalid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from duebook.engine.settler import Settler
from duebook.ids import new_id
from duebook.model.event import new_draft
from duebook.model.run import Outcome
from tests.support.builders import SECOND, add_run, add_schedule, begin, claim, get_run, lose
from tests.support.event_builders import stamp
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.run import Claim, Token
    from duebook.store.base import Store
    from tests.support.backends import Backend
    from tests.support.builders import VirtualClock

OUTCOMES: Final = (
    Outcome("succeeded"),
    Outcome("failed", "exit_code", "exit code 3", 3),
    Outcome("succeeded", output='{"rows": 1}'),
    Outcome("succeeded"),
    Outcome("failed", "exit_code", "exit code 3", 3),
    Outcome("succeeded", output='{"rows": 2}', output_ref="s3://there"),
    Outcome("cancelled", "cancelled"),
    Outcome("succeeded", output='"' + "x" * 300_000 + '"'),
    Outcome("succeeded", output='"hunter22"', output_secrets=("hunter22",)),
    Outcome("succeeded", output='{"rows": 1}'),
)
TOO_LARGE: Final = Outcome("failed", "exit_code", "exit code", 2**70)
"""A number that no database can store."""


def claimed_runs(store: Store, number: int, ahead: int = 0, **policies: Any) -> list[Claim]:
    """Running runs of one schedule, and `ahead` more that are buffered."""
    schedule = add_schedule(store, overlap="allow", **policies)
    for _ in range(number + ahead):
        add_run(store, schedule)
    begin(store)
    claims, _ = store.transact(
        lambda tx: tx.claims.claim_ahead("node-1", "default", number, ahead, (), "default", ())
    )
    return claims


def settle_many(store: Store, ended: Sequence[tuple[Token, Outcome]], **more: Any) -> set[Token]:
    return store.transact(lambda tx: tx.attempts.settle_all(ended, **more))


def test_many_end_as_each_would_alone(store: Store, clock: VirtualClock, backend: Backend) -> None:
    number = len(OUTCOMES)
    claims = claimed_runs(store, number, ahead=number)
    alone, together = claims[::2], claims[1::2]
    began = clock.advance(SECOND)
    clock.advance(SECOND)
    for claimed, outcome in zip(alone, OUTCOMES, strict=True):
        at = None if claimed.started_at else began
        assert store.transact(
            lambda tx, token=claimed.token, end=outcome, at=at: tx.attempts.settle(  # type: ignore[misc]
                token, end, begun_at=at
            )
        )
    ended = [(c.token, outcome) for c, outcome in zip(together, OUTCOMES, strict=True)]
    begun = {c.token: began for c in together if c.started_at is None}
    assert settle_many(store, ended, begun=begun) == {c.token for c in together}
    for one, other in zip(alone, together, strict=True):
        run, twin = (get_run(store, claimed.run.id) for claimed in (one, other))
        assert run._replace(id="", started_at=None) == twin._replace(id="", started_at=None)
        assert twin.started_at == (other.started_at or began)
    outputs = backend.rows("SELECT length(output) FROM run_outputs")
    assert [row[0] for row in outputs] == [300_002] * 2


def test_a_lost_token_keeps_none_of_the_others_back(store: Store) -> None:
    claims = claimed_runs(store, 6)
    lost = claims[::3]
    for claimed in lost:  # other nodes own their runs by now
        assert store.transact(
            lambda tx, token=claimed.token: tx.attempts.hand_back(token)  # type: ignore[misc]
        )
    begin(store, "node-2")
    assert len(claim(store, "node-2")) == 2
    done = Outcome("succeeded")
    settled = settle_many(store, [(claimed.token, done) for claimed in claims])
    assert settled == {claimed.token for claimed in claims if claimed not in lost}
    for claimed in claims:
        expected = (
            ("running", "host-of-node-2") if claimed in lost else ("succeeded", "host-of-node-1")
        )
        run = get_run(store, claimed.run.id)
        assert (run.status, run.node) == expected


def test_what_a_lost_node_settles_at_once_changes_nothing(store: Store) -> None:
    claims = claimed_runs(store, 3)
    assert lose(store, "node-1") == 3
    assert (
        settle_many(store, [(claimed.token, Outcome("succeeded")) for claimed in claims]) == set()
    )
    assert {get_run(store, claimed.run.id).status for claimed in claims} == {"queued"}


@pytest.mark.parametrize("place", [0, 3, 6])
def test_one_bad_end_leaves_all_of_its_transaction_unwritten(store: Store, place: int) -> None:
    claims = claimed_runs(store, 7)
    ended = [(claimed.token, Outcome("succeeded")) for claimed in claims]
    ended[place] = (claims[place].token, TOO_LARGE)
    with pytest.raises(Exception, match=r"large|range"):
        settle_many(store, ended)
    assert {get_run(store, claimed.run.id).status for claimed in claims} == {"running"}


@pytest.mark.parametrize("bad", [{4}, {0, 1}, {0, 8}, set(range(9))])
def test_bad_ends_are_found_among_many(store: Store, bad: set[int]) -> None:
    """The settler halves a rejected batch until each bad outcome is alone."""
    claims = claimed_runs(store, 9)
    done: list[Claim] = []
    settler = Settler(store, done.extend)
    for number, claimed in enumerate(claims):
        settler.put(claimed, TOO_LARGE if number in bad else Outcome("succeeded"))
    eventually(lambda: len(done) == len(claims))
    settler.close()
    for number, claimed in enumerate(claims):
        run = get_run(store, claimed.run.id)
        expected = ("failed", "error", None) if number in bad else ("succeeded", None, None)
        assert (run.status, run.reason, run.exit_code) == expected


def test_events_of_many_ends_are_numbered_for_each_run(store: Store) -> None:
    claims = claimed_runs(store, 4)
    ended = []
    for claimed in claims:
        drafts = (new_draft(new_id(), "default", "t", None, "k", number) for number in range(3))
        ended.append((claimed.token, Outcome("succeeded", events=tuple(drafts))))
    settle_many(store, ended)
    stamp(store)
    events = store.read(lambda tx: tx.events.read_events("default", 0, 100)).events
    for claimed in claims:
        own = [event for event in events if event.aggregate == f"run:{claimed.run.id}"]
        assert [(event.data, event.version) for event in own] == [(0, 1), (1, 2), (2, 3)]
