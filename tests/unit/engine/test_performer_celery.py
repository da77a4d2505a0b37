"""How a node starts runs with a Celery target: which of them need a thread of their own."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from duebook.engine.performer import TargetPerformer
from duebook.model.run import Outcome
from duebook.secret_sources import SecretSource
from duebook.store.sqlite import SqliteStore
from duebook.targets.context import TaskStop
from duebook.targets.node_secrets import NodeSecrets
from duebook.targets.spawner import Spawner
from tests.support.celery_runs import ADD, FakeCelery
from tests.support.targets import claim_of
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from duebook.model.run import Claim

SECRET: dict[str, Any] = ADD | {"args": ["{{ secret.KEY }}"]}


@pytest.fixture
def celery() -> FakeCelery:
    celery = FakeCelery()
    celery.waits = False
    return celery


@pytest.fixture
def performer(celery: FakeCelery, tmp_path: Path) -> Iterator[TargetPerformer]:
    with closing(SqliteStore(tmp_path / "books.db")) as store:
        secrets = {"team": {"KEY": SecretSource("env", ("TEAM_KEY",))}}
        performer = TargetPerformer(store, Spawner(), lambda: None, secrets=secrets, celery=celery)
        yield performer
        performer.close()


def test_a_run_with_secrets_does_not_fetch_them_where_others_start(
    performer: TargetPerformer, celery: FakeCelery, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[Claim] = []

    def get(*_: object) -> str:
        raise AssertionError("it may take seconds")

    monkeypatch.setattr(NodeSecrets, "get", get)
    slow, quick = claim_of(SECRET), claim_of(ADD)
    begun = [(slow, TaskStop()), (quick, TaskStop())]
    assert performer.begin(begun, lambda claim, _: ended.append(claim)) == [slow]
    assert eventually(lambda: ended) == [quick]
    assert [args for _, args, *_ in celery.sent] == [(1, 2)]


def test_a_run_with_secrets_is_sent_with_them(
    performer: TargetPerformer, celery: FakeCelery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEAM_KEY", "s3cret-value")
    assert performer.perform(claim_of(SECRET), TaskStop()) == Outcome("succeeded")
    assert celery.sent == [("proj.add", ("s3cret-value",), {}, "***")]
