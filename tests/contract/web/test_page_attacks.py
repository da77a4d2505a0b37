"""The attacks of tests/attack/pages.py in short, on a site without a network."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from starlette.testclient import TestClient

from duebook.web import watching
from tests.attack.pages import forge_cursors, freeze_pages, multiply_templates
from tests.support.api import BASE
from tests.support.pages import site_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.store.base import Store


@pytest.fixture
def client(store: Store) -> Callable[[str], TestClient]:
    site = site_on(store)
    return lambda token: TestClient(site, BASE, headers={"Authorization": f"Bearer {token}"})


def test_numbers_that_are_made_up_freeze_nobodys_page(
    client: Callable[[str], TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "LOOK_EVERY", 0.0)
    freeze_pages(client("admin"), client("viewer"), "attack-live")


def test_forged_cursors_are_refused(client: Callable[[str], TestClient]) -> None:
    refused = forge_cursors(client("admin"), client("viewer@elsewhere"), random.Random(7), 50)
    assert refused >= 30


def test_a_template_times_names_ends_at_the_quota(client: Callable[[str], TestClient]) -> None:
    assert multiply_templates(client("admin")) == 10
