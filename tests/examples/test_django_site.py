"""The Django example: an order and its confirmation are one transaction; `manage.py` works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.nodes import ROOT, NodeProcess, World, open_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SITE = ROOT / "examples" / "django_site"
MANAGE = [sys.executable, str(SITE / "manage.py")]
POST = """
import json, sys
from django.test import Client
client = Client(raise_request_exception=False)
answers = [client.post("/orders", {"email": email}) for email in sys.argv[1:]]
print(json.dumps([[answer.status_code, answer.content.decode()] for answer in answers]))
"""
SET_UP = "import django; django.setup()\n"


class Site:
    """The example on a database of its own, always in other processes, as Django is one of each."""

    def __init__(self, world: World, use_tz: bool) -> None:
        self.world = world
        self.env = {"DJANGO_SETTINGS_MODULE": "project.settings", "PYTHONPATH": str(SITE)}
        self.env["USE_TZ"] = str(int(use_tz))
        if world.place == str(world.path):
            self.env["SITE_FILE"] = world.place
        else:
            parts = conninfo_to_dict(world.place)
            names = {"host": "PGHOST", "port": "PGPORT", "dbname": "PGDATABASE", "user": "PGUSER"}
            self.env |= {name: str(parts[key]) for key, name in names.items()}
        self.python([*MANAGE, "migrate", "--verbosity", "0"])

    def python(self, argv: list[str], code: int = 0) -> str:
        done = subprocess.run(  # noqa: S603
            argv,
            env=os.environ | self.env,
            cwd=self.world.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    def order(self, *emails: str) -> list[tuple[int, str]]:
        answers = self.python([sys.executable, "-c", SET_UP + POST, *emails])
        return [(status, content) for status, content in json.loads(answers)]

    def work(self) -> NodeProcess:
        argv = [*MANAGE, "duebook", "--slots", "2"]
        return self.world._begin(argv, os.environ | self.env)

    def shell(self, expression: str) -> Any:
        words = f"{SET_UP}from shop.models import Order\nprint({expression})"
        return eval(self.python([sys.executable, "-c", words]))  # noqa: S307 - our own words


@pytest.fixture(
    params=["sqlite", "postgres", pytest.param("postgres without zones", marks=pytest.mark.long)]
)
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    kind = request.param
    url = None if kind == "sqlite" else request.getfixturevalue("postgres_url")
    with open_world(tmp_path, url) as world:
        yield Site(world, use_tz=not kind.endswith("zones"))


def test_an_order_and_its_confirmation_are_one_transaction(site: Site) -> None:
    (good, content), (bad, _) = site.order("ann@example.org", "")
    assert (good, bad) == (202, 500)
    (run,) = site.world.book.runs.list()
    assert run.id == json.loads(content)["run"]
    assert (run.task, run.payload, run.status) == ("confirm", {"order": 1}, "queued")
    assert site.shell("list(Order.objects.values_list('email', 'confirmed'))") == [
        ("ann@example.org", False)
    ]
    node = site.work()
    site.world.wait_for(run.id, "succeeded")
    assert site.world.book.runs.get(run.id).output == "ann@example.org"
    assert site.shell("Order.objects.get().confirmed") is True
    schedule = site.world.book.schedules.get("count_orders")
    assert schedule.created_by == "code:project"
    counted = site.world.trigger("count_orders")
    site.world.wait_for(counted, "succeeded")
    assert site.world.book.runs.get(counted).output == 1
    assert "tasks: confirm, count_orders" in node.output
    assert node.end() == 0


def test_what_is_wrong_is_told_with_what_helps(tmp_path: Path) -> None:
    enqueue = "from shop.tasks import book; from django.db import connection; "
    enqueue += "book.enqueue('confirm', {'order': 1}, connection=connection)"
    listing = "from shop.tasks import book; book.runs.list()"
    with open_world(tmp_path) as world:
        site = Site(world, use_tz=True)
        said = site.python([*MANAGE, "duebook", "--roles", "boss"], code=1)
        assert said.strip() == 'CommandError: role "boss" is not one of scheduler, worker, relay'
        said = site.python([sys.executable, "-c", SET_UP + enqueue], code=1)
        assert "it is not in a transaction; begin one" in said
        site.env["SITE_FILE"] = ":memory:"
        said = site.python([sys.executable, "-c", SET_UP + listing], code=1)
        assert 'set DATABASES["default"]["TEST"]["NAME"] to the path of a file' in said
