"""The FastAPI example: its node lives as long as the service, and sends receipts meanwhile."""

from __future__ import annotations

import threading
from importlib import import_module, reload
from typing import TYPE_CHECKING, Any

import pytest
from fastapi.testclient import TestClient

from duebook import Duebook
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path


def service(monkeypatch: pytest.MonkeyPatch, place: str) -> Any:
    """The module, as a new process has it."""
    monkeypatch.setenv("DUEBOOK_DATABASE_URL", place)
    return reload(import_module("examples.fastapi_app"))


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_an_order_leads_to_a_receipt(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("postgres_url") if kind == "postgres" else tmp_path / "shop.db"
    module = service(monkeypatch, str(url))
    before = threading.active_count()
    with TestClient(module.app) as client:
        answers = [
            client.post("/orders", json={"number": 17, "email": "ann@example.org"})
            for _ in range(2)
        ]
        assert [answer.status_code for answer in answers] == [202, 202]
        first, second = (answer.json()["receipt"] for answer in answers)
        assert first == second, "an order that is sent twice has one receipt"

        def ended() -> Any:
            found = client.get(f"/receipts/{first}").json()
            return found if found["status"] == "succeeded" else None

        assert eventually(ended)["output"] == {"sent_to": "ann@example.org"}
    eventually(lambda: threading.active_count() <= before)


def test_a_service_that_ends_at_once_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = service(monkeypatch, str(tmp_path / "shop.db"))
    with TestClient(module.app):
        pass


def test_a_service_whose_node_cannot_begin_does_not_start(tmp_path: Path) -> None:
    book = Duebook(str(tmp_path / "shop.db"))
    with pytest.raises(ValueError, match='role "boss" is not one of'), book.running(("boss",)):
        pytest.fail("it has begun")
